-- limit.sql: limits and fairness of lanes: the statements of ext/lane/limit.c
-- and ext/lane/group.c.

--------------------------------------------------------------------------
-- How much of the limits of a lane is used up.  (What they are: policy.sql.)

-- fragment: LIMIT_LANE_LEASES
{{S}}.claimq_slot WHERE lane=:lane AND expires_at_ms>:now

-- fragment: LIMIT_GROUP_LEASES
{{S}}.claimq_slot WHERE lane=:lane AND group_id=:group AND expires_at_ms>:now

-- fragment: LIMIT_LANE_HELD
-- The same where not all that is held has a slot.
{{S}}.claimq_job NOT INDEXED WHERE lane=:lane AND terminal_at_ms IS NULL
AND claim_id IS NOT NULL AND expires_at_ms>:now

-- fragment: LIMIT_GROUP_HELD
{{LIMIT_LANE_HELD}} AND group_key=ifnull(:key, (
  SELECT g.group_key FROM {{S}}.claimq_group AS g WHERE g.group_id=:group))

-- name: LIMIT_LANE_LIVE
-- How many leases are live?
SELECT count(*) AS n FROM {{LIMIT_LANE_LEASES}}

-- name: LIMIT_GROUP_LIVE like LIMIT_LANE_LIVE
SELECT count(*) AS n FROM {{LIMIT_GROUP_LEASES}}

-- name: LIMIT_LANE_ALL like LIMIT_LANE_LIVE
SELECT count(*) AS n FROM {{LIMIT_LANE_HELD}}

-- name: LIMIT_GROUP_ALL like LIMIT_LANE_LIVE
SELECT count(*) AS n FROM {{LIMIT_GROUP_HELD}}

-- name: LIMIT_LANE_END like LIMIT_LANE_LIVE
-- When does the :nth of them end?
SELECT expires_at_ms AS n FROM {{LIMIT_LANE_LEASES}}
ORDER BY expires_at_ms LIMIT 1 OFFSET :nth-1

-- name: LIMIT_GROUP_END like LIMIT_LANE_LIVE
SELECT expires_at_ms AS n FROM {{LIMIT_GROUP_LEASES}}
ORDER BY expires_at_ms LIMIT 1 OFFSET :nth-1

-- name: LIMIT_LANE_ALL_END like LIMIT_LANE_LIVE
SELECT expires_at_ms AS n FROM {{LIMIT_LANE_HELD}}
ORDER BY expires_at_ms LIMIT 1 OFFSET :nth-1

-- name: LIMIT_GROUP_ALL_END like LIMIT_LANE_LIVE
SELECT expires_at_ms AS n FROM {{LIMIT_GROUP_HELD}}
ORDER BY expires_at_ms LIMIT 1 OFFSET :nth-1

-- name: LIMIT_LAST like LIMIT_LANE_LIVE
-- The number of the last claim that began.
SELECT max(seq) AS n FROM {{S}}.claimq_start
WHERE lane=:lane AND group_id=:group

-- name: LIMIT_START like LIMIT_LANE_LIVE
-- When did claim number :nth begin?
SELECT at_ms AS n FROM {{S}}.claimq_start
WHERE lane=:lane AND group_id=:group AND seq=:nth

-- name: LIMIT_OF_JOB
-- The lane and the group of a job.
SELECT lane, iif(group_key IS NULL, 0, ifnull((
    SELECT g.group_id FROM {{S}}.claimq_group AS g
    WHERE g.lane=j.lane AND g.group_key=j.group_key), -1)) AS group_id,
  group_key
FROM {{S}}.claimq_job AS j WHERE job_id=:job

--------------------------------------------------------------------------
-- What groups have used up, for whoever looks at all jobs of a lane.

-- name: LIMIT_BUSY
-- The leases that are live, by their ends; :from is now.
SELECT g.group_key AS group_key, s.expires_at_ms AS at_ms
FROM {{S}}.claimq_slot AS s CROSS JOIN {{S}}.claimq_group AS g
WHERE s.lane=:lane AND s.expires_at_ms>:from AND s.group_id>0
  AND g.group_id=s.group_id
