-- letter.sql: the statements of ext/letter.c.

-- fragment: LETTER_NOW
-- Claimable at ?2: what an index cannot know, because time may go back.
ifnull(available_at_ms,0)<=?2
AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=?2)

-- fragment: LETTER_SOURCES
-- The source ?1, or all of them.
source IN (ifnull(?1,'session'), ifnull(?1,'lane'), ifnull(?1,'outbox'))

-- name: LETTER_ANY
-- Claimable letters of source ?1 (NULL: all) at ?2, oldest first, at most ?4.
-- Six ordered ranges are merged, ready and due ones of each source; those of
-- another source than ?1 end before they begin.
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='session' AND due=-1 AND ifnull(?1,'session')='session'
  AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='session' AND due BETWEEN 0 AND ?2
  AND ifnull(?1,'session')='session'
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='lane' AND due=-1 AND ifnull(?1,'lane')='lane'
  AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='lane' AND due BETWEEN 0 AND ?2 AND ifnull(?1,'lane')='lane'
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='outbox' AND due=-1 AND ifnull(?1,'outbox')='outbox'
  AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='outbox' AND due BETWEEN 0 AND ?2
  AND ifnull(?1,'outbox')='outbox'
ORDER BY letter_id LIMIT ?4

-- name: LETTER_IN_SCOPE
-- The same within scope ?3.
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='session' AND scope=?3 AND due=-1
  AND ifnull(?1,'session')='session' AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='session' AND scope=?3 AND due BETWEEN 0 AND ?2
  AND ifnull(?1,'session')='session'
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='lane' AND scope=?3 AND due=-1 AND ifnull(?1,'lane')='lane'
  AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='lane' AND scope=?3 AND due BETWEEN 0 AND ?2
  AND ifnull(?1,'lane')='lane'
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='outbox' AND scope=?3 AND due=-1
  AND ifnull(?1,'outbox')='outbox' AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='outbox' AND scope=?3 AND due BETWEEN 0 AND ?2
  AND ifnull(?1,'outbox')='outbox'
ORDER BY letter_id LIMIT ?4

-- name: LETTER_BY_ID
-- The columns of the result, then what the claim needs.
SELECT letter_id, source, scope, ref, payload, payload_type, created_at_ms,
  failed_at_ms, reason, attempts, fencing_token, claim_id
FROM main.claimq_letter WHERE letter_id=?1

-- fragment: LETTER_STAMP_SET
claim_id=?2, lease_token=?3, owner_id=?4, incarnation_id=?5,
claimed_at_ms=?6, expires_at_ms=?7, claim_size=?8, claim_head=?9,
fencing_token=fencing_token+(fencing_token<9223372036854775807),
status='reprocessing', promoted=0

-- name: LETTER_STAMP
UPDATE main.claimq_letter SET {{LETTER_STAMP_SET}}
WHERE letter_id IN (SELECT id FROM claimq_ids(?1))

-- name: LETTER_ANY_DUE
-- How many letters have become due and are not promoted yet?  At most ?4.
SELECT count(*) FROM (
  SELECT 1 FROM main.claimq_letter INDEXED BY claimq_letter_by_source
  WHERE {{LETTER_SOURCES}} AND due BETWEEN 0 AND ?2 LIMIT ?4)

-- name: LETTER_IN_SCOPE_DUE
SELECT count(*) FROM (
  SELECT 1 FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
  WHERE {{LETTER_SOURCES}} AND scope=?3 AND due BETWEEN 0 AND ?2 LIMIT ?4)

-- name: LETTER_ANY_PROMOTE
-- Upkeep: at most ?4 letters that are due at ?2.
UPDATE main.claimq_letter SET promoted=1 WHERE letter_id IN (
  SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_source
  WHERE {{LETTER_SOURCES}} AND due BETWEEN 0 AND ?2 LIMIT ?4)

-- name: LETTER_IN_SCOPE_PROMOTE
UPDATE main.claimq_letter SET promoted=1 WHERE letter_id IN (
  SELECT letter_id FROM main.claimq_letter INDEXED BY claimq_letter_by_scope
  WHERE {{LETTER_SOURCES}} AND scope=?3 AND due BETWEEN 0 AND ?2 LIMIT ?4)

-- name: LETTER_HEAD
-- Whose is the head row of a claim?
SELECT claim_id FROM main.claimq_letter WHERE letter_id=?1

-- name: LETTER_MEMBERS
-- All letters of a claim: head ?1, claim id ?2.
SELECT letter_id, lease_token, claim_size
FROM main.claimq_letter INDEXED BY claimq_letter_by_claim
WHERE claim_head=?1 AND claim_id=?2
ORDER BY letter_id

-- fragment: LETTER_FREE
{{CLAIM_NONE}}, claim_head=NULL

