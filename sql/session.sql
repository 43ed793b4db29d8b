-- session.sql: the statements of ext/session.c.

-- fragment: SESSION_ROW_A
-- The columns of a candidate, in the order of CQ_S_* in session.c, up to the
-- payload; the rest is SESSION_ROW_B.
enqueue_seq, batch_id, session_id, source_key, work_class, delivery_policy,
slot_policy, merge_key

-- fragment: SESSION_ROW_B
-- The last one is NULL if somebody put something into last_error that the
-- table does not allow: the row could not be written back.
enqueued_at_ms, ifnull(available_at_ms, enqueued_at_ms), fencing_token,
claim_id, attempts, nullif(last_error IS NULL OR typeof(last_error)='text', 0),
due

-- fragment: SESSION_NOW
-- Claimable at ?2: what an index cannot know, because time may go back.
ifnull(available_at_ms, enqueued_at_ms)<=?2
AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=?2)

-- name: SESSION_READY
-- Ready rows of session ?1 at time ?2, in order; and in the last column whether
-- there are rows that waited and became claimable.  (These stand behind the
-- ready ones in the same range: if it is empty, there is nothing at all.)
SELECT {{SESSION_ROW_A}}, payload, {{SESSION_ROW_B}}, {{SESSION_READY_FROM}}

-- fragment: SESSION_READY_FROM
EXISTS(
  SELECT 1 FROM main.claimq_batch INDEXED BY claimq_batch_by_session
  WHERE session_id=?1 AND due BETWEEN 0 AND ?2)
FROM main.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session_id=?1 AND due<=?2 AND {{SESSION_NOW}}
ORDER BY due, enqueue_seq

-- name: SESSION_READY_LEAN
-- The same without what the caller did not ask for and selection does not need.
-- But what stands in an index must have its type: UPDATE would set it right in
-- the table alone.
SELECT enqueue_seq, batch_id, NULL, source_key, work_class, delivery_policy,
  slot_policy, merge_key, payload, NULL, NULL, fencing_token, claim_id,
  attempts, NULL, due,
  {{SESSION_READY_FROM}}

-- name: SESSION_DUE
-- Rows of session ?1 that waited and became claimable by ?2.
SELECT enqueue_seq
FROM main.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session_id=?1 AND due BETWEEN 0 AND ?2
ORDER BY enqueue_seq

-- name: SESSION_ANY_READY
-- As SESSION_READY for all sessions, to find the head's session: that needs no
-- payload.  The table is in the right order, and usually its first row will
-- do; if many rows stand in front that are not ready, SESSION_MAKE_BY_READY.
SELECT {{SESSION_ROW_A}}, NULL, {{SESSION_ROW_B}}, 1
FROM main.claimq_batch
WHERE due=-1 AND {{SESSION_NOW}}
ORDER BY enqueue_seq

-- name: SESSION_MAKE_BY_READY
CREATE INDEX IF NOT EXISTS main.claimq_batch_by_ready
ON claimq_batch(due) WHERE due=-1

-- name: SESSION_ANY_DUE
SELECT enqueue_seq
FROM main.claimq_batch INDEXED BY claimq_batch_by_due
WHERE due>=0 AND due<=?2
ORDER BY enqueue_seq

-- name: SESSION_BY_SEQ
-- A row of SESSION_DUE, if it is claimable: somebody may have put it off while
-- it was claimed.
SELECT {{SESSION_ROW_A}}, payload, {{SESSION_ROW_B}}
FROM main.claimq_batch WHERE enqueue_seq=?1 AND {{SESSION_NOW}}

-- fragment: SESSION_STAMP_SET
-- The rows stay where they are in the indexes; SESSION_MOVE_SET is for rows
-- that have to leave the place they have.
claim_id=?2, lease_token=?3, owner_id=?4, incarnation_id=?5,
claimed_at_ms=?6, expires_at_ms=?7, claim_size=?8, claim_last=?10,
fencing_token=fencing_token+(fencing_token<9223372036854775807),
attempts=attempts+(attempts<9223372036854775807)

-- fragment: SESSION_MOVE_SET
{{SESSION_STAMP_SET}}, due=?7

-- name: SESSION_STAMP_ONE
UPDATE main.claimq_batch SET {{SESSION_STAMP_SET}} WHERE enqueue_seq=?10

-- name: SESSION_STAMP
-- A group of ready rows: all rows of session ?1 from ?9 to ?10 that are
-- claimable now, which is ?6.  (A range of the index that is not written to
-- spares SQLite to collect the rows first.)
UPDATE main.claimq_batch INDEXED BY claimq_batch_by_session
SET {{SESSION_STAMP_SET}}
WHERE session_id=?1 AND due=-1 AND enqueue_seq BETWEEN ?9 AND ?10
  AND ifnull(available_at_ms, enqueued_at_ms)<=?6
  AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=?6)

