-- policy.sql: what lanes say of their claims and jobs: the statements of
-- ext/lane/policy.c.

-- name: POLICY_ROW
-- What holds for a lane: its own word; of what is not about one lane alone,
-- else that of the row which is about every lane.  No row: nobody says
-- anything.  The first columns are in the order of CqPolicyOpt.
SELECT o.max_active AS max_active, o.rate AS rate, o.per_ms AS per_ms,
  o.group_max_active AS group_max_active, o.group_rate AS group_rate,
  o.group_per_ms AS group_per_ms, o.fair AS fair,
  ifnull(o.paused, d.paused) AS paused,
  ifnull(o.max_attempts, d.max_attempts) AS max_attempts,
  ifnull(o.backoff_ms, d.backoff_ms) AS backoff_ms,
  ifnull(o.backoff_factor, d.backoff_factor) AS backoff_factor,
  ifnull(o.backoff_max_ms, d.backoff_max_ms) AS backoff_max_ms,
  ifnull(o.max_reclaims, d.max_reclaims) AS max_reclaims,
  ifnull(o.max_runtime_ms, d.max_runtime_ms) AS max_runtime_ms,
  ifnull(o.lease_ms, d.lease_ms) AS lease_ms,
  ifnull(o.strict, d.strict) AS strict,
  ifnull(o.keep_ms, d.keep_ms) AS keep_ms,
  ifnull(o.keep_failed_ms, d.keep_failed_ms) AS keep_failed_ms,
  ifnull(o.events, d.events) AS events,
  ifnull(o.reclaim, d.reclaim)='grant' AS reclaim,
  ifnull(o.admission, d.admission)='grant' AS admission,
  o.groups AS groups, o.begun AS begun, o.last_ms AS last_ms, o.turn AS turn,
  o.keyless_turn AS keyless_turn, o.fair_from AS fair_from,
  o.counted AS counted, o.look_from AS look_from
FROM (SELECT 1) LEFT JOIN {{S}}.claimq_policy AS o ON o.lane=:lane
  LEFT JOIN {{S}}.claimq_policy AS d ON d.lane IS NULL
WHERE o.fair IS NOT NULL OR d.fair IS NOT NULL

--------------------------------------------------------------------------
-- claimq_policy()

-- name: POLICY_OWN
-- What a lane says itself, or the row for every lane (:lane is NULL).
SELECT max_active, rate, per_ms, group_max_active, group_rate, group_per_ms,
  fair, paused, max_attempts, backoff_ms, backoff_factor, backoff_max_ms,
  max_reclaims, max_runtime_ms, lease_ms, strict, keep_ms, keep_failed_ms,
  events,
  reclaim='grant' AS reclaim, admission='grant' AS admission, counted
FROM {{S}}.claimq_policy WHERE lane IS :lane

-- name: POLICY_SET
-- (A lane that is NULL meets no UNIQUE: its row is found by its rowid.)
INSERT INTO {{S}}.claimq_policy(rowid,
  lane, max_active, rate, per_ms, group_max_active, group_rate, group_per_ms,
  fair, paused, max_attempts, backoff_ms, backoff_factor, backoff_max_ms,
  max_reclaims, max_runtime_ms, lease_ms, strict, keep_ms, keep_failed_ms,
  events, reclaim, admission, groups, counted, look_from)
VALUES((SELECT rowid FROM {{S}}.claimq_policy WHERE lane IS :lane),
  {{WROTE :lane}}, :max_active, :rate, :per_ms, :group_max_active, :group_rate,
  :group_per_ms, :fair, :paused, :max_attempts, :backoff_ms, :backoff_factor,
  :backoff_max_ms, :max_reclaims, :max_runtime_ms, :lease_ms, :strict,
  :keep_ms, :keep_failed_ms, :events,
  iif(:reclaim=1, 'grant', iif(:reclaim=0, 'auto', NULL)),
  iif(:admission=1, 'grant', iif(:admission=0, 'auto', NULL)),
  :groups, :counted, :from)
ON CONFLICT DO UPDATE SET
  max_active=excluded.max_active, rate=excluded.rate, per_ms=excluded.per_ms,
  group_max_active=excluded.group_max_active, group_rate=excluded.group_rate,
  group_per_ms=excluded.group_per_ms,
  fair_from=iif(excluded.fair AND NOT fair, turn, fair_from),
  keyless_turn=iif(excluded.fair AND NOT fair, 0, keyless_turn),
  fair=excluded.fair, paused=excluded.paused,
  max_attempts=excluded.max_attempts, backoff_ms=excluded.backoff_ms,
  backoff_factor=excluded.backoff_factor,
  backoff_max_ms=excluded.backoff_max_ms, max_reclaims=excluded.max_reclaims,
  max_runtime_ms=excluded.max_runtime_ms, lease_ms=excluded.lease_ms,
  strict=excluded.strict, keep_ms=excluded.keep_ms,
  keep_failed_ms=excluded.keep_failed_ms, events=excluded.events,
  reclaim=excluded.reclaim, admission=excluded.admission,
  groups=excluded.groups, counted=excluded.counted,
  look_from=excluded.look_from

