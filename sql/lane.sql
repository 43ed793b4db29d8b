-- lane.sql: the statements of ext/lane.c and its sisters.

--------------------------------------------------------------------------
-- Choosing jobs.

-- name: LANE_SETS
-- The sets of capabilities in a lane and partition.
SELECT cap_id, required FROM {{S}}.claimq_capset
WHERE lane_id=:lane AND partition_key=:partition ORDER BY required

-- fragment: LANE_ASKED
-- The partition that a claim asked for.
:partition

-- fragment: LANE_GATE
-- The same in the first statement of a claim, in a database with schedules.  If
-- one of the lane is due claimq_judge() is told so, and this is NULL: nothing
-- is found.  (SQLite evaluates it once, before it seeks.  A statement of its
-- own costs twice as much.)
iif(EXISTS(SELECT 1 FROM {{SCHEDULE_DUE}}), claimq_judge(:who), {{LANE_ASKED}})

-- name: LANE_SETS_GATED like LANE_SETS
SELECT cap_id, required FROM {{S}}.claimq_capset
WHERE lane_id=:lane AND partition_key={{LANE_GATE}} ORDER BY required

-- fragment: LANE_INDEX
-- Jobs by their places in the index, whose order within the ready ones (due is
-- -1) is the order of claims.
{{S}}.claimq_job INDEXED BY claimq_job_by_due

-- fragment: LANE_INDEX_ORDER
due, priority DESC, created_at_ms, job_id

-- fragment: LANE_SET
-- One set of capabilities.
lane_id=:lane AND partition_key=:partition AND cap_id=:set
AND terminal_at_ms IS NULL

-- fragment: LANE_SET_0
-- The set that requires nothing, of the partition that fragment $1 says.
lane_id=:lane AND partition_key={{$1}} AND cap_id=0 AND terminal_at_ms IS NULL

-- fragment: LANE_CLAIMABLE
-- A job that nobody holds and that is available is claimable.  Of any other C
-- is asked: see claimqLaneJudge().  It must be asked job by job, in the order
-- of the index, and not of those behind the last that was wanted.  But SQLite
-- before 3.47 reads all rows and sorts them, though they come sorted, if it
-- expects slightly less than one.  (It keeps the number as a logarithm, and
-- takes one of the values for a flag.)  So here it expects none at all.
likelihood(state<>'active' AND ifnull(available_at_ms, created_at_ms)<=:now
  OR claimq_judge(:who, job_id, due, ifnull(available_at_ms, created_at_ms),
    state='active', reclaim='auto', expires_at_ms, reclaim_count,
    max_reclaims), 0.0)

-- fragment: LANE_COLS
-- The columns of the claim table.  $1 is the lane: a column, or what it was
-- compared with, which SQLite need not copy.
job_id, $1 AS lane_id, partition_key, priority, payload, required_capabilities,
attempt_index, reclaim_count, created_at_ms,
ifnull(available_at_ms, created_at_ms) AS available_at_ms, progress, group_key

-- fragment: LANE_ROW
-- The same, and what else is needed to claim a job.  place is NULL if somebody
-- holds it.
{{LANE_COLS $1}},
fencing_token, claim_id, attempts, iif(state='active', NULL, due) AS place

-- name: LANE_READY
-- What is claimable of a set: the ready ones in order, then those that waited
-- and became due.  waited tells on each row whether there are any of the
-- latter, claimable or not.
SELECT job_id, priority, created_at_ms, due,
  EXISTS(SELECT 1 FROM {{LANE_INDEX}}
         WHERE {{LANE_SET}} AND due BETWEEN 0 AND :now) AS waited
FROM {{LANE_INDEX}} WHERE {{LANE_SET}} AND due<=:now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

-- name: LANE_DUE like LANE_READY
-- Only those that waited, if not all ready ones need to be seen.
SELECT job_id, priority, created_at_ms, due
FROM {{LANE_INDEX}}
WHERE {{LANE_SET}} AND due BETWEEN 0 AND :now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

-- name: LANE_LATER
-- When will a job of a set be claimable that is not now?
SELECT (SELECT count(*) FROM (
    SELECT 1 FROM {{LANE_INDEX}} WHERE {{LANE_SET}} AND due<=:now
    LIMIT :limit)) AS n,
  (SELECT min(t) FROM (
    SELECT max(ifnull(available_at_ms, created_at_ms),
               iif(state='active', ifnull(expires_at_ms, 0), 0)) AS t
    FROM {{LANE_INDEX}} WHERE {{LANE_SET}} AND due<=:now
      AND (state<>'active' OR reclaim='auto')
    LIMIT :limit) WHERE t>:now) AS at_ms,
  (SELECT min(due) FROM {{LANE_INDEX}}
   WHERE {{LANE_SET}} AND due>:now) AS due