ORDER BY s.expires_at_ms

-- name: LIMIT_BUSY_ALL like LIMIT_BUSY
-- The same where not all that is held has a slot.
SELECT group_key, expires_at_ms AS at_ms
FROM {{S}}.claimq_job NOT INDEXED
WHERE lane=:lane AND terminal_at_ms IS NULL AND claim_id IS NOT NULL
  AND expires_at_ms>:from AND group_key IS NOT NULL
ORDER BY expires_at_ms

-- name: LIMIT_BUSY_STARTS like LIMIT_BUSY
-- Claims that began after :from, of each group the latest first.
SELECT g.group_key AS group_key, s.at_ms AS at_ms
FROM {{S}}.claimq_start AS s CROSS JOIN {{S}}.claimq_group AS g
WHERE s.lane=:lane AND s.group_id>0 AND s.at_ms>:from
  AND g.group_id=s.group_id
ORDER BY s.group_id DESC, s.seq DESC

--------------------------------------------------------------------------
-- Choosing jobs in a lane that keeps groups.

-- fragment: LIMIT_HEADS
lane=:lane AND partition=:partition AND capabilities=:capabilities

-- fragment: LIMIT_HEAD
-- (Where groups take no turns that of the group is not looked up.)
head_id, group_id, turn, priority, created_at_ms, job_id,
iif(:fair_from=9223372036854775807, 0, (
  SELECT iif(g.turn>:fair_from, g.turn, 0) FROM {{S}}.claimq_group AS g
  WHERE g.group_id=claimq_head.group_id)) AS group_turn

-- name: LIMIT_OPEN
-- The heads of a set that may be taken from, in order; and what they promise.
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE {{LIMIT_HEADS}} AND place=-1
ORDER BY turn, priority DESC, created_at_ms, job_id

-- name: LIMIT_LATE like LIMIT_OPEN
-- Those of which something has fallen due: the group opened, or a job waited.
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE {{LIMIT_HEADS}} AND place BETWEEN 0 AND :now
UNION ALL
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_due
WHERE {{LIMIT_HEADS}} AND due BETWEEN 0 AND :now

-- name: LIMIT_CLOSED like LIMIT_OPEN
-- Those that seem to be closed, though the limits may have changed since
-- somebody looked.
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE {{LIMIT_HEADS}} AND place>:now AND :from<=(
  SELECT g.group_key FROM {{S}}.claimq_group AS g
  WHERE g.group_id=claimq_head.group_id)

-- name: LIMIT_BEHIND like LIMIT_OPEN
-- Those that stand at a turn that does not count any more, and so behind where
-- they belong.
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE {{LIMIT_HEADS}} AND place=-1 AND turn BETWEEN 1 AND :fair_from
  AND ifnull(due, -1) NOT BETWEEN 0 AND :now    -- LIMIT_LATE brings those

-- name: LIMIT_WHEN
-- When will something fall due?  (Of those that LIMIT_CLOSED brings, their
-- groups know better.)
SELECT min(at) AS at_ms FROM (
  SELECT min(place) AS at FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
  WHERE {{LIMIT_HEADS}} AND place>:now AND (:from IS NULL OR :from>(
    SELECT g.group_key FROM {{S}}.claimq_group AS g
    WHERE g.group_id=claimq_head.group_id))
  UNION ALL
  SELECT min(due) FROM {{S}}.claimq_head INDEXED BY claimq_head_by_due
  WHERE {{LIMIT_HEADS}} AND due>:now)

-- name: LIMIT_NEXT_CAPS like LANE_NEXT_SET
-- The first set of capabilities after :set that a head has.
SELECT min(capabilities) AS bucket
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE lane=:lane AND partition=:partition
  AND capabilities>:set AND place IS NOT NULL