-- name: LETTER_RENEW
UPDATE main.claimq_letter SET expires_at_ms=?2, promoted=0
WHERE letter_id IN (SELECT id FROM claimq_ids(?1))

-- name: LETTER_RESOLVE
UPDATE main.claimq_letter SET {{LETTER_FREE}}, status='resolved'
WHERE letter_id IN (SELECT id FROM claimq_ids(?1))

-- name: LETTER_RELEASE
-- ?2: a later due time, or NULL.
UPDATE main.claimq_letter SET {{LETTER_FREE}},
  status='pending', available_at_ms=?2, promoted=0
WHERE letter_id IN (SELECT id FROM claimq_ids(?1))

-- name: LETTER_RETRY
UPDATE main.claimq_letter SET {{LETTER_FREE}},
  status='pending', available_at_ms=?2, promoted=0,
  attempts=attempts+(attempts<9223372036854775807), reason=?3
WHERE letter_id IN (SELECT id FROM claimq_ids(?1))

-- name: LETTER_DISCARD
UPDATE main.claimq_letter SET {{LETTER_FREE}}, status='discarded', reason=?3
WHERE letter_id IN (SELECT id FROM claimq_ids(?1))

--------------------------------------------------------------------------
-- claimq_requeue().  The statements that make new work read payload and scope
-- from letter ?1 itself; ?2 is now; from ?3 on come the values of its origin,
-- in the order of the table in letter.c.  Each returns the new key, or the
-- rowid by which another statement finds it.

-- name: LETTER_STATE
SELECT source, status, origin, claim_id,
  claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>?2, ifnull(expires_at_ms,0)
FROM main.claimq_letter WHERE letter_id=?1

-- name: LETTER_TO_SESSION
INSERT INTO main.claimq_batch(session_id, payload, source_key, work_class,
  delivery_policy, slot_policy, merge_key, enqueued_at_ms, available_at_ms)
SELECT scope, payload,
  CASE WHEN NOT EXISTS (SELECT 1
         FROM main.claimq_batch AS b INDEXED BY claimq_batch_by_key
         WHERE b.session_id=l.scope AND b.source_key=?3) THEN ?3 END,
  ifnull(?4,'turn_work'), ifnull(?5,'earliest_safe_boundary'),
  ifnull(?6,'exclusive'), ifnull(?7,'never'), ?2, ?2
FROM main.claimq_letter AS l WHERE letter_id=?1
RETURNING claimq_batch_id(session_id, source_key, enqueued_at_ms, enqueue_seq)

-- name: LETTER_TO_LANE
INSERT INTO main.claimq_job(lane_id, payload, priority, required_capabilities,
  source_key, max_attempts, backoff_ms, backoff_factor, backoff_max_ms,
  max_reclaims, reclaim, partition_key, flow_id, namespace, instance_tag,
  created_at_ms, available_at_ms)
SELECT scope, payload, ifnull(?3,0), ifnull(?4,'[]'),
  CASE WHEN NOT EXISTS (SELECT 1
         FROM main.claimq_job AS j INDEXED BY claimq_job_by_key
         WHERE j.lane_id=l.scope AND j.source_key=?5
           AND j.terminal_at_ms IS NULL) THEN ?5 END,
  ifnull(?6,20), ifnull(?7,1000), ifnull(?8,2), ifnull(?9,60000),
  ifnull(?10,1000), ifnull(?11,'auto'), ifnull(?12,0), ?13, ?14, ?15, ?2, ?2
FROM main.claimq_letter AS l WHERE letter_id=?1
RETURNING job_id

-- name: LETTER_TO_OUTBOX
-- A letter without origin goes where its scope, QUEUE/PARTITION, says.
INSERT INTO main.claimq_message(queue_name, partition, payload, payload_type,
  created_at_ms)
SELECT ifnull(?3, substr(scope, 1, instr(scope,'/')-1)),
  ifnull(?4, CAST(substr(scope, instr(scope,'/')+1) AS INTEGER)),
  payload, ifnull(payload_type,'application/json'), ?2
FROM main.claimq_letter WHERE letter_id=?1
RETURNING message_id

-- name: LETTER_OUTBOX_SEQ
-- RETURNING cannot tell what a trigger has filled in.
SELECT seq FROM main.claimq_message WHERE message_id=?1

-- name: LETTER_REQUEUED
-- The letter has become ?2.
UPDATE main.claimq_letter SET {{LETTER_FREE}}, status='resolved',
  requeued_as=?2
WHERE letter_id=?1

-- name: LETTER_SHRINK
-- The rest of a claim, now that one letter has left it.
UPDATE main.claimq_letter SET claim_size=claim_size-1
WHERE letter_id IN (SELECT letter_id
  FROM main.claimq_letter INDEXED BY claimq_letter_by_claim
  WHERE claim_head=?1 AND claim_id=?2)