-- fragment: LANE_HEAD_IN
-- What is claimable of set 0, with all columns: if none waited the jobs come in
-- the order in which a worker gets them who satisfies this set alone.
SELECT {{LANE_ROW :lane}},
  EXISTS(SELECT 1 FROM {{LANE_INDEX}}
         WHERE {{LANE_SET_0 LANE_ASKED}} AND due BETWEEN 0 AND :now) AS waited
FROM {{LANE_INDEX}}
WHERE {{LANE_SET_0 $1}} AND due<=:now AND {{LANE_CLAIMABLE}}
ORDER BY {{LANE_INDEX_ORDER}}

-- name: LANE_HEAD
{{LANE_HEAD_IN LANE_ASKED}}

-- name: LANE_HEAD_GATED like LANE_HEAD
{{LANE_HEAD_IN LANE_GATE}}

-- name: LANE_JOB like LANE_HEAD
-- A job that was picked.
SELECT {{LANE_ROW lane_id}} FROM {{S}}.claimq_job WHERE job_id=:job

-- name: LANE_KEPT
-- A job as the claim that holds it got it.
SELECT {{LANE_COLS lane_id}}, claim_id, lease_token, owner_id, incarnation_id,
  claimed_at_ms, expires_at_ms, attempts, previous_claim_id
FROM {{S}}.claimq_job WHERE job_id=:head AND claim_id=:claim

--------------------------------------------------------------------------
-- Stamping them.  A list :ids brings the leases, as claimqLeaseMake() derived
-- them: l.claim_id and so on, all NULL for a job of the list that is spent,
-- that is, reclaimed as often as it may be.

-- fragment: LANE_FENCE
j.fencing_token+(j.fencing_token<9223372036854775807)

-- name: LANE_STAMP_NEW
-- The usual case: a job that nobody holds, and that stands among the ready
-- ones.  It stays where it is in the index.  Several such jobs are stamped one
-- by one: an UPDATE FROM a list, which SQLite writes down before it begins,
-- takes longer.
UPDATE {{S}}.claimq_job AS j SET state='active', {{STAMP}},
  fencing_token=:fence, attempts=attempts+1
WHERE job_id=:head AND claim_id IS NULL AND due<0 AND terminal_at_ms IS NULL
  AND (fencing_token=:fence-1 OR {{LANE_FENCE}}=:fence)

-- fragment: LANE_GIVE
-- The lease of a job that waited, or was active: that one is reclaimed.
state=iif(l.claim_id IS NULL, 'failed', 'active'),
claim_id=l.claim_id, lease_token=l.lease_token, owner_id=l.owner_id,
incarnation_id=l.incarnation_id, claimed_at_ms=l.claimed_at_ms,
expires_at_ms=l.expires_at_ms, previous_claim_id=l.previous_claim_id,
fencing_token=ifnull(l.fencing_token, j.fencing_token),
attempts=attempts+(l.claim_id IS NOT NULL),
attempt_index=attempt_index+(l.claim_id IS NOT NULL AND state='active'),
reclaim_count=reclaim_count+(l.claim_id IS NOT NULL AND state='active'),
due=iif(reclaim='auto', l.expires_at_ms, NULL)

-- fragment: LANE_GIVE_UP
-- The end of a job that is spent.
settled_by=iif(l.claim_id IS NULL, 'reclaim_cap', settled_by),
settled_at_ms=iif(l.claim_id IS NULL, :now, settled_at_ms),
settled_claim_id=iif(l.claim_id IS NULL, j.claim_id, settled_claim_id),
settled_token=iif(l.claim_id IS NULL, j.lease_token, settled_token),
settled_owner_id=iif(l.claim_id IS NULL, NULL, settled_owner_id),
last_error=iif(l.claim_id IS NULL,
  'reclaimed '||reclaim_count||' times, which is the maximum', last_error),
error_class=iif(l.claim_id IS NULL, NULL, error_class),
terminal_at_ms=iif(l.claim_id IS NULL, :now, NULL),
awaited=iif(l.claim_id IS NULL, NULL, awaited)

-- fragment: LANE_TAKEABLE
-- Nobody took the job since it was read.
j.job_id=l.id AND terminal_at_ms IS NULL
AND (j.claim_id IS NULL OR ifnull(j.expires_at_ms, 0)<=:now)
AND {{LANE_FENCE}}=ifnull(l.fencing_token, {{LANE_FENCE}})

-- name: LANE_STAMP
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}
FROM claimq_ids(:ids) AS l WHERE {{LANE_TAKEABLE}}

-- name: LANE_STAMP_SPENT like LANE_STAMP
-- Some of the list are spent.
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}
FROM claimq_ids(:ids) AS l WHERE {{LANE_TAKEABLE}}

-- name: LANE_RECLAIM
-- One job, by a grant.
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}
FROM claimq_ids(:ids) AS l WHERE {{LANE_TAKEABLE}} AND state='active'

