-- session.sql: the statements of ext/session.c.
--
-- The statements that settle a claim of several rows are alike.  Beside the
-- common parameters they have these:
--
-- shape: SESSION_SETTLE (session due last)

--------------------------------------------------------------------------
-- Candidates

-- fragment: SESSION_ROW_A
-- What is read of a batch: its key and batch id, its session, this, its
-- payload, and SESSION_ROW_B.  Up to fencing_token that are the columns of the
-- claim table, in their order.  A session that was asked for is not read again.
source_key, work_class, delivery_policy, slot_policy, merge_key

-- fragment: SESSION_ROW_B
enqueued_at_ms, ifnull(available_at_ms, enqueued_at_ms) AS available_at_ms,
fencing_token, claim_id, expires_at_ms, attempts, last_error, due

-- fragment: SESSION_NOW
-- Claimable at :now.  The same rule as claimqBatchWhy().
ifnull(available_at_ms, enqueued_at_ms)<=:now
AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=:now)

-- name: SESSION_READY
-- The rows of a session that stand among the ready ones, in order.  Those that
-- are not claimable come without their payload, which may be long.  waited: is
-- there a row that waited and has become due?  (Such rows stand behind the
-- ready ones in the same range: if it is empty, there is nothing at all.)
SELECT enqueue_seq, batch_id, NULL AS session_id, {{SESSION_ROW_A}},
  iif({{SESSION_NOW}}, payload, NULL) AS payload, {{SESSION_ROW_B}}, EXISTS(
    SELECT 1 FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
    WHERE session_id=:session AND due BETWEEN 0 AND :now) AS waited
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session_id=:session AND due<=:now
ORDER BY due, enqueue_seq

-- name: SESSION_ANY_READY like SESSION_READY
-- The same for all sessions, to find the session of the head: that needs no
-- payload.  The table is in the right order, and usually its first row will do;
-- with the setting any_session or serial SESSION_KNOWN is used instead.
SELECT enqueue_seq, batch_id, session_id, {{SESSION_ROW_A}}, NULL AS payload,
  {{SESSION_ROW_B}}, 1 AS waited
FROM {{S}}.claimq_batch
WHERE due=-1
ORDER BY enqueue_seq

-- name: SESSION_DUE
-- Rows of a session that waited and have become due.
SELECT enqueue_seq
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session_id=:session AND due BETWEEN 0 AND :now
ORDER BY enqueue_seq

-- name: SESSION_ANY_DUE like SESSION_DUE
SELECT enqueue_seq
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_due
WHERE due>=0 AND due<=:now
ORDER BY enqueue_seq

-- name: SESSION_BY_SEQ like SESSION_READY
-- A row of SESSION_DUE.
SELECT enqueue_seq, batch_id, session_id, {{SESSION_ROW_A}}, payload,
  {{SESSION_ROW_B}}
FROM {{S}}.claimq_batch WHERE enqueue_seq=:seq

-- name: SESSION_BUSY
-- For serial claims: the rows of the session that a claim has or had.  Does a
-- live one hold the row?  Does it wait?  (Those that are held longest come
-- first.)  With the setting serial or any_session there is an index.
SELECT enqueue_seq,
  claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>:now AS held,
  fencing_token>0 AND ifnull(available_at_ms, enqueued_at_ms)>:now AS waits,
  expires_at_ms, ifnull(available_at_ms, enqueued_at_ms) AS available_at_ms
FROM {{S}}.claimq_batch
WHERE session_id=:session AND (claim_id IS NOT NULL OR fencing_token>0)
ORDER BY due DESC

-- name: SESSION_KNOWN
-- The next session in this state, by its head.
SELECT session_id, head
FROM {{S}}.claimq_session INDEXED BY claimq_session_by_state
WHERE state=:state AND head>:after ORDER BY head LIMIT 1

-- name: SESSION_KNOWN_DUE
-- Sessions whose state may be another by now; and those whose head lies ahead
-- of the clock, which went back.  (LIMIT keeps SQLite from leaving out the
-- order.)
SELECT session_id, due FROM (
  SELECT session_id, due
  FROM {{S}}.claimq_session INDEXED BY claimq_session_by_due
  WHERE due<=:now ORDER BY due LIMIT -1)
