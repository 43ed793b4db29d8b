-- lane.sql: the statements of ext/lane/lane.c and its sisters.

--------------------------------------------------------------------------
-- Choosing jobs.

-- name: LANE_PARTITION
-- The first partition of a lane from :partition on.
SELECT min(partition) AS partition FROM {{LANE_INDEX}}
WHERE lane=:lane AND partition>=:partition AND {{LANE_THERE}}

-- name: LANE_LAST
-- The last partition of a lane that keeps groups: is it the only one, and has
-- it nothing but jobs that stand with their groups?  (Of all buckets those of
-- heads, which are numbers, come first.)
SELECT partition, {{JOB_BUCKET}}<'' AND partition=(
    SELECT min(partition) FROM {{LANE_INDEX}}
    WHERE lane=:lane AND {{LANE_THERE}}) AS heads
FROM {{LANE_INDEX}} WHERE lane=:lane AND {{LANE_THERE}}
ORDER BY partition DESC, {{JOB_BUCKET}} DESC LIMIT 1

-- name: LANE_NEXT_SET
-- The first set of a partition after :set.  (What stands in min() SQLite before
-- 3.41 does not take from the index.)
SELECT {{JOB_BUCKET}} AS bucket FROM {{LANE_INDEX}}
WHERE lane=:lane AND partition=:partition AND {{JOB_BUCKET}}>:set
  AND {{LANE_THERE}}
ORDER BY {{JOB_BUCKET}} LIMIT 1

-- fragment: JOB_DUE
-- When a job can be claimed, if that is known (JOB_THERE): -1 at once, or it
-- could when somebody last looked.
ifnull(place, iif(available_at_ms>created_at_ms, available_at_ms, -1))

-- fragment: JOB_READY
-- It stands among the ready ones.
{{JOB_THERE}} AND {{JOB_DUE}}<0

-- fragment: JOB_BUCKET
-- What it stands together with.
ifnull(head_id, iif(group_key IS NULL, capabilities, 'g'||capabilities))

-- fragment: JOB_THERE
-- It is known when the job can be claimed; else not until something happens to
-- it.
ifnull(place>=-1, admission IS NOT 'grant')

-- fragment: LANE_THERE
-- What the index has.
terminal_at_ms IS NULL AND {{JOB_THERE}}

-- fragment: LANE_INDEX
-- Jobs by their places in the index, whose order within the ready ones (due is
-- -1) is the order of claims.
{{S}}.claimq_job INDEXED BY claimq_job_by_due

-- fragment: LANE_INDEX_ORDER
{{JOB_DUE}}, priority DESC, created_at_ms, job_id

-- fragment: LANE_SET
-- One set.
lane=:lane AND partition=:partition AND {{JOB_BUCKET}}=:set AND {{LANE_THERE}}

-- fragment: LANE_CLAIMABLE
-- A job that nobody holds and that is available is claimable, unless the lane
-- admits jobs by a grant (:open is 0) and it does not say otherwise itself.  Of
-- any other C is asked: see claimqLaneJudge().  It must be asked job by job, in
-- the order of the index, and not of those behind the last that was wanted.
-- But SQLite before 3.47 reads all rows and sorts them, though they come
-- sorted, if it expects slightly less than one.  (It keeps the number as a
-- logarithm, and takes one of the values for a flag.)  So here it expects none
-- at all.
likelihood(state<>'active' AND ifnull(available_at_ms, created_at_ms)<=:now
    AND (:open OR admission IS NOT NULL OR settled_by IS NOT NULL)
  OR iif(expires_at_ms>:now, claimq__judge(:who, job_id, {{JOB_DUE}}),
    claimq__judge(:who, job_id, {{JOB_DUE}},
      ifnull(available_at_ms, created_at_ms), state='active', {{LANE_AUTO}},
      expires_at_ms, reclaim_count, max_reclaims)), 0.0)

-- fragment: LANE_COLS
-- The columns of the claim table.  $1 is the lane: a column, or what it was
-- compared with, which SQLite need not copy.
job_id, $1 AS lane, partition, priority, payload, headers,
capabilities, attempt_index, reclaim_count, created_at_ms,
ifnull(available_at_ms, created_at_ms) AS available_at_ms, progress, group_key

-- fragment: LANE_ROW
-- The same, and what else is needed to claim a job.
{{LANE_COLS $1}}, fencing_token, claim_id, attempts, max_runtime_ms

-- fragment: LANE_AUTO
-- Whoever comes next may take the job over.
reclaim IS NOT 'grant'

-- fragment: LANE_UNSAID
-- The policy of the lane says how the job is admitted, unless it is active.
(admission IS NULL AND settled_by IS NULL)

-- name: LANE_READY
-- What is claimable of a set: the ready ones in order, then those that waited
-- and became due.  waited tells on each row whether there are any of the
-- latter, claimable or not.
SELECT job_id, priority, created_at_ms, {{JOB_DUE}} AS due,
  {{LANE_LATE}} AS waited
FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND {{JOB_DUE}}<=:now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

-- name: LANE_DUE like LANE_READY
-- Only those that waited, if not all ready ones need to be seen.
SELECT job_id, priority, created_at_ms, {{JOB_DUE}} AS due
FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND {{JOB_DUE}} BETWEEN 0 AND :now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