-- name: POLICY_UNSET
DELETE FROM {{S}}.claimq_policy WHERE lane IS :lane AND {{WROTE 1}}

-- name: POLICY_KEEPS
-- Does the lane keep anything of groups, or of when claims began?
SELECT EXISTS(SELECT 1 FROM {{S}}.claimq_group WHERE lane=:lane)
  OR EXISTS(SELECT 1 FROM {{S}}.claimq_start WHERE lane=:lane) AS groups

--------------------------------------------------------------------------
-- claimq_check

-- name: POLICY_CHECK like CHECK
SELECT 'claimq_policy' AS table_name, ifnull(lane, 'of every lane') AS row_key,
  problem
FROM (SELECT lane, CASE
    {{CHECK_TEXT_NULL lane}} {{CHECK_INT_NULL max_active}}
    {{CHECK_INT_NULL rate}} {{CHECK_INT_NULL per_ms}}
    {{CHECK_INT_NULL group_max_active}}
    {{CHECK_INT_NULL group_rate}} {{CHECK_INT_NULL group_per_ms}}
    {{CHECK_BOOL fair}} {{CHECK_INT begun}} {{CHECK_INT last_ms}}
    {{CHECK_INT turn}} {{CHECK_INT keyless_turn}} {{CHECK_INT fair_from}}
    {{CHECK_BOOL groups}}
    {{CHECK_BOOL counted}} {{CHECK_INT_NULL paused}}
    {{CHECK_INT_NULL max_attempts}} {{CHECK_INT_NULL backoff_ms}}
    {{CHECK_INT_NULL backoff_factor}} {{CHECK_INT_NULL backoff_max_ms}}
    {{CHECK_INT_NULL max_reclaims}} {{CHECK_INT_NULL max_runtime_ms}}
    {{CHECK_INT_NULL lease_ms}} {{CHECK_INT_NULL strict}}
    {{CHECK_INT_NULL keep_ms}} {{CHECK_INT_NULL keep_failed_ms}}
    {{CHECK_INT_NULL events}}
    WHEN paused NOT BETWEEN 0 AND 1 THEN 'bad paused'
    WHEN max_attempts<0 THEN 'bad max_attempts'
    WHEN backoff_ms<0 THEN 'bad backoff_ms'
    WHEN backoff_factor<0 THEN 'bad backoff_factor'
    WHEN backoff_max_ms<0 THEN 'bad backoff_max_ms'
    WHEN max_reclaims<0 THEN 'bad max_reclaims'
    WHEN max_runtime_ms<1 THEN 'bad max_runtime_ms'
    WHEN lease_ms<0 THEN 'bad lease_ms'
    WHEN strict NOT BETWEEN 0 AND 1 THEN 'bad strict'
    WHEN keep_ms<-1 THEN 'bad keep_ms'
    WHEN keep_failed_ms<-1 THEN 'bad keep_failed_ms'
    WHEN events NOT BETWEEN 0 AND 1 THEN 'bad events'
    WHEN reclaim NOT IN ('auto','grant') THEN 'bad reclaim'
    WHEN admission NOT IN ('auto','grant') THEN 'bad admission'
    WHEN lane IS NULL AND (fair OR groups OR max_active IS NOT NULL
      OR rate IS NOT NULL OR group_max_active IS NOT NULL
      OR group_rate IS NOT NULL) THEN 'limits are of one lane'
    WHEN max_active<0 THEN 'bad max_active'
    WHEN rate NOT BETWEEN 0 AND 10000 THEN 'bad rate'
    WHEN per_ms<1 OR (rate IS NULL)<>(per_ms IS NULL) THEN 'bad per_ms'
    WHEN group_max_active<0 THEN 'bad group_max_active'
    WHEN group_rate NOT BETWEEN 0 AND 10000 THEN 'bad group_rate'
    WHEN group_per_ms<1 OR (group_rate IS NULL)<>(group_per_ms IS NULL)
    THEN 'bad group_per_ms'
    WHEN last_ms<(
      SELECT max(s.at_ms) FROM {{S}}.claimq_start AS s
      WHERE s.lane=l.lane) THEN 'last_ms is before a start'
    WHEN keyless_turn>turn OR turn<(
      SELECT max(g.turn) FROM {{S}}.claimq_group AS g
      WHERE g.lane=l.lane) THEN 'turn is not the last turn taken'
    WHEN NOT groups AND (group_max_active IS NOT NULL OR group_rate IS NOT NULL
      OR fair) THEN 'groups does not fit the limits'
    WHEN NOT claimq__sound(lane) {{CHECK_UNSOUND}}
    WHEN (64+iif(strict=1, 256, 0)+iif(max_runtime_ms IS NULL, 0, 512)
      +iif(reclaim='grant' OR admission='grant', 1024, 0)
      +iif(NOT groups AND coalesce(max_active, rate, paused, max_reclaims,
         max_runtime_ms, lease_ms, reclaim, admission) IS NULL, 0, 2048))
      & ~(SELECT value FROM {{S}}.claimq_meta WHERE name='settings')
    THEN 'claims do not look for limits: call claimq_policy()'
  END AS problem FROM {{S}}.claimq_policy AS l)
WHERE problem IS NOT NULL