-- name: LIMIT_UNPLACED
-- Jobs of a group that do not stand with it yet: the ready ones in order, then
-- those that became due.
SELECT job_id, priority, created_at_ms, {{JOB_DUE}} AS due, group_key, ifnull((
    SELECT g.group_id FROM {{S}}.claimq_group AS g
    WHERE g.lane=:lane AND g.group_key=claimq_job.group_key), 0) AS group_id,
  ifnull((
    SELECT iif(g.turn>:fair_from, g.turn, 0) FROM {{S}}.claimq_group AS g
    WHERE g.lane=:lane AND g.group_key=claimq_job.group_key), 0) AS turn
FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND {{JOB_DUE}}<=:now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

--------------------------------------------------------------------------
-- Placing jobs with their groups.

-- name: LIMIT_TO_PLACE
SELECT job_id FROM {{LANE_INDEX}} WHERE {{LANE_SET}}
ORDER BY {{LANE_INDEX_ORDER}} LIMIT :limit

-- name: LIMIT_PLACE_GROUPS
-- The groups of the jobs of a list, those that are not there.
INSERT INTO {{S}}.claimq_group(lane, group_key)
SELECT DISTINCT j.lane, j.group_key
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.group_key IS NOT NULL
ON CONFLICT DO NOTHING

-- name: LIMIT_PLACE_HEADS like LIMIT_PLACE_GROUPS
INSERT INTO {{S}}.claimq_head(lane, partition, capabilities, group_id)
SELECT DISTINCT j.lane, j.partition, j.capabilities, g.group_id
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
  CROSS JOIN {{S}}.claimq_group AS g
WHERE j.job_id=l.id AND g.lane=j.lane AND g.group_key=j.group_key
ON CONFLICT DO NOTHING

-- name: LIMIT_PLACE_JOBS like LIMIT_PLACE_GROUPS
-- One that is held goes to where it waits.
UPDATE {{S}}.claimq_job AS j SET head_id=(
    SELECT h.head_id FROM {{S}}.claimq_group AS g CROSS JOIN {{S}}.claimq_head
      AS h
    WHERE g.lane=j.lane AND g.group_key=j.group_key
      AND h.group_id=g.group_id AND h.partition=j.partition
      AND h.capabilities=j.capabilities),
  place=claimq__note(:wrote, CASE
    WHEN claim_id IS NULL OR {{JOB_DUE}}>=0 THEN place
    WHEN {{LANE_AUTO}} THEN max(0, ifnull(expires_at_ms, 0)) ELSE -2 END)
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE j.job_id=l.id AND j.group_key IS NOT NULL AND j.terminal_at_ms IS NULL

-- name: LIMIT_PLACED
-- The heads that the jobs of a list stand with.
SELECT DISTINCT j.head_id AS head_id
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.head_id IS NOT NULL

-- name: LIMIT_HEAD_OF
-- The head of a new job, and what comes first there; and whether it is known
-- without a closer look from when on it may be taken from: it has a job, or it
-- has none at all, and nothing counts for its group.
SELECT h.head_id AS head_id, h.priority AS priority,
  h.created_at_ms AS created_at_ms, h.job_id AS job_id,
  h.job_id IS NOT NULL OR h.place IS NULL
    AND NOT EXISTS(SELECT 1 FROM {{S}}.claimq_slot AS s
      WHERE s.lane=:lane AND s.group_id=g.group_id)
    AND NOT EXISTS(SELECT 1 FROM {{S}}.claimq_start AS s
      WHERE s.lane=:lane AND s.group_id=g.group_id)
    AND EXISTS(SELECT 1 FROM {{S}}.claimq_policy AS p
      WHERE p.lane=:lane AND ifnull(p.group_max_active, 1)>0
        AND ifnull(p.group_rate, 1)>0) AS known
FROM {{S}}.claimq_group AS g CROSS JOIN {{S}}.claimq_head AS h
WHERE g.lane=:lane AND g.group_key=:group_key AND h.group_id=g.group_id
  AND h.partition=:partition AND h.capabilities=:capabilities

-- name: LIMIT_HEAD_FIRST
-- A new job is the first of its head.
UPDATE {{S}}.claimq_head SET place=iif(job_id IS NULL, -1, place),
  priority=:priority, created_at_ms=:now, job_id={{WROTE :job}}