-- name: LANE_WAITED like LANE_READY
-- Are there any?
SELECT job_id FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND {{JOB_DUE}} BETWEEN 0 AND :now LIMIT 1

-- name: LANE_ANY
-- Has a set anything?
SELECT 1 AS one FROM {{LANE_INDEX}} WHERE {{LANE_SET}} LIMIT 1

-- name: LANE_INVALID
-- Jobs of a set whose capabilities are no list of any.
SELECT job_id AS id FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND state<>'active' LIMIT :limit

-- name: LANE_LATER
-- When will a job of a set be claimable that is not now?  :open as in
-- LANE_CLAIMABLE.  Where that is 0, and the first :limit jobs that wait need a
-- grant, it is when the last of these is due: then somebody is to look again.
SELECT (SELECT count(*) FROM (
    SELECT 1 FROM {{LANE_INDEX}} WHERE {{LANE_SET}} AND {{JOB_DUE}}<=:now
    LIMIT :limit)) AS n,
  (SELECT min(t) FROM (
    SELECT max(ifnull(available_at_ms, created_at_ms),
               iif(state='active', ifnull(expires_at_ms, 0), 0)) AS t
    FROM {{LANE_INDEX}} WHERE {{LANE_SET}} AND {{JOB_DUE}}<=:now
      AND iif(state='active', {{LANE_AUTO}}, :open OR NOT {{LANE_UNSAID}})
    LIMIT :limit) WHERE t>:now) AS at_ms,
  (SELECT ifnull(min(due) FILTER(WHERE may),
       iif(count(*)>=:limit, max(due), NULL))
   FROM (SELECT {{JOB_DUE}} AS due,
       :open OR state='active' OR NOT {{LANE_UNSAID}} AS may
     FROM {{LANE_INDEX}} WHERE {{LANE_SET}} AND {{JOB_DUE}}>:now
     ORDER BY {{JOB_DUE}} LIMIT iif(:open, 1, :limit))) AS due

-- fragment: LANE_MORE
-- Is there more to be seen than the ready jobs of a set, for a worker without
-- capabilities?  The last job in partitions up to :upto tells: it is of another
-- partition, or has a group_key ('g[]'), or it waited.  Or, if :all count,
-- there is a partition in front.
(SELECT CASE WHEN partition<>:partition OR {{JOB_BUCKET}}>='g' THEN 1
             WHEN {{JOB_DUE}}<0 THEN 0 ELSE {{LANE_LATE}} END
 FROM {{LANE_INDEX}}
 WHERE lane=:lane AND partition<=:upto AND {{LANE_THERE}}
 ORDER BY partition DESC, {{JOB_BUCKET}} DESC, {{JOB_DUE}} DESC LIMIT 1)
OR :all AND EXISTS(
  SELECT 1 FROM {{LANE_INDEX}}
  WHERE lane=:lane AND partition<:partition AND {{LANE_THERE}})

-- fragment: LANE_LATE
-- Has a job of the set waited, and become due?
EXISTS(SELECT 1 FROM {{LANE_INDEX}}
       WHERE {{LANE_SET}} AND {{JOB_DUE}} BETWEEN 0 AND :now)

-- name: LANE_HEAD
-- What is claimable of a set, with all columns: if none waited, and there is no
-- other set, the jobs come in the order in which a worker gets them.
SELECT {{LANE_ROW :lane}}, iif(state='active', NULL, {{JOB_DUE}}) AS place,
  {{LANE_MORE}} AS waited
FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND {{JOB_DUE}}<=:now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

-- name: LANE_JOB like LANE_HEAD
-- A job that was picked.  place is NULL if somebody holds it.
SELECT {{LANE_ROW lane}},
  iif(state='active', NULL, iif({{JOB_THERE}}, {{JOB_DUE}}, -2)) AS place
FROM {{S}}.claimq_job WHERE job_id=:job

-- name: LANE_KEPT
-- A job as the claim that holds it got it.
SELECT {{LANE_COLS lane}}, claim_id, lease_token, owner, incarnation,
  claimed_at_ms, expires_at_ms, attempts, previous_claim_id
FROM {{S}}.claimq_job WHERE job_id=:head AND claim_id=:claim

--------------------------------------------------------------------------
-- Stamping them.  A list :ids brings the leases, as claimqLeaseMake() derived
-- them: l.claim_id and so on, all NULL for a job of the list that is spent,
-- that is, reclaimed as often as it may be, or invalid.

-- fragment: LANE_FENCE
j.fencing_token+(j.fencing_token<9223372036854775807)

-- name: LANE_STAMP_NEW
-- The usual case: a job that nobody holds, and that stands among the ready
-- ones.  It stays where it is in the index.  Several such jobs are stamped one
-- by one: an UPDATE FROM a list, which SQLite writes down before it begins,
-- takes longer.
UPDATE {{S}}.claimq_job AS j SET state='active', {{STAMP}},
  fencing_token=:fence, attempts=attempts+1
WHERE job_id=:head AND claim_id IS NULL AND {{JOB_READY}}
  AND terminal_at_ms IS NULL
  AND (fencing_token=:fence-1 OR {{LANE_FENCE}}=:fence)