--------------------------------------------------------------------------
-- Upkeep of the index.

-- name: LANE_PROMOTE
-- At most :limit jobs of a set that are due become ready.
UPDATE {{S}}.claimq_job SET due=-1
WHERE job_id IN (
  SELECT job_id FROM {{LANE_INDEX}}
  WHERE {{LANE_SET}} AND due BETWEEN 0 AND :now
  ORDER BY {{LANE_INDEX_ORDER}} LIMIT :limit)

-- name: LANE_PARK
-- Jobs among the ready ones that are not claimable go where they are found
-- again when they are.  (With WHERE job_id IN SQLite would go through all jobs
-- after an ANALYZE of few.)
UPDATE {{S}}.claimq_job SET due=CASE
    WHEN state<>'active' THEN max(0, ifnull(available_at_ms, created_at_ms))
    WHEN reclaim='auto' THEN max(0, ifnull(expires_at_ms, 0))
  END
FROM (SELECT id FROM claimq_ids(:ids)) AS l
WHERE job_id=l.id AND ifnull(due, 0)<0

--------------------------------------------------------------------------
-- New jobs.

-- name: LANE_INSERT
-- :available is what available_at_ms or delay_ms say, or now.
INSERT INTO {{S}}.claimq_job(lane_id, payload, priority, required_capabilities,
  source_key, available_at_ms, max_attempts, backoff_ms, backoff_factor,
  backoff_max_ms, max_reclaims, reclaim, partition_key, group_key, flow_id,
  namespace, instance_tag, on_failure, created_at_ms, state, due, cap_id)
VALUES(:lane, :payload, :priority, :capabilities, :source_key, :available,
  :max_attempts, :backoff_ms, :backoff_factor, :backoff_max_ms, :max_reclaims,
  :reclaim, :partition_key, :group_key, :flow_id, :namespace, :instance_tag,
  :on_failure, {{NOW}},
  iif(:available>:now, 'delayed', 'ready'),
  iif(:available>:now, :available, -1),
  iif(:capabilities='[]', 0, ifnull((
    SELECT cap_id FROM {{S}}.claimq_capset
    WHERE lane_id=:lane AND partition_key=:partition_key
      AND required=:capabilities), 0)))

-- name: LANE_INSERT_PLAIN
-- Without options: the defaults of claimq_job are those of claimq_submit().
INSERT INTO {{S}}.claimq_job(lane_id, payload, created_at_ms, available_at_ms,
  due)
VALUES(:lane, :payload, {{NOW}}, :now, -1)

-- name: LANE_BY_KEY
-- The job that has the key, or had it and keeps it (unique_for_ms): ended.
SELECT job_id, 0 AS ended
FROM {{S}}.claimq_job INDEXED BY claimq_job_by_key
WHERE lane_id=:lane AND source_key=:source_key AND terminal_at_ms IS NULL
UNION ALL
SELECT j.job_id, 1
FROM {{S}}.claimq_unique AS u CROSS JOIN {{S}}.claimq_job AS j
WHERE u.lane_id=:lane AND u.source_key=:source_key AND u.until_ms>:now
  AND j.job_id=u.job_id AND j.source_key=u.source_key

--------------------------------------------------------------------------
-- The verbs.

-- name: LANE_HOLD
-- Whose is the job, whose was it, and what budget has it?
SELECT claim_id, lease_token, 1 AS claim_size, fencing_token, settled_by,
  settled_claim_id, settled_token, attempt_index, max_attempts,
  max(0, retry_count) AS retry_count, max(0, backoff_ms) AS backoff_ms,
  max(0, backoff_factor) AS backoff_factor,
  max(0, backoff_max_ms) AS backoff_max_ms, slot,
  ifnull(expires_at_ms, 0) AS expires_at_ms,
  slot IS NULL AND awaited IS NULL AS alone
FROM {{S}}.claimq_job WHERE job_id=:head

-- fragment: LANE_HELD
job_id=:head AND claim_id=:claim AND lease_token=:token

-- fragment: LANE_HELD_ALONE
-- The job is in a lane without limits, and nobody waits for it.  For such jobs
-- each verb has a statement *_ALONE that does not name slot and awaited: with
-- these SQLite compiles the triggers that see to limits and to those who wait,
-- of 1,000 to 2,000 opcodes, and a connection's first call of the verb would
-- take four times as long.
{{LANE_HELD}} AND awaited IS NULL AND slot IS NULL

-- fragment: LANE_OVER
-- The claim is over.  (Its id and its token are those that LANE_HELD compared.
-- To copy them from their columns would make a claim and its complete 1 %
-- longer: SQLite allocates memory for each text that it reads.)
settled_claim_id=:claim, settled_token=:token, {{CLAIM_NONE}},
previous_claim_id=NULL