WHERE head_id=:head_id

--------------------------------------------------------------------------
-- Upkeep of heads and groups.

-- name: LIMIT_HEADLESS
-- The head of a job is gone.
UPDATE {{S}}.claimq_job SET head_id={{WROTE NULL}}
WHERE job_id=:job AND terminal_at_ms IS NULL

-- name: LIMIT_HEADS_OF
SELECT head_id FROM {{S}}.claimq_head WHERE group_id=:group

-- name: LIMIT_SEEN
-- A head as it stands, and what it should say: the first of its jobs, ready or
-- not; and if that is ready, when the next of those that wait is due.  (The +
-- lets the index be used: as a column head_id would make SQLite look at each
-- bucket as a number.)
SELECT h.lane AS lane, h.group_id AS group_id, h.place AS place, h.due AS due,
  h.turn AS turn, h.job_id AS job_id, h.priority AS priority,
  h.created_at_ms AS created_at_ms, f.due AS first_due, f.job_id AS first_id,
  f.priority AS first_priority, f.created_at_ms AS first_created,
  iif(f.due<0, (
    SELECT {{JOB_DUE}} FROM {{LANE_INDEX}}
    WHERE lane=h.lane AND partition=h.partition
      AND {{JOB_BUCKET}}=+h.head_id AND {{JOB_DUE}}>=0 AND {{LANE_THERE}}
    ORDER BY {{JOB_DUE}} LIMIT 1),
    f.due) AS wait, (
    SELECT g.turn FROM {{S}}.claimq_group AS g
    WHERE g.group_id=h.group_id) AS group_turn
FROM {{S}}.claimq_head AS h
  LEFT JOIN (
    SELECT job_id, priority, created_at_ms, {{JOB_DUE}} AS due
    FROM {{S}}.claimq_job) AS f
    ON f.job_id=(
      SELECT job_id FROM {{LANE_INDEX}}
      WHERE lane=h.lane AND partition=h.partition
        AND {{JOB_BUCKET}}=+h.head_id AND {{LANE_THERE}}
      ORDER BY {{LANE_INDEX_ORDER}} LIMIT 1)
WHERE h.head_id=:head_id

-- name: LIMIT_SEE
-- Write down what was seen.
UPDATE {{S}}.claimq_head SET place={{WROTE :place}}, due=:due, turn=:turn,
  job_id=:job, priority=:priority, created_at_ms=:created_at_ms
WHERE head_id=:head_id

-- name: LIMIT_HEAD_PARTITION
SELECT partition FROM {{S}}.claimq_head WHERE head_id=:head_id

-- name: LIMIT_GROUP_OF
-- The group of a head.
SELECT group_id FROM {{S}}.claimq_head WHERE head_id=:head_id

-- name: LIMIT_GROUPS_OF like LIMIT_PLACED
-- The groups of the heads of a list.
SELECT DISTINCT h.group_id AS head_id
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_head AS h
WHERE h.head_id=l.id

-- name: LIMIT_GROUP_BEGUN
-- A claim of the group begins.
UPDATE {{S}}.claimq_group SET at_ms=max(at_ms, {{WROTE :now}}),
  turn=max(turn, :turn)
WHERE group_id=:group

-- name: LIMIT_GROUPS_FROM
-- Groups of a lane that are to be looked at again.
SELECT group_id, group_key FROM {{S}}.claimq_group
WHERE lane=:lane AND group_key>=:from ORDER BY group_key LIMIT :limit

-- name: LIMIT_LOOKED
UPDATE {{S}}.claimq_policy SET look_from={{WROTE :from}} WHERE lane=:lane

--------------------------------------------------------------------------
-- Stamping jobs, and counting.

-- fragment: LIMIT_SAME
-- Nobody has claimed in the lane since the limits were read.  (Where SQLite
-- isolates connections that is so; with read_uncommitted it does not.)
:begun=(SELECT n.begun FROM {{S}}.claimq_policy AS n WHERE n.lane=j.lane)