-- fragment: LANE_GIVE
-- The lease of a job that waited, or was active: that one is reclaimed.
state=iif(l.claim_id IS NULL, 'failed', 'active'),
claim_id=l.claim_id, lease_token=l.lease_token, owner=l.owner,
incarnation=l.incarnation, claimed_at_ms=l.claimed_at_ms,
expires_at_ms=l.expires_at_ms, previous_claim_id=l.previous_claim_id,
fencing_token=ifnull(l.fencing_token, j.fencing_token),
attempts=attempts+(l.claim_id IS NOT NULL),
attempt_index=attempt_index+(l.claim_id IS NOT NULL AND state='active'),
reclaim_count=reclaim_count+(l.claim_id IS NOT NULL AND state='active'),
place=iif({{LANE_AUTO}}, l.expires_at_ms, -2)

-- fragment: LANE_SPENT
-- Why a job fails that is spent; or, if nobody had it, that nobody can have.
iif(state='active',
  'reclaimed '||reclaim_count||' times, which is the maximum',
  'capabilities must be a JSON array of non-empty strings, got '
    ||substr({{LANE_CAPS_SHOWN}}, 1, 100))

-- fragment: LANE_CAPS_SHOWN
-- Capabilities, whatever a plain INSERT has written, as a text that anybody can
-- read.
iif(claimq__sound(capabilities), capabilities, 'X'''||hex(capabilities)||'''')

-- fragment: LANE_GIVE_UP
-- The end of such a job.
settled_by=iif(l.claim_id IS NULL,
  iif(state='active', 'reclaim_cap', 'invalid'), settled_by),
settled_at_ms=iif(l.claim_id IS NULL, :now, settled_at_ms),
settled_claim_id=iif(l.claim_id IS NULL, j.claim_id, settled_claim_id),
settled_token=iif(l.claim_id IS NULL, j.lease_token, settled_token),
settled_owner=iif(l.claim_id IS NULL, NULL, settled_owner),
last_error=iif(l.claim_id IS NULL, {{LANE_SPENT}}, last_error),
error_class=iif(l.claim_id IS NULL, NULL, error_class),
terminal_at_ms=iif(l.claim_id IS NULL, :now, NULL),
awaited=iif(l.claim_id IS NULL, NULL, awaited)

-- fragment: LANE_TAKEABLE
-- Nobody took the job since it was read.
j.job_id=l.id AND terminal_at_ms IS NULL
AND (j.claim_id IS NULL OR ifnull(j.expires_at_ms, 0)<=:now)
AND {{LANE_FENCE}}=ifnull(l.fencing_token, {{LANE_FENCE}})

-- name: LANE_STAMP
-- (A slot may be left from limits that were lifted.)
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}, slot=NULL
FROM claimq__ids(:ids) AS l WHERE {{LANE_TAKEABLE}}

-- name: LANE_RECLAIM like LANE_STAMP
-- One job, by a grant.
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}, slot=NULL
FROM claimq__ids(:ids) AS l WHERE {{LANE_TAKEABLE}} AND {{LANE_GRANTABLE}}

-- fragment: LANE_WAITS
-- The job waits for a grant that admits it.
(NOT {{JOB_THERE}} AND (state='ready' OR state='delayed'))

-- fragment: LANE_UNADMITTED
-- It needs a grant, and nobody has ever claimed it.  (Its fencing token does
-- not tell that: claimq_restored() raises it.)
admission='grant' AND settled_by IS NULL

-- fragment: LANE_GRANTABLE
-- A grant is needed, or its holder may still be there.
(state='active' OR {{LANE_WAITS}})

-- fragment: LANE_SAID
-- What the job has said itself, when the policy says the rest.
ifnull(said, (reclaim IS NOT NULL)+2*(admission IS NOT NULL))

-- name: LANE_ADMIT like LIMIT_PLACE_GROUPS
-- The jobs of a list do not say how they are admitted, and the policy of their
-- lane says: by a grant.
UPDATE {{S}}.claimq_job SET admission=claimq__note(:wrote, 'grant'),
  said={{LANE_SAID}}, place=-2
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE job_id=l.id AND {{LANE_UNSAID}} AND claim_id IS NULL
  AND terminal_at_ms IS NULL

-- name: LANE_BY_GRANT like LIMIT_PLACE_GROUPS
-- The same of those that do not say who may take them over, and are taken.
UPDATE {{S}}.claimq_job SET reclaim=claimq__note(:wrote, 'grant'),
  said={{LANE_SAID}}
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE job_id=l.id AND reclaim IS NULL

--------------------------------------------------------------------------
-- Upkeep of the index.

-- name: LANE_PROMOTE
-- At most :limit jobs of a set that are due become ready.
UPDATE {{S}}.claimq_job SET place=-1
WHERE job_id IN (
  SELECT job_id FROM {{LANE_INDEX}}
  WHERE {{LANE_SET}} AND {{JOB_DUE}} BETWEEN 0 AND :now
  ORDER BY {{LANE_INDEX_ORDER}} LIMIT :limit)

-- name: LANE_PARK
-- Jobs among the ready ones that are not claimable go where they are found
-- again when they are.  (With WHERE job_id IN SQLite would go through all jobs
-- after an ANALYZE of few.)
UPDATE {{S}}.claimq_job SET place=CASE
    WHEN state<>'active' THEN max(0, ifnull(available_at_ms, created_at_ms))
    WHEN {{LANE_AUTO}} THEN max(0, ifnull(expires_at_ms, 0)) ELSE -2
  END
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE job_id=l.id AND {{JOB_READY}}

--------------------------------------------------------------------------
-- New jobs.

-- name: LANE_INSERT
INSERT INTO {{S}}.claimq_job(lane, payload, priority, capabilities,
  source_key, available_at_ms, max_attempts, backoff_ms, backoff_factor,
  backoff_max_ms, max_reclaims, max_runtime_ms, reclaim, admission, said,
  partition, group_key,
  flow_id, namespace, instance_tag, headers, on_failure, waits_for,
  unique_until_ms, created_at_ms, state, place, head_id)
VALUES(:lane, :payload, :priority, :capabilities, :source_key, {{AVAILABLE}},
  :max_attempts, :backoff_ms, :backoff_factor, :backoff_max_ms, :max_reclaims,
  :max_runtime_ms, :reclaim, :admission, :said, :partition, :group_key,
  :flow_id, :namespace,
  :instance_tag, :headers, :on_failure, :waits_for, :unique_until_ms, {{NOW}},
  CASE WHEN :waits_for IS NOT NULL THEN 'blocked'
       WHEN {{AVAILABLE}}>{{NOW}} THEN 'delayed' ELSE 'ready' END,
  iif(:waits_for IS NULL, NULL, -2), :head_id)

-- name: LANE_INSERT_PLAIN
-- Without options: the defaults of claimq_job are those of claimq_submit().
-- (That place is said saves 1 %: see JOB_DUE.)
INSERT INTO {{S}}.claimq_job(lane, payload, created_at_ms, available_at_ms,
  reclaim, admission, said, place)
VALUES(:lane, :payload, {{NOW}}, {{NOW}}, 'auto', 'auto', 0, -1)

-- name: LANE_BY_KEY
-- The job that has the key, or had it and keeps it (unique_for_ms): ended.
SELECT job_id, 0 AS ended, unique_until_ms
FROM {{S}}.claimq_job AS j INDEXED BY claimq_job_by_key
WHERE lane=:lane AND source_key=:source_key AND {{LANE_KEY}}=0
UNION ALL
SELECT job_id, 1, unique_until_ms FROM (
  SELECT job_id, unique_until_ms
  FROM {{S}}.claimq_job AS j INDEXED BY claimq_job_by_key
  WHERE lane=:lane AND source_key=:source_key AND {{LANE_KEY}}>0
  ORDER BY {{LANE_KEY}} DESC LIMIT 1)
WHERE unique_until_ms>:now

-- fragment: LANE_KEY
-- The last column of claimq_job_by_key: 0 if the job has not ended.
iif(j.terminal_at_ms IS NULL, 0, j.job_id)

--------------------------------------------------------------------------
-- The verbs.

-- name: LANE_HOLD
-- Whose is the job, whose was it, and what budget has it?
SELECT claim_id, lease_token, 1 AS claim_size, fencing_token,
  ifnull(expires_at_ms, 0) AS expires_at_ms, settled_by, settled_claim_id,
  settled_token, attempt_index, max_attempts,
  max(0, retry_count) AS retry_count, max(0, backoff_ms) AS backoff_ms,
  max(0, backoff_factor) AS backoff_factor,
  max(0, backoff_max_ms) AS backoff_max_ms, slot,
  awaited IS NOT NULL AS awaited, lane, head_id,
  ifnull(unique_until_ms, 0) AS unique_until_ms, max_runtime_ms,
  ifnull(claimed_at_ms, 0) AS claimed_at_ms
FROM {{S}}.claimq_job WHERE job_id=:head

-- fragment: LANE_HELD
job_id=:head AND claim_id=:claim AND lease_token=:token

-- fragment: LANE_HELD_ALONE
-- The job has no slot and stands with no group, and nobody waits for it.
{{LANE_HELD}} AND awaited IS NULL AND slot IS NULL AND head_id IS NULL

-- fragment: LANE_OVER
-- The claim is over.  (Its id and its token are those that LANE_HELD compared.
-- To copy them from their columns would make a claim and its complete 1 %
-- longer: SQLite allocates memory for each text that it reads.)
settled_claim_id=:claim, settled_token=:token, {{CLAIM_NONE}},
previous_claim_id=NULL

-- fragment: LANE_KEEP
-- Its attempt stays with the job.
settled_owner=owner, settled_incarnation=incarnation,
settled_started_ms=claimed_at_ms, settled_expires_ms=expires_at_ms

-- fragment: LANE_PAST
-- Its attempt has become one of claimq_past.
{{LANE_OVER}}, settled_at_ms=:now, settled_owner=NULL

-- fragment: LANE_PROGRESS
-- What the holder stores of its work; NULL: nothing new.
progress=ifnull(:progress, progress)

-- name: LANE_RENEW
-- A job of a group goes back to where it waits.
UPDATE {{S}}.claimq_job SET expires_at_ms=:until,
  place=iif({{JOB_THERE}} AND ({{JOB_DUE}}>=0 OR head_id IS NOT NULL),
    :until, place),
  {{LANE_PROGRESS}}
WHERE {{LANE_HELD}}

-- name: LANE_RENEW_READY
-- A job that stands among the ready ones stays there, in a lane without limits.
-- (One that has expired may need a slot, and has none if it was claimed before
-- the lane counted.)
UPDATE {{S}}.claimq_job SET expires_at_ms={{LATER :lease}}
WHERE {{LANE_HELD}} AND {{JOB_READY}} AND slot IS NULL
  AND max_runtime_ms IS NULL AND expires_at_ms>{{NOW}}

-- fragment: LANE_COMPLETED
{{LANE_OVER}}, {{LANE_KEEP}}, settled_by='complete', state='completed',
terminal_at_ms={{NOW}}, result=:result

-- name: LANE_COMPLETE
UPDATE {{S}}.claimq_job SET {{LANE_COMPLETED}}, awaited=NULL, slot=NULL
WHERE {{LANE_HELD}}

-- name: LANE_COMPLETE_ALONE like LANE_COMPLETE
UPDATE {{S}}.claimq_job SET {{LANE_COMPLETED}} WHERE {{LANE_HELD_ALONE}}

-- name: LANE_GONE
-- It is completed, in a lane that keeps no job that is.
DELETE FROM {{S}}.claimq_job WHERE {{LANE_HELD}}

-- name: LANE_GONE_ALONE
-- The same in one step, of a job that has nothing anywhere else: this is its
-- first attempt, it waited for no other, and it has no steps.
DELETE FROM {{S}}.claimq_job WHERE {{LANE_HELD_ALONE}} AND attempt_index=0
  AND on_failure IS NULL AND unique_until_ms IS NULL
  AND {{KEEP_SAYS claimq_job keep_ms}}=0 AND {{NOW}} IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM {{S}}.claimq_steps AS t WHERE t.job_id=:head)

-- fragment: LANE_RELEASED
{{LANE_OVER}}, {{LANE_KEEP}}, settled_at_ms=:now, settled_by='release',
attempts=max(0, attempts-1), {{LANE_PROGRESS}}

-- name: LANE_RELEASE
UPDATE {{S}}.claimq_job SET {{LANE_RELEASED}}, slot=NULL,
  state=iif(:until>:now, 'delayed', 'ready'),
  place=iif(:until>:now, :until, -1),
  available_at_ms=ifnull(:until, available_at_ms)
WHERE {{LANE_HELD}}

-- name: LANE_RELEASE_AFTER
-- It waits for other jobs, and runs however they end.
UPDATE {{S}}.claimq_job SET {{LANE_RELEASED}}, slot=NULL, state='blocked',
  place=-2, waits_for=:waits_for, on_failure='run',
  available_at_ms=ifnull(:until, available_at_ms)
WHERE {{LANE_HELD}}

-- fragment: LANE_RETRIED
{{LANE_PAST}}, settled_by='retry', state='delayed', place=:until,
last_error=:reason, error_class=:error_class, available_at_ms=:until,
{{LANE_PROGRESS}}, attempt_index=attempt_index+1, retry_count=retry_count+1,
fencing_token={{FENCE}}

-- name: LANE_RETRY
UPDATE {{S}}.claimq_job SET {{LANE_RETRIED}}, slot=NULL
WHERE {{LANE_HELD}}

-- fragment: LANE_FAILED
-- :by is reject, or dead (a retry too many).
{{LANE_PAST}}, settled_by=:by, state='failed', last_error=:reason,
error_class=:error_class, terminal_at_ms=:now, {{LANE_PROGRESS}}

-- name: LANE_FAIL
UPDATE {{S}}.claimq_job SET {{LANE_FAILED}}, slot=NULL, awaited=NULL
WHERE {{LANE_HELD}}

-- fragment: LANE_REVOKED
-- The attempt is over but not its job.  An auto job is ready for the next one;
-- a grant job waits for the grant, which begins it.
{{LANE_PAST}}, settled_by='revoke', state=iif({{LANE_AUTO}}, 'ready', state),
place=iif({{LANE_AUTO}}, -1, -2),
attempt_index=attempt_index+({{LANE_AUTO}}), fencing_token={{FENCE}}

-- name: LANE_REVOKE
UPDATE {{S}}.claimq_job SET {{LANE_REVOKED}}, slot=NULL WHERE {{LANE_HELD}}

-- fragment: LANE_LIVE
claim_id IS NOT NULL AND ifnull(expires_at_ms, 0)>:now

-- name: LANE_STATE
-- What cancel, grant and reclaim must know of a job.
SELECT terminal_at_ms IS NOT NULL AS terminal, state='active' AS active,
  {{LANE_LIVE}} AS live, reclaim_count, max_reclaims,
  {{LANE_AUTO}} AS auto, {{LANE_WAITS}} AS waits, state='blocked' AS blocked,
  {{LANE_UNSAID}} AS unsaid,
  {{LANE_FROM}}>:now AS late
FROM {{S}}.claimq_job WHERE job_id=:job

-- name: LANE_OF
SELECT lane FROM {{S}}.claimq_job WHERE job_id=:job

-- name: LANE_CHANGE_KEY
-- Another job of lane :lane that has the source key of this one, or had it and
-- keeps it: ended.
SELECT j.job_id AS job_id, 0 AS ended
FROM {{S}}.claimq_job AS own NOT INDEXED CROSS JOIN {{S}}.claimq_job AS j
  INDEXED BY claimq_job_by_key
WHERE own.job_id=:job AND j.lane=:lane AND j.source_key=own.source_key
  AND {{LANE_KEY}}=0 AND j.job_id<>:job
UNION ALL
SELECT job_id, 1 FROM (
  SELECT j.job_id AS job_id, j.unique_until_ms AS until_ms
  FROM {{S}}.claimq_job AS j INDEXED BY claimq_job_by_key
  WHERE j.lane=:lane AND {{LANE_KEY}}>0 AND j.source_key=(
    SELECT own.source_key FROM {{S}}.claimq_job AS own WHERE own.job_id=:job)
  ORDER BY {{LANE_KEY}} DESC LIMIT 1)
WHERE until_ms>:now

-- name: LANE_CHANGE
-- What is NULL stays.  A job whose claim has expired stays active, where it is;
-- one that is moved leaves its group, and finds it again.
UPDATE {{S}}.claimq_job SET lane=ifnull(:lane, lane),
  partition=ifnull(:partition, partition),
  capabilities=ifnull(:capabilities, capabilities),
  priority=ifnull(:priority, priority), payload=ifnull(:payload, payload),
  headers=ifnull(:headers, headers),
  max_attempts=ifnull(:max_attempts, max_attempts),
  max_reclaims=ifnull(:max_reclaims, max_reclaims),
  max_runtime_ms=ifnull(:max_runtime_ms, max_runtime_ms),
  available_at_ms=ifnull(:available, available_at_ms),
  group_key=ifnull(:group_key, group_key), {{LANE_MOVED}}

-- fragment: LANE_MOVED
slot=NULL, head_id=NULL,
state=CASE WHEN state='active' OR state='blocked' OR :available IS NULL
           THEN state
           WHEN :available>:now THEN 'delayed' ELSE 'ready' END,
place=CASE WHEN state='active' OR state='blocked' OR :available IS NULL
           THEN iif({{JOB_THERE}}, {{JOB_DUE}}, place)
           WHEN NOT {{JOB_THERE}} THEN place
           WHEN :available>:now THEN :available ELSE -1 END
WHERE job_id=:job AND terminal_at_ms IS NULL AND NOT ({{LANE_LIVE}})

-- name: LANE_REPLACE
-- Submitted again, with another payload: NULL, too, is one.
UPDATE {{S}}.claimq_job SET payload=:payload, headers=:headers,
  available_at_ms=:available, {{LANE_MOVED}}

-- fragment: LANE_CANCELLED
-- Whoever held it does not any more.  If nobody did, it still knows how its
-- last claim was settled: that verb may be repeated.
settled_by=iif(claim_id IS NULL, ifnull(settled_by, 'cancel'), 'cancel'),
settled_claim_id=ifnull(claim_id, settled_claim_id),
settled_token=iif(claim_id IS NULL, settled_token, lease_token),
{{CLAIM_NONE}}, previous_claim_id=NULL, settled_at_ms={{WROTE :now}},
settled_owner=NULL, state='cancelled', waits_for=NULL, awaited=NULL,
slot=NULL, terminal_at_ms=:now

-- name: LANE_RESOLVE
-- The same for a job that is completed from outside.
UPDATE {{S}}.claimq_job SET
  settled_by=iif(claim_id IS NULL, ifnull(settled_by, 'resolve'), 'resolve'),
  settled_claim_id=ifnull(claim_id, settled_claim_id),
  settled_token=iif(claim_id IS NULL, settled_token, lease_token),
  {{CLAIM_NONE}}, previous_claim_id=NULL, settled_at_ms=:now,
  settled_owner=NULL, state='completed', waits_for=NULL, awaited=NULL,
  slot=NULL, terminal_at_ms=:now, result=:result
WHERE job_id=:job AND terminal_at_ms IS NULL AND NOT ({{LANE_LIVE}})

-- name: LANE_CANCEL
UPDATE {{S}}.claimq_job SET {{LANE_CANCELLED}}
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE job_id=l.id AND terminal_at_ms IS NULL

--------------------------------------------------------------------------
-- Grants.

-- name: LANE_GRANT
INSERT INTO {{S}}.claimq_grant(job_id, owner, issued_at_ms, expires_at_ms,
  incarnation, lane, capability_hash, worker_capabilities,
  route_snapshot_json, admission_summary)
SELECT job_id, :owner, :now, :expires, :incarnation, lane,
  :capability_hash, :worker_capabilities, :route_snapshot_json,
  :admission_summary
FROM {{S}}.claimq_job
WHERE job_id=:job AND {{LANE_GRANTABLE}} AND NOT ({{LANE_LIVE}})
  AND lane=ifnull(:lane, lane)

-- name: LANE_GRANT_NEWEST
-- same: the job is still in the lane that the grant is for.
SELECT grant_id, owner, expires_at_ms, lane IS (
    SELECT j.lane FROM {{S}}.claimq_job AS j WHERE j.job_id=:job) AS same
FROM {{S}}.claimq_grant INDEXED BY claimq_grant_by_job
WHERE job_id=:job ORDER BY issued_at_ms DESC, grant_id DESC LIMIT 1

-- name: LANE_GRANT_DELETE
DELETE FROM {{S}}.claimq_grant WHERE grant_id=:grant

--------------------------------------------------------------------------
-- claimq_vacuum().

-- name: LANE_OLD_GRANTS like VACUUM_ROWS
SELECT grant_id AS id, expires_at_ms AS at_ms
FROM {{S}}.claimq_grant INDEXED BY claimq_grant_by_expiry
ORDER BY expires_at_ms, grant_id LIMIT :limit

-- name: LANE_OLD_GRANTS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_grant
WHERE grant_id IN (SELECT id FROM claimq__ids(:ids) LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_stats.  Active jobs that wait for a grant stand in no index, so all
-- jobs are read, also for one lane.  lane/stats.c adds them up: SQLite would
-- sort them first, because a lane and a partition are a row.

-- fragment: LANE_FROM
ifnull(available_at_ms, created_at_ms)

-- fragment: LANE_STATS_KIND
-- 0 it waits, 1 it is held, or was, 2 it is blocked, or waits to be admitted, 3
-- it has ended, 4 it waits, perhaps to be admitted: its lane says.
CASE WHEN terminal_at_ms IS NOT NULL THEN 3 WHEN state='active' THEN 1
     WHEN state='blocked' OR {{LANE_UNADMITTED}} THEN 2
     WHEN {{LANE_UNSAID}} THEN 4 ELSE 0 END AS kind

-- name: LANE_STATS
SELECT lane AS scope, partition, {{LANE_STATS_KIND}},
  {{LANE_FROM}} AS available_at_ms, expires_at_ms, group_key
FROM {{S}}.claimq_job NOT INDEXED

-- name: LANE_STATS_OF like LANE_STATS
-- (The lane is not copied: it is known.)
SELECT NULL AS scope, partition, {{LANE_STATS_KIND}},
  {{LANE_FROM}} AS available_at_ms, expires_at_ms, group_key
FROM {{S}}.claimq_job NOT INDEXED WHERE lane=:scope

-- fragment: LANE_STATS_LETTER
-- Pending letters.  The partition stands in what a letter remembers of its job.
SELECT scope, {{LANE_PARTITION_IN origin}}, 1 AS dead, NULL AS next_at_ms
FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='lane' AND due IS NOT NULL AND status='pending'

-- fragment: LANE_PARTITION_IN
-- The option partition in a JSON text that claimq wrote.  (A quote within a
-- string has a backslash in front, so this is found nowhere else.)
iif(instr($1, '"partition":')>0, CAST(substr($1,
  instr($1, '"partition":')+12) AS INTEGER), 0) AS partition

-- name: LANE_STATS_MORE
SELECT scope, partition, dead, next_at_ms
FROM ({{LANE_STATS_LETTER}} UNION ALL {{SCHEDULE_STATS}})

-- name: LANE_STATS_MORE_OF like LANE_STATS_MORE
SELECT scope, partition, dead, next_at_ms
FROM ({{LANE_STATS_LETTER}} AND scope=:scope
  UNION ALL {{SCHEDULE_STATS}} AND lane=:scope)

--------------------------------------------------------------------------
-- claimq_leases

-- name: LANE_LEASES like LEASES
SELECT 'lane' AS discipline, lane AS scope, job_id AS key, {{LEASES_HELD}}
FROM {{S}}.claimq_job NOT INDEXED WHERE {{LEASES_OF}} ORDER BY job_id

--------------------------------------------------------------------------
-- claimq_check

-- name: LANE_CHECK like CHECK
SELECT 'claimq_job' AS table_name, job_id AS row_key, problem
FROM (SELECT job_id, CASE
    WHEN job_id<=0 THEN 'bad job_id'
    {{CHECK_TEXT lane}} {{CHECK_INT partition}} {{CHECK_INT priority}}
    {{CHECK_TEXT_NULL source_key}} {{CHECK_TEXT_NULL last_error}}
    WHEN ifnull(state,'') NOT IN ('ready','delayed','active','blocked',
        'completed','failed','cancelled') THEN 'bad state'
    WHEN reclaim NOT IN ('auto','grant') THEN 'bad reclaim'
    WHEN admission NOT IN ('auto','grant') THEN 'bad admission'
    {{CHECK_INT created_at_ms}} {{CHECK_INT_NULL available_at_ms}}
    {{CHECK_INT_NULL place}} {{CHECK_INT_NULL terminal_at_ms}}
    {{CHECK_COUNT attempt_index}} {{CHECK_COUNT retry_count}}
    {{CHECK_COUNT reclaim_count}} {{CHECK_COUNT attempts}}
    {{CHECK_COUNT_NULL max_attempts}} {{CHECK_COUNT_NULL max_reclaims}}
    {{CHECK_COUNT_NULL backoff_ms}} {{CHECK_COUNT_NULL backoff_factor}}
    {{CHECK_COUNT_NULL backoff_max_ms}} {{CHECK_COUNT_NULL max_runtime_ms}}
    {{CHECK_LEASE}} {{CHECK_EXPIRES}} {{CHECK_ONE_CLAIM qjc job_id}}
    WHEN settled_by NOT IN ('complete','release','retry','dead','reject',
        'revoke','cancel','after','resolve','reclaim_cap','invalid')
    THEN 'bad settled_by'
    WHEN claim_id IS NOT NULL AND state<>'active' THEN 'claimed, and not active'
    WHEN state='active' AND claim_id IS NULL AND {{LANE_AUTO}}
    THEN 'active, and not claimed'
    WHEN (terminal_at_ms IS NULL)<>
      (state IN ('ready','delayed','active','blocked'))
    THEN 'terminal_at_ms does not fit the state'
    WHEN CASE state WHEN 'blocked' THEN due IS NOT NULL
        WHEN 'active' THEN due IS NULL AND {{LANE_AUTO}}
        ELSE due IS NULL AND terminal_at_ms IS NULL
          AND ({{LANE_UNADMITTED}}) IS NOT 1 END
    THEN 'place does not fit the state'
    WHEN terminal_at_ms IS NULL AND due<>-1 AND due<>max(0, iif(
      state='active', ifnull(expires_at_ms,0), {{LANE_FROM}}))
    THEN 'place is not when it can be claimed'
    {{CHECK_TEXT capabilities}} {{CHECK_HEADERS}}
    WHEN NOT claimq__sound(lane, source_key, last_error,
        capabilities, {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM (
    SELECT *, iif({{JOB_THERE}}, {{JOB_DUE}}, NULL) AS due
    FROM {{S}}.claimq_job NOT INDEXED) AS j)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_PAST like CHECK
-- (Attempts that a job had elsewhere may be added, with numbers before 0.)
SELECT 'claimq_past' AS table_name, job_id||'/'||attempt_index AS row_key,
  problem
FROM (SELECT job_id, attempt_index, CASE
    {{CHECK_INT job_id}} {{CHECK_INT attempt_index}} {{CHECK_TEXT owner}}
    {{CHECK_TEXT incarnation}} {{CHECK_COUNT fencing_token}}
    {{CHECK_INT started_at_ms}} {{CHECK_INT_NULL ended_at_ms}}
    {{CHECK_TEXT_NULL error}} {{CHECK_TEXT_NULL error_class}}
    {{CHECK_INT_NULL expires_at_ms}}
    WHEN outcome NOT IN ('success','retry','failed','released',
      'interrupted_reclaimed','cancelled','revoked') THEN 'bad outcome'
    WHEN NOT EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j
                     WHERE j.job_id=a.job_id) THEN 'its job is not there'
    WHEN NOT claimq__sound(owner, incarnation, outcome, error, error_class)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_past AS a)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_EVENTS like CHECK
-- A job that is still there has ended as its event says.
SELECT 'claimq_event' AS table_name, event_id AS row_key, problem
FROM (SELECT event_id, CASE
    WHEN event_id<=0 THEN 'bad event_id'
    {{CHECK_INT job_id}} {{CHECK_TEXT lane}} {{CHECK_INT partition}}
    {{CHECK_TEXT_NULL flow_id}} {{CHECK_TEXT_NULL error_class}}
    {{CHECK_TEXT_NULL namespace}} {{CHECK_TEXT_NULL instance_tag}}
    {{CHECK_INT occurred_at_ms}}
    WHEN ifnull(outcome,'') NOT IN ('success','failed','cancelled','restored')
    THEN 'bad outcome'
    WHEN EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j
      WHERE j.job_id=e.job_id
        AND state<>iif(outcome='success', 'completed', outcome))
    THEN 'its job has not ended so'
    WHEN NOT claimq__sound(lane, flow_id, error_class, namespace,
                          instance_tag)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_event AS e)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_ONE_EVENT like CHECK
SELECT 'claimq_event' AS table_name, max(event_id) AS row_key,
  'another event of the job' AS problem
FROM {{S}}.claimq_event WHERE job_id>0 GROUP BY job_id HAVING count(*)>1

-- name: LANE_CHECK_GRANTS like CHECK
SELECT 'claimq_grant' AS table_name, grant_id AS row_key, problem
FROM (SELECT grant_id, CASE
    WHEN grant_id<=0 THEN 'bad grant_id'
    {{CHECK_INT job_id}} {{CHECK_TEXT owner}} {{CHECK_TEXT incarnation}}
    {{CHECK_TEXT lane}} {{CHECK_INT issued_at_ms}}
    {{CHECK_INT expires_at_ms}} {{CHECK_TEXT_NULL capability_hash}}
    {{CHECK_TEXT_NULL worker_capabilities}}
    {{CHECK_TEXT_NULL route_snapshot_json}}
    {{CHECK_TEXT_NULL admission_summary}}
    WHEN expires_at_ms<issued_at_ms THEN 'it ends before it was issued'
    WHEN NOT claimq__sound(owner, incarnation, lane, capability_hash,
        worker_capabilities, route_snapshot_json, admission_summary)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_grant)
WHERE problem IS NOT NULL

--------------------------------------------------------------------------
-- claimq_why: the jobs of a lane that have not ended.

-- fragment: LANE_WHY_KIND
-- 0 it waits, 1 it is held, or was, 2 it is blocked, 3 it waits for a grant
-- that admits it: see LANE_WAITS, 4 perhaps so: its lane says.
CASE WHEN state='active' THEN 1 WHEN state='blocked' THEN 2
     WHEN admission='grant' AND NOT {{JOB_THERE}} THEN 3
     WHEN {{LANE_UNSAID}} THEN 4 ELSE 0 END

-- name: LANE_WHY
SELECT job_id, partition, group_key, capabilities,
  {{LANE_FROM}} AS available_at_ms, {{LANE_WHY_KIND}} AS kind,
  {{LANE_AUTO}} AS auto,
  expires_at_ms, reclaim_count, max_reclaims
FROM {{S}}.claimq_job NOT INDEXED
WHERE lane=:lane AND terminal_at_ms IS NULL ORDER BY job_id
