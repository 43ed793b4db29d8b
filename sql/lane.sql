-- lane.sql: the statements of ext/lane.c.

-- fragment: LANE_ROW
-- The columns of a job, in the order of CQ_L_* in lane.c.
job_id, lane_id, partition_key, priority, payload, required_capabilities,
attempt_index, reclaim_count, created_at_ms,
ifnull(available_at_ms, created_at_ms), fencing_token, claim_id, attempts,
state='active', due

-- fragment: LANE_FENCE
-- The fencing token after this one.
fencing_token+(fencing_token<9223372036854775807)

-- fragment: LANE_SPENT
-- An expired job that was reclaimed as often as it may be.
state='active' AND reclaim_count>=max_reclaims

-- fragment: LANE_KEY
-- What order and reclaim cap are told by.
job_id, priority, created_at_ms, {{LANE_SPENT}}, due, cap_id

-- fragment: LANE_NOW
-- Claimable at ?4: what an index cannot know, because time may go back.
ifnull(available_at_ms, created_at_ms)<=?4
AND (state<>'active' OR (reclaim='auto' AND ifnull(expires_at_ms,0)<=?4))

-- name: LANE_SETS
-- The sets of capabilities in lane ?1, partition ?2.
SELECT cap_id, required FROM main.claimq_capset
WHERE lane_id=?1 AND partition_key=?2

-- fragment: LANE_SET
main.claimq_job INDEXED BY claimq_job_by_due
WHERE lane_id=?1 AND partition_key=?2 AND cap_id=?3

-- name: LANE_READY
-- Jobs of lane ?1, partition ?2, set ?3 that are claimable at ?4: the ready
-- ones in order, then those that waited and became due, in no order.  The last
-- column tells on each row whether there are any of the latter.
SELECT {{LANE_KEY}},
  EXISTS(SELECT 1 FROM {{LANE_SET}} AND due BETWEEN 0 AND ?4)
FROM {{LANE_SET}} AND due<=?4 AND {{LANE_NOW}}
ORDER BY due, priority DESC, created_at_ms, job_id

-- fragment: LANE_SET_0
main.claimq_job INDEXED BY claimq_job_by_due
WHERE lane_id=?1 AND partition_key=?2 AND cap_id=0

-- name: LANE_HEAD
-- The same with the columns of the jobs, for a worker that satisfies set 0
-- alone: if none waited they come in the order in which it gets them.
SELECT {{LANE_ROW}}, max_reclaims,
  EXISTS(SELECT 1 FROM {{LANE_SET_0}} AND due BETWEEN 0 AND ?4)
FROM {{LANE_SET_0}} AND due<=?4 AND {{LANE_NOW}}
ORDER BY due, priority DESC, created_at_ms, job_id

-- name: LANE_DUE
-- Only those that waited, if not all ready ones need to be seen.
SELECT {{LANE_KEY}} FROM {{LANE_SET}} AND due BETWEEN 0 AND ?4 AND {{LANE_NOW}}

-- name: LANE_BY_ID
SELECT {{LANE_ROW}} FROM main.claimq_job WHERE job_id=?1

-- fragment: LANE_LEASE_COLS
-- What the claim of a job writes that waited, or was active: that one is
-- reclaimed.
state, owner_id, incarnation_id, claimed_at_ms, expires_at_ms, fencing_token,
attempts, claim_id, lease_token, due, previous_claim_id, attempt_index,
reclaim_count

-- fragment: LANE_LEASE
-- The same as claimqLeaseMake() computes, from owner ?2, incarnation ?3, now
-- ?4, expiry ?5.
'active', ?2, ?3, ?4, ?5, {{LANE_FENCE}}, attempts+1,
'qjc:'||job_id||':'||({{LANE_FENCE}}),
claimq_lease_token(lane_id, ?2, ?3, 'qjc:'||job_id||':'||({{LANE_FENCE}}), ?4),
iif(reclaim='auto', ?5, NULL), claim_id, attempt_index+(state='active'),
reclaim_count+(state='active')

-- fragment: LANE_CAP_COLS
settled_by, settled_at_ms, settled_claim_id, settled_token,
settled_owner_id, last_error, terminal_at_ms

-- fragment: LANE_CAP
-- The end of a job that was reclaimed too often, at ?4: LANE_LEASE_COLS, then
-- LANE_CAP_COLS.
'failed', NULL, NULL, NULL, NULL, fencing_token, attempts, NULL, NULL,
NULL, NULL, attempt_index, reclaim_count, 'reclaim_cap', ?4, claim_id,
lease_token, NULL,
'reclaimed '||reclaim_count||' times, which is the maximum', ?4

-- name: LANE_STAMP_NEW
-- The usual case: one job that nobody holds, and that stands among the ready
-- ones.  It stays where it is in the index.
UPDATE main.claimq_job SET state='active', claim_id=?2, lease_token=?3,
  owner_id=?4, incarnation_id=?5, claimed_at_ms=?6, expires_at_ms=?7,
  fencing_token={{LANE_FENCE}}, attempts=attempts+1