UNION ALL
SELECT session_id, due FROM (
  SELECT session_id, due
  FROM {{S}}.claimq_session INDEXED BY claimq_session_by_since
  WHERE since_ms>:now ORDER BY since_ms LIMIT -1)

-- name: SESSION_LOOK
-- Repair what is known of a session.
INSERT INTO {{S}}.claimq_session_look(session_id) VALUES(:session)

-- fragment: SESSION_HEAD
-- A column of the claim's first row.
(SELECT $1 FROM {{S}}.claimq_batch WHERE enqueue_seq=:head AND claim_id=:claim)

-- name: SESSION_ROWS
-- The rows of a claim, in order.  Up to fencing_token these are the columns of
-- the claim table.
SELECT enqueue_seq, batch_id, session_id, {{SESSION_ROW_A}}, payload,
  enqueued_at_ms, ifnull(available_at_ms, enqueued_at_ms) AS available_at_ms,
  fencing_token, claim_id, lease_token, owner_id, incarnation_id,
  claimed_at_ms, expires_at_ms, attempts, claim_size
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session_id={{SESSION_HEAD session_id}}
  AND due IN (-1, max(0, ifnull({{SESSION_HEAD expires_at_ms}}, 0)))
  AND enqueue_seq BETWEEN :head AND {{SESSION_HEAD claim_last}}
  AND claim_id=:claim AND lease_token={{SESSION_HEAD lease_token}}
ORDER BY enqueue_seq

-- fragment: SESSION_HAD_AT
-- When a row that is not claimable will be.  To a serial claim it also matters
-- when the row ceases to be held.
iif(:serial AND claim_id IS NOT NULL AND ifnull(expires_at_ms, 0)>:now,
    expires_at_ms,
    max(ifnull(available_at_ms, enqueued_at_ms),
        iif(claim_id IS NULL, 0, ifnull(expires_at_ms, 0))))

-- name: SESSION_LATER
-- When will a row of the session be claimable that is not now?
SELECT count(*) AS n, min(iif(t>:now, t, NULL)) AS at_ms, (
    SELECT min(due) FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
    WHERE session_id=:session AND due>:now) AS due
FROM (
  SELECT {{SESSION_HAD_AT}} AS t
  FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
  WHERE session_id=:session AND due<=:now LIMIT :limit)

-- name: SESSION_ANY_LATER like SESSION_LATER
SELECT count(*) AS n, min(iif(t>:now, t, NULL)) AS at_ms, (
    SELECT min(due) FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_due
    WHERE due>=0 AND due>:now) AS due
FROM (
  SELECT {{SESSION_HAD_AT}} AS t FROM {{S}}.claimq_batch
  WHERE due<=:now LIMIT :limit)

--------------------------------------------------------------------------
-- The claim

-- fragment: SESSION_STAMP_SET
-- The rows stay where they are in the indexes.
{{STAMP}}, claim_size=:size, claim_last=:last, claim_serial=:serial,
fencing_token={{FENCE}},
attempts=attempts+(attempts<9223372036854775807)

-- fragment: SESSION_MOVE_SET
-- For rows that have to leave the place they have.
{{SESSION_STAMP_SET}}, due=:expires