-- name: LIMIT_STAMP_NEW like LANE_STAMP_NEW
-- A new job of a lane with limits.  If it stands with its group it goes to
-- where it waits.
UPDATE {{S}}.claimq_job AS j SET state='active', {{STAMP}},
  fencing_token=:fence, attempts=attempts+1, slot=:slot,
  place=CASE WHEN head_id IS NULL THEN place
             WHEN {{LANE_AUTO}} THEN :expires ELSE -2 END
WHERE job_id=:head AND claim_id IS NULL AND {{JOB_READY}}
  AND terminal_at_ms IS NULL
  AND (fencing_token=:fence-1 OR {{LANE_FENCE}}=:fence)

-- name: LIMIT_STAMP_STAY like LANE_STAMP_NEW
-- The same where no job stands with a group: none is moved.
UPDATE {{S}}.claimq_job AS j SET state='active', {{STAMP}},
  fencing_token=:fence, attempts=attempts+1, slot=:slot
WHERE job_id=:head AND claim_id IS NULL AND {{JOB_READY}}
  AND terminal_at_ms IS NULL
  AND (fencing_token=:fence-1 OR {{LANE_FENCE}}=:fence)

-- fragment: LIMIT_SLOT
-- :slot: 1 if the lane keeps groups, 0 if it only counts leases; or NULL.
slot=CASE WHEN l.claim_id IS NULL THEN NULL
          WHEN :slot THEN {{LIMIT_GROUP_ID}} ELSE :slot END

-- fragment: LIMIT_GROUP_ID
-- The group of job j, 0 if it has none.
ifnull((SELECT g.group_id FROM {{S}}.claimq_group AS g
        WHERE g.lane=j.lane AND g.group_key=j.group_key), 0)

-- name: LIMIT_STAMP like LANE_STAMP
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}, {{LIMIT_SLOT}}
FROM claimq__ids(:ids) AS l WHERE {{LANE_TAKEABLE}} AND {{LIMIT_SAME}}

-- name: LIMIT_RECLAIM like LANE_STAMP
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}, {{LIMIT_SLOT}}
FROM claimq__ids(:ids) AS l
WHERE {{LANE_TAKEABLE}} AND {{LANE_GRANTABLE}} AND {{LIMIT_SAME}}

-- name: LIMIT_TAKEN
-- What a claim has to know of the jobs it took: their groups and heads.
SELECT job_id, head_id, {{LIMIT_GROUP_ID}} AS group_id
FROM {{S}}.claimq_job AS j WHERE job_id=:job

-- name: LIMIT_SLOT_ADD
-- (One may be left of a job that a REPLACE removed while it was held.)
INSERT OR REPLACE INTO {{S}}.claimq_slot(lane, expires_at_ms, job_id, group_id)
VALUES(:lane, :expires, {{WROTE :job}}, :group)

-- name: LIMIT_SLOT_FREE
DELETE FROM {{S}}.claimq_slot
WHERE lane=:lane AND group_id=:group AND expires_at_ms=:expires
  AND job_id=:job AND {{WROTE 1}}

-- name: LIMIT_SLOT_RENEW like LIMIT_SLOT_FREE
UPDATE {{S}}.claimq_slot SET expires_at_ms={{WROTE :until}}
WHERE lane=:lane AND group_id=:group AND expires_at_ms=:expires
  AND job_id=:job

-- name: LIMIT_SLOTS_OF
-- Which jobs of a list have a slot, or stand with a group?
SELECT j.job_id AS job_id, j.lane AS lane, j.slot AS slot,
  ifnull(j.expires_at_ms, 0) AS expires_at_ms, j.head_id AS head_id
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND (j.slot IS NOT NULL OR j.head_id IS NOT NULL)

-- name: LIMIT_BEGUN
UPDATE {{S}}.claimq_policy SET begun=min(begun, 9223372036854775807-:n)+:n,
  last_ms=max(last_ms, :now), turn=max(turn, :turn),
  keyless_turn=max(keyless_turn, :keyless)
WHERE lane=:lane AND begun=:begun

-- name: LIMIT_START_ADD
INSERT INTO {{S}}.claimq_start(lane, group_id, seq, at_ms)
VALUES(:lane, :group, {{WROTE :seq}}, :now)