-- name: SESSION_MOVE_ONE
UPDATE main.claimq_batch SET {{SESSION_MOVE_SET}} WHERE enqueue_seq=?10

-- name: SESSION_MOVE
-- The range ?9 .. ?10 from first to last bounds what SQLite looks at if it
-- thinks, after ANALYZE of a short table, that a scan is cheaper.
UPDATE main.claimq_batch SET {{SESSION_MOVE_SET}}
WHERE enqueue_seq IN (SELECT id FROM claimq_ids(?1))
  AND enqueue_seq BETWEEN ?9 AND ?10

-- fragment: SESSION_SOUND
-- A row that somebody corrupted cannot be written, and would spoil the upkeep.
typeof(batch_id) IN ('text','null') AND typeof(session_id)='text'
AND typeof(source_key) IN ('text','null') AND typeof(enqueued_at_ms)='integer'
AND typeof(available_at_ms) IN ('integer','null')
AND typeof(fencing_token)='integer' AND typeof(attempts)='integer'
AND typeof(last_error) IN ('text','null')
AND typeof(claim_id) IN ('text','null')
AND typeof(expires_at_ms) IN ('integer','null')

-- name: SESSION_PROMOTE
-- Upkeep: at most ?3 rows of session ?1 that are due at ?2 become ready.
UPDATE main.claimq_batch SET due=-1
WHERE enqueue_seq IN (
  SELECT enqueue_seq
  FROM main.claimq_batch INDEXED BY claimq_batch_by_session
  WHERE session_id=?1 AND due BETWEEN 0 AND ?2 AND {{SESSION_SOUND}} LIMIT ?3)

-- name: SESSION_ANY_PROMOTE
UPDATE main.claimq_batch SET due=-1
WHERE enqueue_seq IN (
  SELECT enqueue_seq
  FROM main.claimq_batch INDEXED BY claimq_batch_by_due
  WHERE due>=0 AND due<=?2 AND {{SESSION_SOUND}} LIMIT ?3)

-- fragment: SESSION_PARK_SET
due=max(0, ifnull(iif(claim_id IS NULL, available_at_ms, expires_at_ms), 0))

-- name: SESSION_PARK
-- Upkeep: at most ?3 rows of session ?1 before row ?4 that stand among the
-- ready ones and are not claimable at ?2 go where they will be found again.
-- (The range is given twice: SQLite would scan the table if ANALYZE had told it
-- that this is almost empty.)
UPDATE main.claimq_batch INDEXED BY claimq_batch_by_session
SET {{SESSION_PARK_SET}}
WHERE session_id=?1 AND due=-1 AND enqueue_seq<?4 AND enqueue_seq IN (
  SELECT enqueue_seq
  FROM main.claimq_batch INDEXED BY claimq_batch_by_session
  WHERE session_id=?1 AND due=-1 AND enqueue_seq<?4
    AND NOT ({{SESSION_NOW}}) AND {{SESSION_SOUND}} LIMIT ?3)

-- name: SESSION_ANY_PARK
UPDATE main.claimq_batch SET {{SESSION_PARK_SET}}
WHERE enqueue_seq<?4 AND enqueue_seq IN (
  SELECT enqueue_seq
  FROM main.claimq_batch
  WHERE due=-1 AND enqueue_seq<?4
    AND NOT ({{SESSION_NOW}}) AND {{SESSION_SOUND}} LIMIT ?3)

-- fragment: SESSION_LAST
-- Where AUTOINCREMENT remembers the last key; no row before the first.
FROM main.sqlite_sequence WHERE name='claimq_batch'

-- name: SESSION_INSERT
-- With the key known the batch id is known, and the trigger that would write
-- the row again has nothing to do.  claimq_next_batch(?10, key) makes the id,
-- claimq_next_batch(?10) tells the key it was made of.  (Not OR FAIL, which
-- would save a statement journal: it holds for what the user's own triggers do,
-- too, and when one of these fails the row would stay.)
INSERT INTO main.claimq_batch(enqueue_seq, batch_id, session_id,
  payload, source_key, work_class, delivery_policy, slot_policy, merge_key,
  enqueued_at_ms, available_at_ms, due)
VALUES(claimq_next_batch(?10),
  (SELECT claimq_next_batch(?10, seq+1) {{SESSION_LAST}}),
  ?1,?2,?3,?4,?5,?6,?7,?8,?9, iif(?9<=?8, -1, ?9))

-- name: SESSION_BY_KEY
SELECT batch_id FROM main.claimq_batch WHERE session_id=?1 AND source_key=?2