-- name: SESSION_STAMP
-- A group of ready rows: all rows of the session from the first to the last
-- that are claimable.  (A range of the index that is not written to spares
-- SQLite to collect the rows first.)
UPDATE {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
SET {{SESSION_STAMP_SET}}
WHERE session_id=:session AND due=-1 AND enqueue_seq BETWEEN :head AND :last
  AND {{SESSION_NOW}}

-- name: SESSION_STAMP_ONE like SESSION_STAMP
UPDATE {{S}}.claimq_batch SET {{SESSION_STAMP_SET}}
WHERE enqueue_seq=:head AND {{SESSION_NOW}}

-- name: SESSION_MOVE_ONE like SESSION_STAMP
-- A row that waited.  (By the list of one key it would take a fifth longer to
-- claim and retry it.)
UPDATE {{S}}.claimq_batch SET {{SESSION_MOVE_SET}}
WHERE enqueue_seq=:head AND {{SESSION_NOW}}

-- name: SESSION_MOVE like SESSION_STAMP
-- Rows that waited.  The range from the first to the last bounds what SQLite
-- looks at if it thinks, after ANALYZE of a short table, that a scan is
-- cheaper.
UPDATE {{S}}.claimq_batch SET {{SESSION_MOVE_SET}}
WHERE enqueue_seq IN (SELECT id FROM claimq_ids(:ids))
  AND enqueue_seq BETWEEN :head AND :last AND {{SESSION_NOW}}

-- name: SESSION_PARK
-- Upkeep: these rows stand among the ready ones and are not claimable.  They go
-- where they will be found when they are.
UPDATE {{S}}.claimq_batch
SET due=max(0, ifnull(iif(claim_id IS NULL, available_at_ms, expires_at_ms), 0))
WHERE {{SESSION_LISTED}}

-- name: SESSION_PROMOTE like SESSION_PARK
-- Upkeep: these rows are due, and become ready.
UPDATE {{S}}.claimq_batch SET due=-1 WHERE {{SESSION_LISTED}}

-- fragment: SESSION_LISTED
-- A row that somebody corrupted cannot be written, and would spoil the upkeep
-- of the others.
enqueue_seq IN (SELECT id FROM claimq_ids(:ids))
AND enqueue_seq BETWEEN :first AND :last
AND typeof(batch_id) IN ('text','null') AND typeof(session_id)='text'
AND typeof(source_key) IN ('text','null') AND typeof(enqueued_at_ms)='integer'
AND typeof(available_at_ms) IN ('integer','null')
AND typeof(fencing_token)='integer' AND typeof(attempts)='integer'
AND typeof(last_error) IN ('text','null')
AND typeof(claim_id) IN ('text','null')
AND typeof(expires_at_ms) IN ('integer','null')

--------------------------------------------------------------------------
-- Enqueue and cancel

-- name: SESSION_INSERT
-- AUTOINCREMENT will give the row the key after the last one that
-- sqlite_sequence remembers.  So the batch id can be made of that key before
-- the row is written, and the trigger that would write the row again has
-- nothing to do, but for the first row ever.  (Not OR FAIL, which would save a
-- statement journal: it holds for what the user's own triggers do, too, and
-- when one of these fails the row would stay.)
INSERT INTO {{S}}.claimq_batch(batch_id, session_id, payload, source_key,
  work_class, delivery_policy, slot_policy, merge_key, enqueued_at_ms,
  available_at_ms, due)
VALUES((SELECT claimq_note(:maker, seq+1)
          FROM {{S}}.sqlite_sequence WHERE name='claimq_batch'),
  :session, :payload, :source_key, :work_class, :delivery_policy, :slot_policy,
  :merge_key, {{NOW}}, :available, :due)

-- name: SESSION_INSERT_PLAIN
-- Without options: the defaults of claimq_batch are those of claimq_enqueue().
INSERT INTO {{S}}.claimq_batch(batch_id, session_id, payload, enqueued_at_ms,
  available_at_ms, due)
VALUES((SELECT claimq_note(:maker, seq+1)
          FROM {{S}}.sqlite_sequence WHERE name='claimq_batch'),
  :session, :payload, {{NOW}}, :now, -1)

-- name: SESSION_BY_KEY
SELECT batch_id FROM {{S}}.claimq_batch
WHERE session_id=:session AND source_key=:source_key

-- name: SESSION_BY_BATCH_ID
-- Newest first: it is mostly young batches that are cancelled.
SELECT enqueue_seq,
  claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>:now AS held
FROM {{S}}.claimq_batch WHERE batch_id=:batch_id ORDER BY enqueue_seq DESC

-- name: SESSION_CANCEL
DELETE FROM {{S}}.claimq_batch
WHERE enqueue_seq=:seq AND batch_id=:batch_id
  AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=:now)

--------------------------------------------------------------------------
-- The verbs
--
-- A claim of one row, by its key.  (It could be settled as a claim of several
-- is, but then SQLite collects the rows first: by key a retry takes half the
-- time.)

-- fragment: SESSION_ONE
enqueue_seq=:head AND claim_id=:claim AND lease_token=:token AND claim_size=1