-- name: LIMIT_START_TRIM
DELETE FROM {{S}}.claimq_start
WHERE lane=:lane AND group_id=:group AND seq<=:seq AND {{WROTE 1}}

-- name: LIMIT_UNCOUNTED
-- Jobs of a lane that are held, in an order: their groups get ids in it.
SELECT job_id FROM {{S}}.claimq_job NOT INDEXED
WHERE lane=:lane AND terminal_at_ms IS NULL AND claim_id IS NOT NULL
ORDER BY job_id

-- name: LIMIT_COUNT_NONE
DELETE FROM {{S}}.claimq_slot WHERE lane=:lane AND {{WROTE 1}}

-- name: LIMIT_COUNT_JOBS like LIMIT_PLACE_GROUPS
UPDATE {{S}}.claimq_job AS j SET slot=claimq__note(:wrote, {{LIMIT_GROUP_ID}})
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE j.job_id=l.id

-- name: LIMIT_COUNT_SLOTS like LIMIT_PLACE_GROUPS
INSERT INTO {{S}}.claimq_slot(lane, expires_at_ms, job_id, group_id)
SELECT j.lane, ifnull(j.expires_at_ms, 0), {{WROTE j.job_id}}, j.slot
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id

-- name: LIMIT_RECOUNT
-- A job was changed, maybe while it was held by a claim that has expired: the
-- next claim of its lane, which may be another, counts again.
UPDATE {{S}}.claimq_policy SET counted={{WROTE 0}}
WHERE counted AND lane=(
  SELECT lane FROM {{S}}.claimq_job
  WHERE job_id=:job AND claim_id IS NOT NULL)

-- name: LIMIT_COUNTED
UPDATE {{S}}.claimq_policy SET counted={{WROTE 1}} WHERE lane=:lane

--------------------------------------------------------------------------
-- The clock has gone back, to :now: what began later than that began then.
-- Without this a start that was written when the clock was far ahead would be
-- in the window until then.

-- name: LIMIT_BACK_ROW
UPDATE {{S}}.claimq_policy SET last_ms={{WROTE :now}}
WHERE lane=:lane AND last_ms>:now

-- name: LIMIT_BACK_STARTS like LIMIT_BACK_ROW
UPDATE {{S}}.claimq_start SET at_ms={{WROTE :now}}
WHERE lane=:lane AND group_id IN (
    SELECT 0 UNION ALL
    SELECT g.group_id FROM {{S}}.claimq_group AS g
      INDEXED BY claimq_group_by_time
    WHERE g.lane=:lane AND g.at_ms>:now AND g.at_ms>0)
  AND at_ms>:now

-- name: LIMIT_BACK_WHICH
SELECT group_id FROM {{S}}.claimq_group INDEXED BY claimq_group_by_time
WHERE lane=:lane AND at_ms>:now AND at_ms>0

-- name: LIMIT_BACK_GROUPS like LIMIT_BACK_ROW
UPDATE {{S}}.claimq_group SET at_ms={{WROTE :now}}
WHERE lane=:lane AND at_ms>:now AND at_ms>0

--------------------------------------------------------------------------
-- claimq_vacuum()

-- name: LIMIT_OLD_HEADS like VACUUM_ROWS
-- Heads that no job stands with that has not ended.
SELECT head_id AS id, 0 AS at_ms FROM {{S}}.claimq_head AS h
WHERE CASE
  WHEN EXISTS (
    SELECT 1 FROM {{LANE_INDEX}}
    WHERE lane=h.lane AND partition=h.partition
      AND {{JOB_BUCKET}}=+h.head_id AND {{LANE_THERE}})
  THEN 0
  ELSE h.head_id NOT IN (
    SELECT j.head_id FROM {{S}}.claimq_job AS j
    WHERE NOT {{JOB_THERE}} AND j.terminal_at_ms IS NULL
      AND j.head_id IS NOT NULL) END
ORDER BY head_id LIMIT :limit