-- fragment: LANE_KEEP
-- Its attempt stays with the job.
settled_owner_id=owner_id, settled_incarnation_id=incarnation_id,
settled_started_ms=claimed_at_ms, settled_expires_ms=expires_at_ms

-- fragment: LANE_PAST
-- Its attempt becomes one of claimq_past, by trigger.
{{LANE_OVER}}, settled_at_ms=:now, settled_owner_id=NULL

-- fragment: LANE_PROGRESS
-- What the holder stores of its work; NULL: nothing new.
progress=ifnull(:progress, progress)

-- name: LANE_RENEW
-- In a lane with limits it goes back to where it waits.
UPDATE {{S}}.claimq_job SET expires_at_ms=:until,
  due=iif(due>=0 OR due<0 AND slot IS NOT NULL, :until, due),
  slot=slot, {{LANE_PROGRESS}}
WHERE {{LANE_HELD}}

-- name: LANE_RENEW_ALONE like LANE_RENEW
UPDATE {{S}}.claimq_job SET expires_at_ms=:until,
  due=iif(due>=0, :until, due), {{LANE_PROGRESS}}
WHERE {{LANE_HELD_ALONE}}

-- name: LANE_RENEW_READY
-- A job that stands among the ready ones stays there, in a lane without limits.
UPDATE {{S}}.claimq_job SET expires_at_ms=:until
WHERE {{LANE_HELD}} AND due<0 AND slot IS NULL AND {{NOW}} IS NOT NULL

-- fragment: LANE_COMPLETED
{{LANE_OVER}}, {{LANE_KEEP}}, settled_by='complete', state='completed',
terminal_at_ms={{NOW}}, result=:result

-- name: LANE_COMPLETE
-- If others wait for the job they learn of it, by trigger; and so does its
-- group if the lane has limits.
UPDATE {{S}}.claimq_job SET {{LANE_COMPLETED}}, awaited=NULL, slot=NULL
WHERE {{LANE_HELD}}

-- name: LANE_COMPLETE_ALONE like LANE_COMPLETE
UPDATE {{S}}.claimq_job SET {{LANE_COMPLETED}} WHERE {{LANE_HELD_ALONE}}

-- fragment: LANE_RELEASED
{{LANE_OVER}}, {{LANE_KEEP}}, settled_at_ms=:now, settled_by='release',
attempts=max(0, attempts-1), {{LANE_PROGRESS}}

-- name: LANE_RELEASE
-- (An UPDATE that names available_at_ms says OR ABORT because the trigger for
-- it does: SQLite would compile what both come to twice.)
UPDATE OR ABORT {{S}}.claimq_job SET {{LANE_RELEASED}}, slot=NULL,
  state=iif(:until>:now, 'delayed', 'ready'),
  due=iif(:until>:now, :until, -1),
  available_at_ms=ifnull(:until, available_at_ms)
WHERE {{LANE_HELD}}

-- name: LANE_RELEASE_ALONE like LANE_RELEASE
-- Without a delay.
UPDATE {{S}}.claimq_job SET {{LANE_RELEASED}}, state='ready', due=-1
WHERE {{LANE_HELD_ALONE}}

-- fragment: LANE_RETRIED
{{LANE_PAST}}, settled_by='retry', state='delayed', due=:until,
last_error=:reason, error_class=:error_class, available_at_ms=:until,
{{LANE_PROGRESS}}, attempt_index=attempt_index+1, retry_count=retry_count+1,
fencing_token={{FENCE}}

-- name: LANE_RETRY
UPDATE OR ABORT {{S}}.claimq_job SET {{LANE_RETRIED}}, slot=NULL
WHERE {{LANE_HELD}}

-- name: LANE_RETRY_ALONE like LANE_RETRY
UPDATE OR ABORT {{S}}.claimq_job SET {{LANE_RETRIED}} WHERE {{LANE_HELD_ALONE}}

-- fragment: LANE_FAILED
-- :by is reject, or dead (a retry too many).
{{LANE_PAST}}, settled_by=:by, state='failed', last_error=:reason,
error_class=:error_class, terminal_at_ms=:now, {{LANE_PROGRESS}}

-- name: LANE_FAIL
UPDATE {{S}}.claimq_job SET {{LANE_FAILED}}, slot=NULL, awaited=NULL
WHERE {{LANE_HELD}}

-- name: LANE_FAIL_ALONE like LANE_FAIL
UPDATE {{S}}.claimq_job SET {{LANE_FAILED}} WHERE {{LANE_HELD_ALONE}}

-- fragment: LANE_REVOKED
-- The attempt is over but not its job.  An auto job is ready for the next one;
-- a grant job waits for the grant, which begins it.
{{LANE_PAST}}, settled_by='revoke', state=iif(reclaim='auto', 'ready', state),
due=iif(reclaim='auto', -1, NULL),
attempt_index=attempt_index+(reclaim='auto'), fencing_token={{FENCE}}