WHERE job_id=?1

-- name: LANE_STAMP_NEWS
-- Several such jobs, with the leases that were made for them.
UPDATE main.claimq_job SET state='active', claim_id=claimq_ids.claim_id,
  lease_token=claimq_ids.lease_token, owner_id=?2, incarnation_id=?3,
  claimed_at_ms=?4, expires_at_ms=?5, fencing_token={{LANE_FENCE}},
  attempts=attempts+1
FROM claimq_ids(?1) WHERE job_id=claimq_ids.id

-- name: LANE_STAMP
UPDATE main.claimq_job SET ({{LANE_LEASE_COLS}})=({{LANE_LEASE}})
WHERE job_id IN (SELECT id FROM claimq_ids(?1))

-- name: LANE_STAMP_MIXED
-- Jobs to hand out and jobs that are spent, in one statement.
UPDATE main.claimq_job SET ({{LANE_LEASE_COLS}}, {{LANE_CAP_COLS}})=(
  SELECT {{LANE_CAP}} WHERE {{LANE_SPENT}}
  UNION ALL
  SELECT {{LANE_LEASE}}, {{LANE_CAP_COLS}} WHERE NOT ({{LANE_SPENT}}))
WHERE job_id IN (SELECT id FROM claimq_ids(?1))

-- name: LANE_PROMOTE
-- Upkeep: at most ?5 jobs of lane ?1, partition ?2, set ?3 that are due at ?4
-- become ready.
UPDATE main.claimq_job SET due=-1
WHERE job_id IN (
  SELECT job_id FROM {{LANE_SET}} AND due BETWEEN 0 AND ?4 LIMIT ?5)

-- name: LANE_PARK
-- Upkeep: of the first ?5 jobs among the ready ones of lane ?1, partition ?2,
-- set ?3, those that are not claimable at ?4 go where they are found again.
UPDATE main.claimq_job SET due=CASE
    WHEN state<>'active' THEN max(0, ifnull(available_at_ms, created_at_ms))
    WHEN reclaim='auto' THEN max(0, ifnull(expires_at_ms, 0))
  END
WHERE job_id IN (
  SELECT iif({{LANE_NOW}}, NULL, job_id) FROM {{LANE_SET}} AND due=-1
  ORDER BY priority DESC, created_at_ms, job_id LIMIT ?5)

-- name: LANE_INSERT
-- ?3 on: the options of claimq_submit() in their order, ?6 being the time from
-- which the job is available; ?18: now.
INSERT INTO main.claimq_job(lane_id, payload, priority, required_capabilities,
  source_key, available_at_ms, max_attempts, backoff_ms, backoff_factor,
  backoff_max_ms, max_reclaims, reclaim, partition_key, flow_id, namespace,
  instance_tag, created_at_ms, state, due, cap_id)
VALUES(?1,?2,?3,?4,?5,?6,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,
  iif(?6>?18, 'delayed', 'ready'), iif(?6>?18, ?6, -1),
  iif(?4='[]', 0, ifnull((
    SELECT cap_id FROM main.claimq_capset
    WHERE lane_id=?1 AND partition_key=?14 AND required=?4), 0)))

-- name: LANE_INSERT_PLAIN
-- Without options, at ?3: the defaults of claimq_job are those of
-- claimq_submit().
INSERT INTO main.claimq_job(lane_id, payload, created_at_ms, available_at_ms,
  due)
VALUES(?1, ?2, ?3, ?3, -1)

-- name: LANE_BY_KEY
SELECT job_id FROM main.claimq_job INDEXED BY claimq_job_by_key
WHERE lane_id=?1 AND source_key=?2 AND terminal_at_ms IS NULL

-- name: LANE_HOLD
-- Whose is job ?1, whose was it, and what budget has it?
SELECT claim_id, lease_token, settled_by, settled_claim_id, settled_token,
  attempt_index, max_attempts, max(0,retry_count), max(0,backoff_ms),
  max(0,backoff_factor), max(0,backoff_max_ms)
FROM main.claimq_job WHERE job_id=?1

-- fragment: LANE_OVER
-- The claim is over.
settled_claim_id=claim_id, settled_token=lease_token,
claim_id=NULL, lease_token=NULL, owner_id=NULL, incarnation_id=NULL,
claimed_at_ms=NULL, expires_at_ms=NULL, previous_claim_id=NULL

-- fragment: LANE_KEEP
-- Its attempt stays with the job.
settled_owner_id=owner_id, settled_incarnation_id=incarnation_id,
settled_started_ms=claimed_at_ms

-- fragment: LANE_PAST
-- At ?2; its attempt becomes one of claimq_past.
{{LANE_OVER}}, settled_at_ms=?2, settled_owner_id=NULL