-- name: LIMIT_OLD_HEADS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_head
WHERE head_id IN (SELECT id FROM claimq__ids(:ids) LIMIT :limit)

-- name: LIMIT_OLD_GROUPS like VACUUM_ROWS
-- Groups without a head: nobody asks when they had their last turn, nor, once
-- the window is over, when their last claims began.
SELECT group_id AS id,
  at_ms+min(ifnull(l.group_per_ms, 0), 9223372036854775807-at_ms) AS at_ms
FROM {{S}}.claimq_group AS g
  LEFT JOIN {{S}}.claimq_policy AS l ON l.lane=g.lane
WHERE NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_head AS h WHERE h.group_id=g.group_id)
  AND group_id NOT IN (
    SELECT n.group_id FROM {{S}}.claimq_job AS j NOT INDEXED
      CROSS JOIN {{S}}.claimq_group AS n
    WHERE j.terminal_at_ms IS NULL AND j.head_id IS NULL
      AND n.lane=j.lane AND n.group_key=j.group_key)
ORDER BY 2, group_id LIMIT :limit

-- name: LIMIT_OLD_GROUPS_START like VACUUM_DELETE
DELETE FROM {{S}}.claimq_start
WHERE (lane, group_id, seq) IN (
  SELECT s.lane, s.group_id, s.seq FROM claimq__ids(:ids) AS l
    CROSS JOIN {{S}}.claimq_group AS g ON g.group_id=l.id
    CROSS JOIN {{S}}.claimq_start AS s
      ON s.lane=g.lane AND s.group_id=g.group_id
  LIMIT :limit)

-- name: LIMIT_OLD_GROUPS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_group
WHERE group_id IN (
  SELECT l.id FROM claimq__ids(:ids) AS l
  WHERE NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_group AS g CROSS JOIN {{S}}.claimq_start AS s
      ON s.lane=g.lane AND s.group_id=g.group_id
    WHERE g.group_id=l.id)
    AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_head AS h WHERE h.group_id=l.id)
  LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_check

-- name: LIMIT_CHECK_STARTS like CHECK
-- They are numbered one after the other, and none is before the one in front.
SELECT 'claimq_start' AS table_name,
  lane||'/'||group_id||'/'||seq AS row_key, problem
FROM (SELECT lane, group_id, seq, CASE
    WHEN seq-1>(
      SELECT max(t.seq) FROM {{S}}.claimq_start AS t
      WHERE t.lane=s.lane AND t.group_id=s.group_id AND t.seq<s.seq)
    THEN 'the start before it is missing'
    WHEN at_ms<(
      SELECT t.at_ms FROM {{S}}.claimq_start AS t
      WHERE t.lane=s.lane AND t.group_id=s.group_id AND t.seq=s.seq-1)
    THEN 'at_ms is before that of the one before'
    WHEN group_id<>0 AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_group AS g
      WHERE g.group_id=s.group_id AND g.lane=s.lane)
    THEN 'its group is not there'
  END AS problem FROM {{S}}.claimq_start AS s)
WHERE problem IS NOT NULL

-- name: LIMIT_CHECK_SLOTS like CHECK
SELECT 'claimq_slot' AS table_name, s.job_id AS row_key,
  CASE WHEN j.slot IS NULL THEN 'its job is not held'
       ELSE 'is not the lease of its job' END AS problem
FROM {{S}}.claimq_slot AS s LEFT JOIN {{S}}.claimq_job AS j
  ON j.job_id=s.job_id
WHERE j.slot IS NULL OR j.lane<>s.lane OR j.slot<>s.group_id
  OR ifnull(j.expires_at_ms, 0)<>s.expires_at_ms
  OR s.group_id<>{{LIMIT_GROUP_ID}} AND s.group_id<>0