-- name: SESSION_BY_BATCH_ID
-- Newest first: it is mostly young batches that are cancelled.  If it had to
-- look at many, SESSION_MAKE_BY_ID.
SELECT enqueue_seq, claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>?2
FROM main.claimq_batch WHERE batch_id=?1 ORDER BY enqueue_seq DESC

-- name: SESSION_MAKE_BY_ID
CREATE INDEX IF NOT EXISTS main.claimq_batch_by_id ON claimq_batch(batch_id)

-- name: SESSION_HEAD
-- Whose is the head row of a claim?
SELECT claim_id, lease_token, claim_size, batch_id, session_id, claim_last,
  max(0, ifnull(expires_at_ms, 0))
FROM main.claimq_batch WHERE enqueue_seq=?1

-- The verbs write to one row by its key, or to all rows of a claim: those of
-- session ?5 from ?1 to ?6, in the two places where they can be (?7: when the
-- claim expires), that have claim id ?4 and lease token ?8.

-- fragment: SESSION_MANY
INDEXED BY claimq_batch_by_session

-- fragment: SESSION_MANY_ROWS
{{SESSION_MANY_ANY}} AND lease_token=?8

-- fragment: SESSION_MANY_ANY
session_id=?5 AND due IN (-1,?7) AND enqueue_seq BETWEEN ?1 AND ?6
AND claim_id=?4

-- name: SESSION_COUNT
-- How many are there?  That is all of them as a rule.
SELECT count(*) FROM main.claimq_batch {{SESSION_MANY}}
WHERE {{SESSION_MANY_ROWS}}

-- name: SESSION_MEMBERS
-- Also those with another token.
SELECT lease_token, batch_id
FROM main.claimq_batch {{SESSION_MANY}} WHERE {{SESSION_MANY_ANY}}

-- name: SESSION_DELETE_ONE
DELETE FROM main.claimq_batch WHERE enqueue_seq=?1

-- name: SESSION_DELETE
DELETE FROM main.claimq_batch {{SESSION_MANY}} WHERE {{SESSION_MANY_ROWS}}

-- fragment: SESSION_RENEW_SET
expires_at_ms=?2, due=iif(due<0, due, ?2)

-- name: SESSION_RENEW_ONE
UPDATE main.claimq_batch SET {{SESSION_RENEW_SET}} WHERE enqueue_seq=?1

-- name: SESSION_RENEW
UPDATE main.claimq_batch {{SESSION_MANY}} SET {{SESSION_RENEW_SET}}
WHERE {{SESSION_MANY_ROWS}}

-- For claimqVerbFast().

-- fragment: SESSION_GOOD_ONE
enqueue_seq=?1 AND claim_id=?2 AND lease_token=?3 AND claim_size=1

-- name: SESSION_COMPLETE_FAST
DELETE FROM main.claimq_batch WHERE {{SESSION_GOOD_ONE}}

-- name: SESSION_RENEW_FAST
UPDATE main.claimq_batch SET expires_at_ms=?4
WHERE {{SESSION_GOOD_ONE}} AND due<0

-- fragment: CLAIM_NONE
claim_id=NULL, lease_token=NULL, owner_id=NULL, incarnation_id=NULL,
claim_size=NULL, claimed_at_ms=NULL, expires_at_ms=NULL

-- fragment: SESSION_BACK_SET
-- Claimable again; ?2: a later due time, or NULL.
{{CLAIM_NONE}}, claim_last=NULL, available_at_ms=ifnull(?2, available_at_ms),
due=ifnull(?2, -1)

-- name: SESSION_RELEASE_ONE
-- Give back: as if never claimed.
UPDATE main.claimq_batch
SET {{SESSION_BACK_SET}}, attempts=max(0, attempts-1) WHERE enqueue_seq=?1

-- name: SESSION_RELEASE
UPDATE main.claimq_batch {{SESSION_MANY}}
SET {{SESSION_BACK_SET}}, attempts=max(0, attempts-1)
WHERE {{SESSION_MANY_ROWS}}

-- name: SESSION_RETRY_ONE
UPDATE main.claimq_batch
SET {{SESSION_BACK_SET}}, last_error=?3 WHERE enqueue_seq=?1

-- name: SESSION_RETRY
UPDATE main.claimq_batch {{SESSION_MANY}}
SET {{SESSION_BACK_SET}}, last_error=?3 WHERE {{SESSION_MANY_ROWS}}

-- fragment: SESSION_REJECT_SET
-- The trigger claimq_batch_reject moves the rows to the dead letters.
rejected_at_ms=?2, last_error=?3

-- name: SESSION_REJECT_ONE
UPDATE main.claimq_batch SET {{SESSION_REJECT_SET}} WHERE enqueue_seq=?1

-- name: SESSION_REJECT
UPDATE main.claimq_batch {{SESSION_MANY}} SET {{SESSION_REJECT_SET}}
WHERE {{SESSION_MANY_ROWS}}