-- A claim of several: the rows of its session from the first to the last that
-- have its claim id and its token.  They stand in two places, so these run once
-- with :due -1 and then, if some are still missing, with the time when the
-- claim expires.

-- fragment: SESSION_OF
INDEXED BY claimq_batch_by_session

-- fragment: SESSION_SEVERAL
session_id=:session AND due=:due AND enqueue_seq BETWEEN :head AND :last
AND claim_id=:claim AND lease_token=:token

-- name: SESSION_HOLD
SELECT claim_id, lease_token, claim_size, fencing_token, batch_id, session_id,
  claim_last, claim_serial,
  max(0, ifnull(expires_at_ms, 0)) AS expires_at_ms
FROM {{S}}.claimq_batch WHERE enqueue_seq=:head

-- name: SESSION_MEMBERS
-- The rows of a claim in both places, also with another token.
SELECT lease_token, batch_id FROM {{S}}.claimq_batch {{SESSION_OF}}
WHERE session_id=:session AND due IN (-1,:due)
  AND enqueue_seq BETWEEN :head AND :last AND claim_id=:claim

-- name: SESSION_LEFT
-- How many rows have the claim, wherever they stand?
SELECT count(*) AS n FROM {{S}}.claimq_batch
WHERE enqueue_seq BETWEEN :head AND :last
  AND claim_id=:claim AND lease_token=:token

-- name: SESSION_COMPLETE_ONE
DELETE FROM {{S}}.claimq_batch WHERE {{SESSION_ONE}} AND {{NOW}} IS NOT NULL

-- name: SESSION_COMPLETE like SESSION_SETTLE
DELETE FROM {{S}}.claimq_batch {{SESSION_OF}} WHERE {{SESSION_SEVERAL}}

-- name: SESSION_RENEW_FAST
-- Of a row that need not be moved, and of a lease that needs no free slot.
UPDATE {{S}}.claimq_batch SET expires_at_ms=:until
WHERE {{SESSION_ONE}} AND due<0 AND {{NOW}} IS NOT NULL
  AND (claim_serial IS NULL OR expires_at_ms>:now)

-- fragment: SESSION_RENEW_SET
expires_at_ms=:until, due=iif(due<0, due, :until)

-- name: SESSION_RENEW_ONE
UPDATE {{S}}.claimq_batch SET {{SESSION_RENEW_SET}} WHERE {{SESSION_ONE}}

-- name: SESSION_RENEW like SESSION_SETTLE
UPDATE {{S}}.claimq_batch {{SESSION_OF}} SET {{SESSION_RENEW_SET}}
WHERE {{SESSION_SEVERAL}}

-- fragment: SESSION_BACK_SET
-- No claim holds the row; it is due at :until, or at once.
{{CLAIM_NONE}}, claim_size=NULL, claim_last=NULL, claim_serial=NULL,
available_at_ms=ifnull(:until, available_at_ms), due=ifnull(:until, -1)

-- fragment: SESSION_RELEASE_SET
-- As if never claimed.
{{SESSION_BACK_SET}}, attempts=max(0, attempts-1)

-- name: SESSION_RELEASE_ONE
UPDATE {{S}}.claimq_batch SET {{SESSION_RELEASE_SET}} WHERE {{SESSION_ONE}}

-- name: SESSION_RELEASE like SESSION_SETTLE
UPDATE {{S}}.claimq_batch {{SESSION_OF}} SET {{SESSION_RELEASE_SET}}
WHERE {{SESSION_SEVERAL}}

-- name: SESSION_RETRY_ONE
UPDATE {{S}}.claimq_batch SET {{SESSION_BACK_SET}}, last_error=:reason
WHERE {{SESSION_ONE}}

-- name: SESSION_RETRY like SESSION_SETTLE
UPDATE {{S}}.claimq_batch {{SESSION_OF}}
SET {{SESSION_BACK_SET}}, last_error=:reason WHERE {{SESSION_SEVERAL}}

-- name: SESSION_REVOKE_ONE
-- As if the claim had expired, and somebody had displaced it.
UPDATE {{S}}.claimq_batch SET {{SESSION_BACK_SET}} WHERE {{SESSION_ONE}}