-- name: LANE_REVOKE
UPDATE {{S}}.claimq_job SET {{LANE_REVOKED}}, slot=NULL WHERE {{LANE_HELD}}

-- name: LANE_REVOKE_ALONE like LANE_REVOKE
UPDATE {{S}}.claimq_job SET {{LANE_REVOKED}} WHERE {{LANE_HELD_ALONE}}

-- fragment: LANE_LIVE
claim_id IS NOT NULL AND ifnull(expires_at_ms, 0)>:now

-- name: LANE_STATE
-- What cancel, grant and reclaim must know of a job.
SELECT terminal_at_ms IS NOT NULL AS terminal, state='active' AS active,
  {{LANE_LIVE}} AS live, reclaim_count, max_reclaims
FROM {{S}}.claimq_job WHERE job_id=:job

-- name: LANE_OF
SELECT lane_id FROM {{S}}.claimq_job WHERE job_id=:job

-- name: LANE_CHANGE_KEY
-- Another job of lane :lane that has the source key of this one, or had it and
-- keeps it: ended.
SELECT o.job_id AS job_id, 0 AS ended
FROM {{S}}.claimq_job AS j CROSS JOIN {{S}}.claimq_job AS o
  INDEXED BY claimq_job_by_key
WHERE j.job_id=:job AND o.lane_id=:lane AND o.source_key=j.source_key
  AND o.terminal_at_ms IS NULL AND o.job_id<>:job
UNION ALL
SELECT o.job_id, 1
FROM {{S}}.claimq_job AS j CROSS JOIN {{S}}.claimq_unique AS u
  CROSS JOIN {{S}}.claimq_job AS o
WHERE j.job_id=:job AND u.lane_id=:lane AND u.source_key=j.source_key
  AND u.until_ms>:now AND o.job_id=u.job_id AND o.source_key=u.source_key
  AND o.job_id<>:job

-- name: LANE_CHANGE
-- What is NULL stays.  A job whose claim has expired stays active, where it is.
UPDATE OR ABORT {{S}}.claimq_job SET lane_id=ifnull(:lane, lane_id),
  partition_key=ifnull(:partition_key, partition_key),
  required_capabilities=ifnull(:capabilities, required_capabilities),
  priority=ifnull(:priority, priority), payload=ifnull(:payload, payload),
  max_attempts=ifnull(:max_attempts, max_attempts),
  max_reclaims=ifnull(:max_reclaims, max_reclaims),
  available_at_ms=ifnull(:available, available_at_ms),
  group_key=ifnull(:group_key, group_key), slot=slot,
  state=CASE WHEN state='active' OR state='blocked' OR :available IS NULL
             THEN state
             WHEN :available>:now THEN 'delayed' ELSE 'ready' END,
  due=CASE WHEN state='active' OR state='blocked' OR :available IS NULL
           THEN due
           WHEN :available>:now THEN :available ELSE -1 END
WHERE job_id=:job AND terminal_at_ms IS NULL AND NOT ({{LANE_LIVE}})

-- fragment: LANE_CANCELLED
-- Whoever held it does not any more.  If nobody did, it still knows how its
-- last claim was settled: that verb may be repeated.
settled_by=iif(claim_id IS NULL, ifnull(settled_by, 'cancel'), 'cancel'),
settled_claim_id=ifnull(claim_id, settled_claim_id),
settled_token=iif(claim_id IS NULL, settled_token, lease_token),
{{CLAIM_NONE}}, previous_claim_id=NULL, settled_at_ms=:now,
settled_owner_id=NULL, state='cancelled', waits_for=NULL, awaited=NULL,
slot=NULL, terminal_at_ms=:now

-- name: LANE_CANCEL
UPDATE {{S}}.claimq_job SET {{LANE_CANCELLED}}
WHERE job_id=:job AND terminal_at_ms IS NULL AND (:force OR NOT ({{LANE_LIVE}}))

--------------------------------------------------------------------------
-- Grants.

-- name: LANE_GRANT
INSERT INTO {{S}}.claimq_grant(job_id, owner_id, issued_at_ms, expires_at_ms,
  incarnation_id, lane_id, capability_hash, worker_capabilities,
  route_snapshot_json, admission_summary)
SELECT job_id, :owner, :now, :expires, :incarnation, lane_id,
  :capability_hash, :worker_capabilities, :route_snapshot_json,
  :admission_summary
FROM {{S}}.claimq_job
WHERE job_id=:job AND state='active' AND NOT ({{LANE_LIVE}})
  AND lane_id=ifnull(:lane_id, lane_id)

-- name: LANE_GRANT_NEWEST
SELECT grant_id, owner_id, expires_at_ms
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
WHERE grant_id IN (SELECT id FROM claimq_ids(:ids) LIMIT :limit)