-- name: LIMIT_CHECK_JOBS like CHECK
SELECT 'claimq_job' AS table_name, job_id AS row_key, problem
FROM (SELECT job_id, CASE
    {{CHECK_TEXT_NULL group_key}} {{CHECK_INT_NULL slot}}
    {{CHECK_INT_NULL head_id}}
    WHEN slot IS NOT NULL AND claim_id IS NULL
      OR claim_id IS NOT NULL AND slot IS NULL AND EXISTS (
        SELECT 1 FROM {{S}}.claimq_policy AS l
        WHERE l.lane=j.lane AND l.counted)
    THEN 'slot does not fit the limits of the lane'
    WHEN {{LANE_THERE}} AND head_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM {{S}}.claimq_head AS h CROSS JOIN {{S}}.claimq_group AS g
          ON g.group_id=h.group_id
        WHERE h.head_id=j.head_id AND h.lane=j.lane
          AND h.partition=j.partition AND g.lane=j.lane
          AND g.group_key=j.group_key
          AND h.capabilities=j.capabilities)
    THEN 'head_id is not of its group'
    WHEN slot IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_slot AS s WHERE s.job_id=j.job_id
        AND s.lane=j.lane AND s.group_id=j.slot
        AND s.expires_at_ms=j.expires_at_ms)
    THEN 'has a slot that is not in claimq_slot'
    WHEN NOT claimq__sound(group_key) {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_job AS j NOT INDEXED)
WHERE problem IS NOT NULL

-- name: LIMIT_CHECK_GROUPS like CHECK
SELECT 'claimq_group' AS table_name, g.group_id AS row_key,
  'its lane keeps no groups' AS problem
FROM {{S}}.claimq_group AS g LEFT JOIN {{S}}.claimq_policy AS l
  ON l.lane=g.lane
WHERE l.lane IS NULL OR NOT l.groups

-- name: LIMIT_CHECK_HEADS like CHECK
-- place may be -1 although the group has opened only since.  Of a group that is
-- to be looked at again it may also be too late.
SELECT 'claimq_head' AS table_name, head_id AS row_key, problem
FROM (SELECT h.head_id, CASE
    WHEN g.group_id IS NULL OR g.lane<>h.lane
    THEN 'its group is not there'
    WHEN h.job_id IS NOT (
      SELECT j.job_id FROM {{S}}.claimq_job AS j INDEXED BY claimq_job_by_due
      WHERE j.lane=h.lane AND j.partition=h.partition
        AND {{JOB_BUCKET}}=+h.head_id AND {{JOB_DUE}}=-1 AND {{LANE_THERE}}
      ORDER BY j.priority DESC, j.created_at_ms, j.job_id LIMIT 1)
    THEN 'job_id is not its first job'
    WHEN h.place IS NULL AND (h.job_id IS NOT NULL OR w.due IS NOT NULL)
      OR h.place=-1 AND (h.job_id IS NULL OR h.due IS NOT w.due)
      OR h.place>0 AND (h.job_id IS NOT NULL OR w.due<h.place)
        AND ifnull(g.group_key<l.look_from, 1)
        AND claimq__opens(h.lane, h.group_id, h.place-1, NULL)<0
    THEN 'place is not when it can be taken from'
    WHEN h.place IS NOT NULL AND ifnull(g.group_key<l.look_from, 1)
      AND h.turn<>iif(l.fair AND g.turn>l.fair_from, g.turn, 0)
    THEN 'turn is not that of its group'
    WHEN h.priority IS NOT f.priority OR h.created_at_ms IS NOT f.created_at_ms
    THEN 'priority and created_at_ms are not those of its first job'
  END AS problem
  FROM {{S}}.claimq_head AS h LEFT JOIN {{S}}.claimq_group AS g
    ON g.group_id=h.group_id
  LEFT JOIN {{S}}.claimq_policy AS l ON l.lane=g.lane
  LEFT JOIN {{S}}.claimq_job AS f ON f.job_id=h.job_id
  LEFT JOIN (
    SELECT j.head_id AS head_id, min({{JOB_DUE}}) AS due
    FROM {{S}}.claimq_job AS j NOT INDEXED
    WHERE j.head_id IS NOT NULL AND {{JOB_DUE}}>=0 AND {{LANE_THERE}}
    GROUP BY j.head_id) AS w
    ON w.head_id=h.head_id)
WHERE problem IS NOT NULL