-- name: SESSION_REVOKE like SESSION_SETTLE
UPDATE {{S}}.claimq_batch {{SESSION_OF}} SET {{SESSION_BACK_SET}}
WHERE {{SESSION_SEVERAL}}

-- name: SESSION_LETTER
-- reject: the dead letter of a row, which is deleted next.
INSERT INTO {{S}}.claimq_letter({{LETTER_INTO}})
SELECT {{SESSION_LETTER_ROW}}
FROM {{S}}.claimq_batch WHERE {{SESSION_ONE}}

-- name: SESSION_LETTERS like SESSION_SETTLE
-- The same for a claim of several, in the order of the rows.
INSERT INTO {{S}}.claimq_letter({{LETTER_INTO}})
SELECT {{SESSION_LETTER_ROW}}
FROM {{S}}.claimq_batch {{SESSION_OF}}
WHERE session_id=:session AND due IN (-1,:due)
  AND enqueue_seq BETWEEN :head AND :last
  AND claim_id=:claim AND lease_token=:token
ORDER BY enqueue_seq

-- fragment: SESSION_LETTER_ROW
'session', session_id, batch_id, payload, NULL, enqueued_at_ms, :now, :reason,
NULL, attempts, claimq_origin('source_key', source_key,
  'work_class', work_class, 'delivery_policy', delivery_policy,
  'slot_policy', slot_policy, 'merge_key', merge_key)

--------------------------------------------------------------------------
-- claimq_stats

-- fragment: SESSION_FROM
ifnull(available_at_ms, enqueued_at_ms)

-- fragment: SESSION_STATS_ROWS
SELECT session_id AS scope, {{STATS_STATE STATS_CLAIMED SESSION_FROM}}
FROM {{S}}.claimq_batch

-- name: SESSION_STATS like STATS
SELECT 'session' AS discipline, scope, {{STATS_SUMS}} FROM (
  {{SESSION_STATS_ROWS}} UNION ALL {{STATS_LETTERS session}})
GROUP BY scope ORDER BY scope

-- name: SESSION_STATS_OF like STATS
SELECT 'session' AS discipline, scope, {{STATS_SUMS}} FROM (
  {{SESSION_STATS_ROWS}} WHERE session_id=:scope
  UNION ALL {{STATS_LETTERS session}} AND scope=:scope)
GROUP BY scope

--------------------------------------------------------------------------
-- claimq_check