-- name: LANE_OLD_JOBS like VACUUM_ROWS
-- By the index claimq_job_by_end, if the database has it.
-- Jobs stay whose key is still taken, and those for which others wait.
SELECT job_id AS id, terminal_at_ms AS at_ms FROM {{S}}.claimq_job AS j
WHERE terminal_at_ms IS NOT NULL
  AND state IN ('completed','failed','cancelled')
  AND (source_key IS NULL OR NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_unique AS u
    WHERE u.lane_id=j.lane_id AND u.source_key=j.source_key
      AND u.job_id=j.job_id AND u.until_ms>:now))
  AND NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_after AS a INDEXED BY claimq_after_by_after
      CROSS JOIN {{S}}.claimq_job AS b
    WHERE a.after_id=j.job_id AND b.job_id=a.job_id AND b.state='blocked')
ORDER BY terminal_at_ms, job_id LIMIT :limit

-- name: LANE_OLD_JOBS_PAST like VACUUM_DELETE
-- Attempts of jobs that go.
DELETE FROM {{S}}.claimq_past
WHERE (job_id, attempt_index) IN (
  SELECT job_id, attempt_index FROM claimq_ids(:ids) AS l
    CROSS JOIN {{S}}.claimq_past ON job_id=l.id
  LIMIT :limit)

-- name: LANE_OLD_JOBS_ATTEMPT like VACUUM_DELETE
-- The same for those that the job itself tells.
UPDATE {{S}}.claimq_job SET settled_owner_id=NULL
WHERE settled_owner_id IS NOT NULL AND job_id IN (
  SELECT l.id FROM claimq_ids(:ids) AS l
  WHERE (SELECT settled_owner_id FROM {{S}}.claimq_job AS j
         WHERE j.job_id=l.id) IS NOT NULL
  LIMIT :limit)

-- name: LANE_OLD_JOBS_DELETE like VACUUM_DELETE
-- A job goes after its last attempt, and after what it waited for.
DELETE FROM {{S}}.claimq_job
WHERE settled_owner_id IS NULL AND (on_failure IS NULL OR NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_after AS a WHERE a.job_id=claimq_job.job_id))
AND job_id IN (
  SELECT l.id FROM claimq_ids(:ids) AS l
  WHERE NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_past AS a WHERE a.job_id=l.id)
  LIMIT :limit)

-- fragment: LANE_WAITING_SETS
-- The sets of jobs that wait for a grant or for other jobs, and so are not in
-- claimq_job_by_due.  By the index claimq_job_by_set, if the database has it;
-- else all jobs are read, once, and only if a set is asked for that has no job
-- in claimq_job_by_due.
SELECT j.cap_id FROM {{S}}.claimq_job AS j
WHERE j.due IS NULL AND j.terminal_at_ms IS NULL AND j.cap_id<>0

-- name: LANE_OLD_SETS like VACUUM_ROWS
-- Sets that no job has which is, or can become, claimable.  This looks at all
-- sets, as claims do, and seeks twice for each.  (SQLite computes of a CASE
-- only what it needs; of ANDs it would begin with the last.)
SELECT cap_id AS id, 0 AS at_ms FROM {{S}}.claimq_capset AS s
WHERE CASE
  WHEN EXISTS (
    SELECT 1 FROM {{LANE_INDEX}}
    WHERE lane_id=s.lane_id AND partition_key=s.partition_key
      AND cap_id=s.cap_id AND due IS NOT NULL AND terminal_at_ms IS NULL)
  THEN 0
  WHEN EXISTS (
    SELECT 1 FROM {{S}}.claimq_head AS h
    WHERE h.lane_id=s.lane_id AND h.partition_key=s.partition_key
      AND h.cap_id=s.cap_id) THEN 0
  ELSE s.cap_id NOT IN ({{LANE_WAITING_SETS}}) END
ORDER BY cap_id LIMIT :limit

-- name: LANE_OLD_SETS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_capset
WHERE cap_id IN (SELECT id FROM claimq_ids(:ids) LIMIT :limit)

-- name: LANE_OLD_EVENTS like VACUUM_ROWS
-- In the order of their ids, which readers go by: an event goes when all
-- before it have gone.
SELECT event_id AS id, occurred_at_ms AS at_ms FROM {{S}}.claimq_event
ORDER BY event_id LIMIT :limit