-- For claimqVerbFast().

-- fragment: LANE_GOOD
job_id=?1 AND claim_id=?2 AND lease_token=?3

-- name: LANE_RENEW_FAST
UPDATE main.claimq_job SET expires_at_ms=?4 WHERE {{LANE_GOOD}} AND due<0

-- name: LANE_COMPLETE_FAST
UPDATE main.claimq_job SET settled_claim_id=?2, settled_token=?3,
  {{LANE_KEEP}}, settled_by='complete', claim_id=NULL, lease_token=NULL,
  owner_id=NULL, incarnation_id=NULL, claimed_at_ms=NULL, expires_at_ms=NULL,
  previous_claim_id=NULL, state='completed', due=NULL, terminal_at_ms=?4,
  result=?5
WHERE {{LANE_GOOD}}

-- name: LANE_RENEW
UPDATE main.claimq_job SET expires_at_ms=?2, due=iif(due>=0, ?2, due)
WHERE job_id=?1

-- name: LANE_COMPLETE
UPDATE main.claimq_job SET {{LANE_OVER}}, {{LANE_KEEP}}, settled_by='complete',
  state='completed', due=NULL, terminal_at_ms=?2, result=?3
WHERE job_id=?1

-- name: LANE_RELEASE
-- ?3: a later due time, or NULL.
UPDATE main.claimq_job SET {{LANE_OVER}}, {{LANE_KEEP}},
  settled_at_ms=?2, settled_by='release',
  state=iif(?3>?2, 'delayed', 'ready'), due=iif(?3>?2, ?3, -1),
  available_at_ms=ifnull(?3, available_at_ms), attempts=max(0, attempts-1)
WHERE job_id=?1

-- name: LANE_RETRY
-- ?3: the reason, ?4: the due time.
UPDATE main.claimq_job SET {{LANE_PAST}}, settled_by='retry',
  state='delayed', due=?4, last_error=?3, available_at_ms=?4,
  attempt_index=attempt_index+1, retry_count=retry_count+1,
  fencing_token={{LANE_FENCE}}
WHERE job_id=?1

-- name: LANE_FAIL
-- ?3: the reason, ?4: reject, or dead (a retry too many).
UPDATE main.claimq_job SET {{LANE_PAST}}, settled_by=?4,
  state='failed', due=NULL, last_error=?3, terminal_at_ms=?2
WHERE job_id=?1

-- name: LANE_STATE
-- What cancel, revoke, grant and reclaim must know of job ?1 at ?2: is it
-- terminal, active, held, held by a live claim; its count and cap.
SELECT terminal_at_ms IS NOT NULL, state='active', claim_id IS NOT NULL,
  claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>?2,
  reclaim_count, max_reclaims
FROM main.claimq_job WHERE job_id=?1

-- name: LANE_CANCEL
UPDATE main.claimq_job SET {{LANE_PAST}}, settled_by='cancel',
  state='cancelled', due=NULL, terminal_at_ms=?2
WHERE job_id=?1

-- name: LANE_REVOKE
-- The attempt is over but not its job.  An auto job is ready for the next one;
-- a grant job waits for the grant, which begins it.
UPDATE main.claimq_job SET {{LANE_PAST}}, settled_by='revoke',
  state=iif(reclaim='auto', 'ready', state),
  due=iif(reclaim='auto', -1, NULL),
  attempt_index=attempt_index+(reclaim='auto'), fencing_token={{LANE_FENCE}}
WHERE job_id=?1

-- name: LANE_GRANT
INSERT INTO main.claimq_grant(job_id, owner_id, issued_at_ms, expires_at_ms,
  incarnation_id, lane_id, capability_hash, worker_capabilities,
  route_snapshot_json, admission_summary)
VALUES(?1,?2,?3,?4,?5,
  ifnull(?6, (SELECT lane_id FROM main.claimq_job WHERE job_id=?1)),
  ?7,?8,?9,?10)

-- name: LANE_GRANT_NEWEST
SELECT grant_id, owner_id, expires_at_ms
FROM main.claimq_grant INDEXED BY claimq_grant_by_job
WHERE job_id=?1 ORDER BY issued_at_ms DESC, grant_id DESC LIMIT 1

-- name: LANE_GRANT_DELETE
DELETE FROM main.claimq_grant WHERE grant_id=?1

-- name: LANE_RECLAIM
-- By grant ?6, which the trigger claimq_job_granted deletes.
UPDATE main.claimq_job SET grant_id=?6, ({{LANE_LEASE_COLS}})=({{LANE_LEASE}})
WHERE job_id=?1

-- name: LANE_RECLAIM_CAP
UPDATE main.claimq_job SET grant_id=?6,
  ({{LANE_LEASE_COLS}}, {{LANE_CAP_COLS}})=({{LANE_CAP}})
WHERE job_id=?1