-- name: SESSION_CHECK like CHECK
SELECT 'claimq_batch' AS table_name, enqueue_seq AS row_key, problem
FROM (SELECT enqueue_seq, CASE
    WHEN enqueue_seq<=0 THEN 'bad enqueue_seq'
    {{CHECK_TEXT session_id}} {{CHECK_TEXT batch_id}}
    {{CHECK_TEXT_NULL source_key}} {{CHECK_TEXT_NULL last_error}}
    WHEN ifnull(work_class,'') NOT IN ('turn_work','session_command')
    THEN 'bad work_class'
    WHEN ifnull(delivery_policy,'') NOT IN ('earliest_safe_boundary',
                                            'after_current_turn_commit')
    THEN 'bad delivery_policy'
    WHEN ifnull(slot_policy,'') NOT IN ('exclusive','join')
    THEN 'bad slot_policy'
    WHEN claim_serial IS NOT NULL
      AND (claim_serial NOT IN (0,1) OR typeof(claim_serial)<>'integer')
    THEN 'bad claim_serial'
    {{CHECK_TEXT merge_key}}
    WHEN merge_key NOT IN ('never','payload_default')
      AND substr(merge_key,1,6)<>'group:' THEN 'bad merge_key'
    {{CHECK_INT enqueued_at_ms}} {{CHECK_INT available_at_ms}}
    {{CHECK_INT due}} {{CHECK_COUNT attempts}}
    {{CHECK_LEASE}} {{CHECK_EXPIRES}} {{CHECK_SIZE}}
    {{CHECK_INT_NULL claim_last}}
    WHEN (claim_id IS NULL)<>(claim_last IS NULL) THEN 'half a claim'
    WHEN due<>-1 AND due<>max(0, iif(claim_id IS NULL, available_at_ms,
                                     expires_at_ms))
    THEN 'due is not when it can be claimed'
    WHEN claim_id GLOB 'qwc:'||enqueue_seq||':*'
      AND claim_id<>'qwc:'||enqueue_seq||':'||fencing_token
      AND {{CHECK_NO_JUMP}}
    THEN 'claim_id is not that of the row'
    WHEN NOT claimq_sound(session_id, batch_id, source_key, last_error,
        merge_key, {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_batch NOT INDEXED)
WHERE problem IS NOT NULL

-- fragment: SESSION_FIRST
-- The first row of a claim, by its id.
CAST(substr(claim_id, 5) AS INTEGER)

-- name: SESSION_CHECK_CLAIMS like CHECK
SELECT 'claimq_batch' AS table_name, row_key, problem
FROM (SELECT min(enqueue_seq) AS row_key, CASE {{CHECK_ALIKE qwc}}
    WHEN min(claim_last)<>max(claim_last)
      OR min(session_id)<>max(session_id) THEN 'the rows of the claim differ'
    WHEN min(enqueue_seq)<{{SESSION_FIRST}} OR max(enqueue_seq)>max(claim_last)
    THEN 'outside of its claim'
    WHEN max(claim_size)>max(claim_last)-{{SESSION_FIRST}}+1
    THEN 'claim_size is more than the claim can have'
  END AS problem FROM {{S}}.claimq_batch NOT INDEXED
  WHERE claim_id IS NOT NULL GROUP BY claim_id)
WHERE problem IS NOT NULL

-- name: SESSION_CHECK_KNOWN like CHECK
-- What claimq_session knows, where it is kept (settings any_session, serial),
-- against what the trigger would write.
SELECT 'claimq_session' AS table_name, x.session_id AS row_key,
  'not what its batches say' AS problem
FROM (SELECT s.session_id, k.session_id AS known, k.head, k.state, k.due,
    k.since_ms, (
    SELECT min(enqueue_seq) FROM {{S}}.claimq_batch
    WHERE session_id=s.session_id AND due=-1) AS first
  FROM (SELECT session_id FROM {{S}}.claimq_batch
        UNION SELECT session_id FROM {{S}}.claimq_session) AS s
    LEFT JOIN {{S}}.claimq_session AS k ON k.session_id=s.session_id
  WHERE (SELECT value & 3 FROM {{S}}.claimq_meta WHERE name='settings'))
  AS x LEFT JOIN {{S}}.claimq_batch AS b ON b.enqueue_seq=x.first
WHERE known IS NULL OR (x.due IS NOT -1 AND (
  head IS NOT first
  OR x.since_ms IS NOT ifnull(b.available_at_ms, b.enqueued_at_ms)
  OR x.due IS NOT iif(b.claim_id IS NOT NULL, 0, (
       SELECT min(due) FROM {{S}}.claimq_batch
       WHERE session_id=x.session_id AND due>=0))
  OR state % 4 IS NOT CASE
       WHEN b.enqueue_seq IS NULL OR b.claim_id IS NOT NULL THEN NULL
       WHEN b.work_class='session_command' THEN 1
       WHEN b.delivery_policy='earliest_safe_boundary' THEN 2 ELSE 3 END
  OR (state>=4)<>EXISTS(SELECT 1 FROM {{S}}.claimq_batch AS t
       WHERE t.session_id=x.session_id AND t.due>=0
         AND (t.claim_id IS NOT NULL OR t.fencing_token>0)
         AND (t.claim_id IS NOT NULL OR t.enqueue_seq<first))
  OR NOT EXISTS(SELECT 1 FROM {{S}}.claimq_batch AS t
       WHERE t.session_id=x.session_id)))

--------------------------------------------------------------------------
-- claimq_why: the rows of a session in order; of each session.

-- name: SESSION_WHY like SESSION_READY
SELECT enqueue_seq, batch_id, session_id, {{SESSION_ROW_A}}, NULL AS payload,
  {{SESSION_ROW_B}}
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session_id=:session ORDER BY enqueue_seq

-- name: SESSION_ANY_WHY like SESSION_READY
SELECT enqueue_seq, batch_id, session_id, {{SESSION_ROW_A}}, NULL AS payload,
  {{SESSION_ROW_B}}
FROM {{S}}.claimq_batch NOT INDEXED ORDER BY session_id, enqueue_seq