-- name: LANE_OLD_EVENTS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_event
WHERE event_id IN (SELECT id FROM claimq_ids(:ids) LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_stats.  Active jobs that wait for a grant stand in no index, so all
-- jobs are read, also for one lane.

-- fragment: LANE_FROM
ifnull(available_at_ms, created_at_ms)

-- fragment: LANE_TAKEN
state='active'

-- fragment: LANE_STATS_ROWS
-- A job that is ready is limited if its lane or its group lets none begin.
SELECT lane_id AS scope, CASE WHEN terminal_at_ms IS NOT NULL
    THEN {{STATS_OVER}} WHEN state='blocked' THEN {{STATS_BLOCKED}}
    WHEN w={{STATS_READY}} AND (
      lane_id IN (SELECT o.lane_id FROM {{S}}.claimq_limit_opens AS o
                  WHERE o.opens_at_ms>:now)
      OR set_id<0 AND EXISTS (
        SELECT 1 FROM {{S}}.claimq_head AS h CROSS JOIN {{S}}.claimq_group AS g
          ON g.group_id=h.group_id
        WHERE h.head_id=-set_id AND g.opens_at_ms>:now))
    THEN {{STATS_LIMITED}} ELSE w END AS w,
  n, d, since, at
FROM (SELECT lane_id, terminal_at_ms, state, cap_id AS set_id,
        {{STATS_STATE LANE_TAKEN LANE_FROM}}
      FROM {{S}}.claimq_job NOT INDEXED)

-- name: LANE_STATS like STATS
SELECT 'lane' AS discipline, scope, {{STATS_SUMS}} FROM (
  {{LANE_STATS_ROWS}} UNION ALL {{STATS_LETTERS lane}}
  UNION ALL {{SCHEDULE_STATS}})
GROUP BY scope ORDER BY scope

-- name: LANE_STATS_OF like STATS
SELECT 'lane' AS discipline, scope, {{STATS_SUMS}} FROM (
  {{LANE_STATS_ROWS}} WHERE lane_id=:scope
  UNION ALL {{STATS_LETTERS lane}} AND scope=:scope
  UNION ALL {{SCHEDULE_STATS}} AND lane_id=:scope)
GROUP BY scope

--------------------------------------------------------------------------
-- claimq_check

-- fragment: LANE_REQUIRES_NOTHING
-- An empty list, however that is written.
trim(required_capabilities, '[] '||char(9,10,13))=''

-- name: LANE_CHECK like CHECK
SELECT 'claimq_job' AS table_name, job_id AS row_key, problem
FROM (SELECT job_id, CASE
    WHEN job_id<=0 THEN 'bad job_id'
    {{CHECK_TEXT lane_id}} {{CHECK_INT partition_key}} {{CHECK_INT priority}}
    {{CHECK_TEXT_NULL source_key}} {{CHECK_TEXT_NULL last_error}}
    WHEN ifnull(state,'') NOT IN ('ready','delayed','active','blocked',
        'completed','failed','cancelled') THEN 'bad state'
    WHEN ifnull(reclaim,'') NOT IN ('auto','grant') THEN 'bad reclaim'
    {{CHECK_INT created_at_ms}} {{CHECK_INT available_at_ms}}
    {{CHECK_INT_NULL due}} {{CHECK_INT_NULL terminal_at_ms}}
    {{CHECK_COUNT attempt_index}} {{CHECK_COUNT retry_count}}
    {{CHECK_COUNT reclaim_count}} {{CHECK_COUNT attempts}}
    {{CHECK_COUNT max_attempts}} {{CHECK_COUNT max_reclaims}}
    {{CHECK_COUNT backoff_ms}} {{CHECK_COUNT backoff_factor}}
    {{CHECK_COUNT backoff_max_ms}}
    {{CHECK_LEASE}} {{CHECK_EXPIRES}} {{CHECK_ONE_CLAIM qjc job_id}}
    WHEN settled_by NOT IN ('complete','release','retry','dead','reject',
        'revoke','cancel','after','reclaim_cap') THEN 'bad settled_by'
    WHEN claim_id IS NOT NULL AND state<>'active'
    THEN 'claimed, and not active'
    WHEN state='active' AND claim_id IS NULL AND reclaim='auto'
    THEN 'active, and not claimed'
    WHEN (terminal_at_ms IS NULL)<>
      (state IN ('ready','delayed','active','blocked'))
    THEN 'terminal_at_ms does not fit the state'
    WHEN due IS NULL AND state IN ('ready','delayed')
      OR due IS NULL AND state='active' AND reclaim='auto'
      OR due IS NOT NULL AND state='blocked'
    THEN 'due does not fit the state'
    WHEN terminal_at_ms IS NULL AND due<>-1 AND due<>max(0, iif(
      state='active', ifnull(expires_at_ms,0), available_at_ms))
    THEN 'due is not when it can be claimed'
    {{CHECK_TEXT required_capabilities}} {{CHECK_INT cap_id}}
    WHEN terminal_at_ms IS NULL AND (cap_id>0 AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_capset AS s WHERE s.cap_id=j.cap_id
        AND s.lane_id=j.lane_id AND s.partition_key=j.partition_key
        AND s.required=j.required_capabilities)
      OR cap_id=0 AND NOT {{LANE_REQUIRES_NOTHING}})
    THEN 'cap_id is not of required_capabilities'
    WHEN NOT claimq_sound(lane_id, source_key, last_error,
        required_capabilities, {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_job AS j NOT INDEXED)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_PAST like CHECK
-- (Attempts that a job had elsewhere may be added, with numbers before 0.)
SELECT 'claimq_past' AS table_name, job_id||'/'||attempt_index AS row_key,
  problem
FROM (SELECT job_id, attempt_index, CASE
    {{CHECK_INT job_id}} {{CHECK_INT attempt_index}} {{CHECK_TEXT owner_id}}
    {{CHECK_TEXT incarnation_id}} {{CHECK_COUNT fencing_token}}
    {{CHECK_INT started_at_ms}} {{CHECK_INT_NULL ended_at_ms}}
    {{CHECK_TEXT_NULL error}} {{CHECK_TEXT_NULL error_class}}
    {{CHECK_INT_NULL expires_at_ms}}
    WHEN outcome NOT IN ('success','retry','failed','released',
      'interrupted_reclaimed','cancelled','revoked') THEN 'bad outcome'
    WHEN NOT EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j
                     WHERE j.job_id=a.job_id) THEN 'its job is not there'
    WHEN NOT claimq_sound(owner_id, incarnation_id, outcome, error, error_class)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_past AS a)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_SETS like CHECK
SELECT 'claimq_capset' AS table_name, cap_id AS row_key, problem
FROM (SELECT cap_id, CASE
    WHEN cap_id<=0 THEN 'bad cap_id'
    {{CHECK_TEXT lane_id}} {{CHECK_INT partition_key}} {{CHECK_TEXT required}}
    WHEN NOT claimq_sound(lane_id, required) {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_capset)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_EVENTS like CHECK
-- A job that is still there has ended as its event says.
SELECT 'claimq_event' AS table_name, event_id AS row_key, problem
FROM (SELECT event_id, CASE
    WHEN event_id<=0 THEN 'bad event_id'
    {{CHECK_INT job_id}} {{CHECK_TEXT lane_id}} {{CHECK_INT partition_key}}
    {{CHECK_TEXT_NULL flow_id}} {{CHECK_TEXT_NULL error_class}}
    {{CHECK_TEXT_NULL namespace}} {{CHECK_TEXT_NULL instance_tag}}
    {{CHECK_INT occurred_at_ms}}
    WHEN ifnull(outcome,'') NOT IN ('success','failed','cancelled')
    THEN 'bad outcome'
    WHEN EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j
      WHERE j.job_id=e.job_id
        AND state<>iif(outcome='success', 'completed', outcome))
    THEN 'its job has not ended so'
    WHEN NOT claimq_sound(lane_id, flow_id, error_class, namespace,
                          instance_tag)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_event AS e)
WHERE problem IS NOT NULL

-- name: LANE_CHECK_ONE_EVENT like CHECK
SELECT 'claimq_event' AS table_name, max(event_id) AS row_key,
  'another event of the job' AS problem
FROM {{S}}.claimq_event GROUP BY job_id HAVING count(*)>1

-- name: LANE_CHECK_GRANTS like CHECK
SELECT 'claimq_grant' AS table_name, grant_id AS row_key, problem
FROM (SELECT grant_id, CASE
    WHEN grant_id<=0 THEN 'bad grant_id'
    {{CHECK_INT job_id}} {{CHECK_TEXT owner_id}} {{CHECK_TEXT incarnation_id}}
    {{CHECK_TEXT lane_id}} {{CHECK_INT issued_at_ms}}
    {{CHECK_INT expires_at_ms}} {{CHECK_TEXT_NULL capability_hash}}
    {{CHECK_TEXT_NULL worker_capabilities}}
    {{CHECK_TEXT_NULL route_snapshot_json}}
    {{CHECK_TEXT_NULL admission_summary}}
    WHEN expires_at_ms<issued_at_ms THEN 'it ends before it was issued'
    WHEN NOT claimq_sound(owner_id, incarnation_id, lane_id, capability_hash,
        worker_capabilities, route_snapshot_json, admission_summary)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_grant)
WHERE problem IS NOT NULL

--------------------------------------------------------------------------
-- claimq_why: the jobs of a lane that have not ended.

-- name: LANE_WHY
SELECT job_id, partition_key,
  iif(cap_id>=0, cap_id, (
    SELECT h.cap_id FROM {{S}}.claimq_head AS h
    WHERE h.head_id=-claimq_job.cap_id)) AS cap_id,
  iif(cap_id>=0, 0, (
    SELECT h.group_id FROM {{S}}.claimq_head AS h
    WHERE h.head_id=-claimq_job.cap_id)) AS group_id, required_capabilities,
  {{LANE_FROM}} AS available_at_ms, state='active' AS active,
  state='blocked' AS blocked,
  reclaim='auto' AS auto, ifnull(expires_at_ms, 0) AS expires_at_ms,
  reclaim_count, max_reclaims
FROM {{S}}.claimq_job NOT INDEXED
WHERE lane_id=:lane AND terminal_at_ms IS NULL ORDER BY job_id
