-- session.sql: the statements of ext/session/session.c.
--
-- The statements that settle a claim of several rows are alike.  Beside the
-- common parameters they have these:
--
-- shape: SESSION_SETTLE (session due last)

--------------------------------------------------------------------------
-- Candidates

-- fragment: SESSION_ID
-- The batch id of a row, also of one that nobody has written it to yet.
ifnull(batch_id,
  claimq__batch_id(session, source_key, enqueued_at_ms, enqueue_seq))

-- fragment: SESSION_ROW_A
-- What is read of a batch: its key and batch id, its session, this, its
-- payload and headers, and SESSION_ROW_B.  Up to fencing_token that are the
-- columns of the claim table, in their order.  A session that was asked for is
-- not read again.
source_key, work_class, delivery_policy, slot_policy, merge_key

-- fragment: SESSION_ROW_B
enqueued_at_ms, ifnull(available_at_ms, enqueued_at_ms) AS available_at_ms,
fencing_token, claim_id, expires_at_ms, attempts, last_error,
{{BATCH_DUE}} AS due, batch_id IS NULL AS new

-- fragment: BATCH_DUE
-- When a batch can be claimed, as far as is known: -1 at once, or it could when
-- somebody last looked.
ifnull(place, iif(available_at_ms>enqueued_at_ms, available_at_ms, -1))

-- fragment: SESSION_NOW
-- Claimable at :now.  The same rule as claimqBatchWhy().
(ifnull(expires_at_ms, 0)<=:now OR claim_id IS NULL)
AND ifnull(available_at_ms, enqueued_at_ms)<=:now

-- fragment: SESSION_OFFERED
-- The rows that C gets: claimable ones, and corrupted ones.  Of a row that is
-- not claimable a function is asked.  (SQLite before 3.47 sorts rows that come
-- sorted, if it expects too few: see LANE_CLAIMABLE.)
likelihood({{SESSION_NOW}} OR claimq__batch_passed(:who, enqueue_seq,
  ifnull(available_at_ms, enqueued_at_ms), expires_at_ms), 0.0)

-- name: SESSION_READY
-- What is claimable of a session: the ready ones in order.  waited: is there a
-- row that waited and has become due?  (Such rows stand behind the ready ones
-- in the same range: if it gives nothing, there is nothing at all.)
SELECT enqueue_seq, {{SESSION_ID}} AS batch_id, NULL AS session,
  {{SESSION_ROW_A}},
  payload, headers, {{SESSION_ROW_B}},
  EXISTS(
    SELECT 1 FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
    WHERE session=:session AND {{BATCH_DUE}} BETWEEN 0 AND :now) AS waited
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session=:session AND {{BATCH_DUE}}<=:now AND {{SESSION_OFFERED}}
ORDER BY {{BATCH_DUE}}, enqueue_seq

-- name: SESSION_ANY_READY like SESSION_READY
-- The same for all sessions, to find the session of the head: that needs no
-- payload.  The table is in the right order, and usually its first row will do;
-- with the setting any_session or serial SESSION_KNOWN is used instead.
SELECT enqueue_seq, {{SESSION_ID}} AS batch_id, session,
  {{SESSION_ROW_A}}, NULL AS payload, headers,
  {{SESSION_ROW_B}}, 1 AS waited
FROM {{S}}.claimq_batch
WHERE {{BATCH_DUE}}=-1 AND {{SESSION_OFFERED}}
ORDER BY enqueue_seq

-- name: SESSION_DUE
-- Rows of a session that waited and have become due.
SELECT enqueue_seq
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session=:session AND {{BATCH_DUE}} BETWEEN 0 AND :now
ORDER BY enqueue_seq

-- name: SESSION_ANY_DUE like SESSION_DUE
SELECT enqueue_seq
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_due
WHERE {{BATCH_DUE}}>=0 AND {{BATCH_DUE}}<=:now
ORDER BY enqueue_seq

-- name: SESSION_BY_SEQ like SESSION_READY
-- A row of SESSION_DUE.
SELECT enqueue_seq, {{SESSION_ID}} AS batch_id, session,
  {{SESSION_ROW_A}}, payload, headers, {{SESSION_ROW_B}}
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
WHERE session=:session AND (claim_id IS NOT NULL OR fencing_token>0)
ORDER BY {{BATCH_DUE}} DESC

-- name: SESSION_KNOWN
-- The next session by its state and, within that, its head.
SELECT session, state, head
FROM {{S}}.claimq_session INDEXED BY claimq_session_by_state
WHERE (state, head)>(:state, :after) ORDER BY state, head LIMIT 1

-- name: SESSION_KNOWN_DUE
-- Sessions whose state may be another by now; and those whose head lies ahead
-- of the clock, which went back.  (LIMIT keeps SQLite from leaving out the
-- order.)
SELECT session, due FROM (
  SELECT session, due
  FROM {{S}}.claimq_session INDEXED BY claimq_session_by_due
  WHERE due<=:now ORDER BY due LIMIT -1)
UNION ALL
SELECT session, due FROM (
  SELECT session, due
  FROM {{S}}.claimq_session INDEXED BY claimq_session_by_since
  WHERE since_ms>:now ORDER BY since_ms LIMIT -1)

-- fragment: SESSION_ONLY
SELECT :session AS session

-- fragment: SESSION_ALL
SELECT DISTINCT session FROM {{S}}.claimq_batch

-- fragment: SESSION_SPECIAL
-- Not turn work that is delivered at the earliest safe boundary.
work_class<>'turn_work' OR delivery_policy<>'earliest_safe_boundary'

-- fragment: SESSION_MIXED
-- Has session $1 such rows?
EXISTS(SELECT 1 FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_kind
  WHERE session=$1 AND ({{SESSION_SPECIAL}}))

-- fragment: SESSION_SEEN
-- What claimq_session is to say of the sessions that $1 gives.  (JOIN with
-- another order would read all batches; and what stands in min() SQLite before
-- 3.41 does not take from the index, if it is an expression.)
SELECT s.session, h.enqueue_seq AS head,
  CASE WHEN h.enqueue_seq IS NULL THEN NULL
    WHEN NOT {{SESSION_MIXED s.session}} THEN 2
    WHEN h.claim_id IS NOT NULL THEN 0
    WHEN h.work_class='session_command' THEN 1
    WHEN h.delivery_policy='earliest_safe_boundary' THEN 2 ELSE 3 END
  + 4*EXISTS(SELECT 1 FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_tried
      WHERE session=s.session AND {{BATCH_DUE}}>=0
        AND (claim_id IS NOT NULL OR fencing_token>0)
        AND (claim_id IS NOT NULL OR enqueue_seq<h.enqueue_seq)) AS state,
  (SELECT {{BATCH_DUE}}
    FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
    WHERE session=s.session AND {{BATCH_DUE}}>=0
    ORDER BY {{BATCH_DUE}} LIMIT 1) AS due,
  iif(h.claim_id IS NULL AND {{SESSION_MIXED s.session}},
    ifnull(h.available_at_ms, h.enqueued_at_ms), NULL) AS since_ms
FROM ({{$1}}) AS s LEFT JOIN {{S}}.claimq_batch AS h ON h.enqueue_seq=(
  SELECT min(enqueue_seq)
  FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
  WHERE session=s.session AND {{BATCH_DUE}}=-1)

-- fragment: SESSION_LOOK_SET
INTO {{S}}.claimq_session(session, head, state, due, since_ms)
{{SESSION_SEEN $1}}
WHERE EXISTS(SELECT 1 FROM {{S}}.claimq_batch WHERE session=s.session)
ON CONFLICT(session) DO UPDATE
SET head=excluded.head, state=excluded.state, due=excluded.due,
  since_ms=excluded.since_ms
WHERE head IS NOT excluded.head OR state IS NOT excluded.state
  OR due IS NOT excluded.due OR since_ms IS NOT excluded.since_ms

-- name: SESSION_LOOK
-- Look at a session, and write what is known of it, if that has changed.
INSERT {{SESSION_LOOK_SET SESSION_ONLY}}

-- name: SESSION_IS_MIXED like SESSION_LOOK
SELECT {{SESSION_MIXED :session}} AS mixed

-- name: SESSION_HAS_HEAD like SESSION_LOOK
-- Is it known that the session has a batch to give?
SELECT 1 FROM {{S}}.claimq_session
WHERE session=:session AND state IS NOT NULL

-- name: SESSION_RAISE
-- The first batch of a session is later than is known, and nothing else of it
-- has changed.  Where all batches are of the usual kind and none waits, there
-- is nothing else that could.
UPDATE {{S}}.claimq_session SET head=:head
WHERE session=:session AND head<:head
  AND state=2 AND due IS NULL AND since_ms IS NULL

-- name: SESSION_FORGET like SESSION_LOOK
-- A session that has no batches any more.
DELETE FROM {{S}}.claimq_session WHERE session=:session
  AND NOT EXISTS(SELECT 1 FROM {{S}}.claimq_batch WHERE session=:session)

-- name: SESSION_NEW
-- Batches that came by a plain INSERT, where claimq_session does not know of
-- them yet.
SELECT enqueue_seq, session
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_id
WHERE batch_id IS NULL ORDER BY enqueue_seq

-- name: SESSION_NAME
-- Give them their ids.
UPDATE {{S}}.claimq_batch SET batch_id={{SESSION_ID}}
WHERE enqueue_seq IN (SELECT id FROM claimq__ids(:ids)) AND batch_id IS NULL

-- fragment: SESSION_HEAD
-- A column of the claim's first row.
(SELECT $1 FROM {{S}}.claimq_batch WHERE enqueue_seq=:head AND claim_id=:claim)

-- name: SESSION_ROWS
-- The rows of a claim, in order.  Up to fencing_token these are the columns of
-- the claim table.
SELECT enqueue_seq, batch_id, session, {{SESSION_ROW_A}}, payload, headers,
  enqueued_at_ms, ifnull(available_at_ms, enqueued_at_ms) AS available_at_ms,
  fencing_token, claim_id, lease_token, owner, incarnation,
  claimed_at_ms, expires_at_ms, attempts, claim_size
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session={{SESSION_HEAD session}}
  AND {{BATCH_DUE}} IN (-1, max(0, ifnull({{SESSION_HEAD expires_at_ms}}, 0)))
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
    SELECT {{BATCH_DUE}}
    FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
    WHERE session=:session AND {{BATCH_DUE}}>:now
    ORDER BY {{BATCH_DUE}} LIMIT 1) AS due
FROM (
  SELECT {{SESSION_HAD_AT}} AS t
  FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
  WHERE session=:session AND {{BATCH_DUE}}<=:now LIMIT :limit)

-- name: SESSION_ANY_LATER like SESSION_LATER
SELECT count(*) AS n, min(iif(t>:now, t, NULL)) AS at_ms, (
    SELECT {{BATCH_DUE}} FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_due
    WHERE {{BATCH_DUE}}>=0 AND {{BATCH_DUE}}>:now
    ORDER BY {{BATCH_DUE}} LIMIT 1) AS due
FROM (
  SELECT {{SESSION_HAD_AT}} AS t FROM {{S}}.claimq_batch
  WHERE {{BATCH_DUE}}<=:now LIMIT :limit)

--------------------------------------------------------------------------
-- The claim

-- fragment: SESSION_STAMP_SET
-- The rows stay where they are in the indexes.
{{STAMP}}, claim_size=:size, claim_last=:last, claim_serial=:serial,
fencing_token={{FENCE}},
attempts=attempts+(attempts<9223372036854775807)

-- fragment: SESSION_MOVE_SET
-- For rows that have to leave the place they have.
{{SESSION_STAMP_SET}}, place=:expires

-- name: SESSION_STAMP
-- A group of ready rows: all rows of the session from the first to the last
-- that are claimable.  (A range of the index that is not written to spares
-- SQLite to collect the rows first.)
UPDATE {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
SET {{SESSION_STAMP_SET}}
WHERE session=:session AND {{BATCH_DUE}}=-1
  AND enqueue_seq BETWEEN :head AND :last AND {{SESSION_NOW}}

-- name: SESSION_STAMP_NEW like SESSION_STAMP
-- The same if some of them came by a plain INSERT, and get their ids.
UPDATE {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
SET {{SESSION_STAMP_SET}}, batch_id={{SESSION_ID}}
WHERE session=:session AND {{BATCH_DUE}}=-1
  AND enqueue_seq BETWEEN :head AND :last AND {{SESSION_NOW}}

-- name: SESSION_STAMP_NEW_ONE like SESSION_STAMP
UPDATE {{S}}.claimq_batch SET {{SESSION_STAMP_SET}}, batch_id=:batch_id
WHERE enqueue_seq=:head AND {{SESSION_NOW}}

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
WHERE enqueue_seq IN (SELECT id FROM claimq__ids(:ids))
  AND enqueue_seq BETWEEN :head AND :last AND {{SESSION_NOW}}

-- name: SESSION_PARK
-- Upkeep: these rows stand among the ready ones and are not claimable.  They go
-- where they will be found when they are.
UPDATE {{S}}.claimq_batch
SET place=max(0, ifnull(iif(claim_id IS NULL,
  ifnull(available_at_ms, enqueued_at_ms), expires_at_ms), 0))
WHERE {{SESSION_LISTED}}

-- name: SESSION_PROMOTE like SESSION_PARK
-- Upkeep: these rows are due, and become ready.
UPDATE {{S}}.claimq_batch SET place=-1 WHERE {{SESSION_LISTED}}

-- fragment: SESSION_LISTED
-- A row that somebody corrupted cannot be written, and would spoil the upkeep
-- of the others.
enqueue_seq IN (SELECT id FROM claimq__ids(:ids))
AND enqueue_seq BETWEEN :first AND :last
AND typeof(batch_id) IN ('text','null') AND typeof(session)='text'
AND typeof(source_key) IN ('text','null') AND typeof(enqueued_at_ms)='integer'
AND typeof(available_at_ms) IN ('integer','null')
AND typeof(fencing_token)='integer' AND typeof(attempts)='integer'
AND typeof(last_error) IN ('text','null')
AND typeof(headers) IN ('text','null')
AND typeof(claim_id) IN ('text','null')
AND typeof(expires_at_ms) IN ('integer','null')

--------------------------------------------------------------------------
-- Enqueue and cancel

-- name: SESSION_INSERT
-- AUTOINCREMENT will give the row the key after the last one that
-- sqlite_sequence remembers.  So the batch id can be made of that key before
-- the row is written.  (Not OR FAIL, which would save a statement journal: it
-- holds for what the user's own triggers do, too, and when one of these fails
-- the row would stay.)
INSERT INTO {{S}}.claimq_batch(batch_id, session, payload, source_key,
  work_class, delivery_policy, slot_policy, merge_key, headers,
  enqueued_at_ms, available_at_ms)
VALUES(claimq__note(:maker, {{SESSION_NEXT}}),
  :session, :payload, :source_key, :work_class, :delivery_policy, :slot_policy,
  :merge_key, :headers, {{NOW}}, {{AVAILABLE}})

-- fragment: SESSION_NEXT
coalesce(
  (SELECT seq FROM {{S}}.sqlite_sequence WHERE name='claimq_batch'),
  (SELECT max(enqueue_seq) FROM {{S}}.claimq_batch), 0)+1

-- name: SESSION_INSERT_PLAIN
-- Without options: the defaults of claimq_batch are those of claimq_enqueue().
INSERT INTO {{S}}.claimq_batch(batch_id, session, payload, enqueued_at_ms)
VALUES(claimq__note(:maker, {{SESSION_NEXT}}),
  :session, :payload, {{NOW}})

-- name: SESSION_BY_KEY
SELECT {{SESSION_ID}} AS batch_id FROM {{S}}.claimq_batch
WHERE session=:session AND source_key=:source_key

-- name: SESSION_KEPT
-- The batch that had a key which stays taken (unique_for_ms), wherever it is.
SELECT answer AS batch_id FROM {{S}}.claimq_request
WHERE request=:request AND func='claimq_enqueue' AND at_ms>:now

-- name: SESSION_KEEP
-- Remember it until :until, among the answers of calls that are repeated: such
-- a call is answered again, however long ago the batch was done.
INSERT INTO {{S}}.claimq_request(request, func, scope, owner, at_ms, answer)
VALUES(:request, 'claimq_enqueue', :session, :source_key, :until, :batch_id)
ON CONFLICT(request) DO UPDATE SET at_ms=excluded.at_ms, answer=excluded.answer

-- name: SESSION_BY_BATCH_ID
-- Newest first: it is mostly young batches that are cancelled.
SELECT enqueue_seq,
  claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>:now AS held
FROM {{S}}.claimq_batch
WHERE batch_id=:batch_id OR batch_id IS NULL AND {{SESSION_ID}}=:batch_id
ORDER BY enqueue_seq DESC

-- name: SESSION_CANCEL
DELETE FROM {{S}}.claimq_batch
WHERE enqueue_seq=:seq AND {{SESSION_ID}}=:batch_id
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
session=:session AND {{BATCH_DUE}}=:due AND enqueue_seq BETWEEN :head AND :last
AND claim_id=:claim AND lease_token=:token

-- name: SESSION_UNDELETED
-- Is the batch in main?
SELECT 1 AS one FROM {{S}}.claimq_batch WHERE enqueue_seq=:seq

-- name: SESSION_HOLD
SELECT claim_id, lease_token, claim_size, fencing_token,
  max(0, ifnull(expires_at_ms, 0)) AS expires_at_ms,
  batch_id, session, claim_last, claim_serial
FROM {{S}}.claimq_batch WHERE enqueue_seq=:head

-- name: SESSION_MEMBERS
-- The rows of a claim in both places, also with another token.
SELECT lease_token, batch_id FROM {{S}}.claimq_batch {{SESSION_OF}}
WHERE session=:session AND {{BATCH_DUE}} IN (-1,:due)
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
UPDATE {{S}}.claimq_batch SET expires_at_ms={{LATER :lease}}
WHERE {{SESSION_ONE}} AND {{BATCH_DUE}}<0
  AND (claim_serial IS NULL OR expires_at_ms>{{NOW}})

-- fragment: SESSION_RENEW_SET
expires_at_ms=:until, place=iif({{BATCH_DUE}}<0, place, :until)

-- name: SESSION_RENEW_ONE
UPDATE {{S}}.claimq_batch SET {{SESSION_RENEW_SET}} WHERE {{SESSION_ONE}}

-- name: SESSION_RENEW like SESSION_SETTLE
UPDATE {{S}}.claimq_batch {{SESSION_OF}} SET {{SESSION_RENEW_SET}}
WHERE {{SESSION_SEVERAL}}

-- fragment: SESSION_BACK_SET
-- No claim holds the row; it is due at :until, or at once.
{{CLAIM_NONE}}, claim_size=NULL, claim_last=NULL, claim_serial=NULL,
available_at_ms=ifnull(:until, available_at_ms), place=ifnull(:until, -1)

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
WHERE session=:session AND {{BATCH_DUE}} IN (-1,:due)
  AND enqueue_seq BETWEEN :head AND :last
  AND claim_id=:claim AND lease_token=:token
ORDER BY enqueue_seq

-- fragment: SESSION_LETTER_ROW
-- (enqueue_seq comes first: see STEP_ORIGIN.)
'session', session, batch_id, payload, headers, NULL, enqueued_at_ms, :now,
:reason, NULL, attempts,
  claimq__origin('enqueue_seq', enqueue_seq, 'source_key', source_key,
  'work_class', work_class, 'delivery_policy', delivery_policy,
  'slot_policy', slot_policy, 'merge_key', merge_key)

--------------------------------------------------------------------------
-- claimq_stats

-- fragment: SESSION_FROM
ifnull(available_at_ms, enqueued_at_ms)

-- fragment: SESSION_STATS_ROWS
SELECT session AS scope, {{STATS_STATE STATS_CLAIMED SESSION_FROM}}
FROM {{S}}.claimq_batch

-- name: SESSION_STATS like STATS
SELECT 'session' AS discipline, scope, NULL AS partition,
  {{STATS_SUMS}} FROM (
  {{SESSION_STATS_ROWS}} UNION ALL {{STATS_LETTERS session}})
GROUP BY scope ORDER BY scope

-- name: SESSION_STATS_OF like STATS
SELECT 'session' AS discipline, scope, NULL AS partition,
  {{STATS_SUMS}} FROM (
  {{SESSION_STATS_ROWS}} WHERE session=:scope
  UNION ALL {{STATS_LETTERS session}} AND scope=:scope)
GROUP BY scope

--------------------------------------------------------------------------
-- claimq_leases

-- name: SESSION_LEASES like LEASES
SELECT 'session' AS discipline, session AS scope, batch_id AS key,
  {{LEASES_HELD}}
FROM {{S}}.claimq_batch NOT INDEXED WHERE {{LEASES_OF}} ORDER BY enqueue_seq

--------------------------------------------------------------------------
-- claimq_check

-- name: SESSION_CHECK like CHECK
SELECT 'claimq_batch' AS table_name, enqueue_seq AS row_key, problem
FROM (SELECT enqueue_seq, CASE
    WHEN enqueue_seq<=0 THEN 'bad enqueue_seq'
    {{CHECK_TEXT session}} {{CHECK_TEXT_NULL batch_id}}
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
    {{CHECK_TEXT merge_key}} {{CHECK_HEADERS}}
    WHEN merge_key NOT IN ('never','payload_default')
      AND substr(merge_key,1,6)<>'group:' THEN 'bad merge_key'
    {{CHECK_INT enqueued_at_ms}} {{CHECK_INT_NULL available_at_ms}}
    {{CHECK_INT_NULL place}} {{CHECK_COUNT attempts}}
    {{CHECK_LEASE}} {{CHECK_EXPIRES}} {{CHECK_SIZE}}
    {{CHECK_INT_NULL claim_last}}
    WHEN (claim_id IS NULL)<>(claim_last IS NULL) THEN 'half a claim'
    WHEN claim_id IS NOT NULL AND batch_id IS NULL THEN 'half a claim'
    WHEN {{BATCH_DUE}}<>-1 AND {{BATCH_DUE}}<>max(0, iif(claim_id IS NULL,
      ifnull(available_at_ms, enqueued_at_ms), expires_at_ms))
    THEN 'place is not when it can be claimed'
    WHEN claim_id GLOB 'qwc:'||enqueue_seq||':*'
      AND claim_id<>'qwc:'||enqueue_seq||':'||fencing_token
      AND {{CHECK_NO_JUMP}}
    THEN 'claim_id is not that of the row'
    WHEN NOT claimq__sound(session, batch_id, source_key, last_error,
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
      OR min(session)<>max(session) THEN 'the rows of the claim differ'
    WHEN min(enqueue_seq)<{{SESSION_FIRST}} OR max(enqueue_seq)>max(claim_last)
    THEN 'outside of its claim'
    WHEN max(claim_size)>max(claim_last)-{{SESSION_FIRST}}+1
    THEN 'claim_size is more than the claim can have'
  END AS problem FROM {{S}}.claimq_batch NOT INDEXED
  WHERE claim_id IS NOT NULL GROUP BY claim_id)
WHERE problem IS NOT NULL

-- name: SESSION_CHECK_KNOWN like CHECK
-- What claimq_session knows, where it is kept (settings any_session, serial),
-- against what is to be seen: see sql/schema/session.sql.  It knows nothing of
-- batches that came by a plain INSERT until somebody has looked.
SELECT 'claimq_session' AS table_name, x.session AS row_key,
  'not what its batches say' AS problem
FROM ({{SESSION_SEEN SESSION_MET}}) AS x
  LEFT JOIN {{S}}.claimq_session AS k ON k.session=x.session
WHERE NOT EXISTS(SELECT 1 FROM {{S}}.claimq_batch
    WHERE session=x.session AND batch_id IS NULL)
  AND (k.session IS NULL
    OR NOT EXISTS(SELECT 1 FROM {{S}}.claimq_batch WHERE session=x.session)
    OR (k.head IS NULL)<>(k.state IS NULL)
    OR k.head IS NULL AND x.head IS NOT NULL OR k.head>x.head
    OR k.state>=4 AND x.state<4
    OR (k.due IS NULL)<>(x.due IS NULL) OR k.due>x.due
    OR iif({{SESSION_MIXED x.session}},
      k.state%4<>0 AND (k.head IS NOT x.head OR k.state%4 IS NOT x.state%4
                        OR k.since_ms IS NOT x.since_ms),
      k.state%4 NOT IN (0, 2) OR k.since_ms IS NOT NULL))

-- fragment: SESSION_MET
SELECT session FROM {{S}}.claimq_batch
UNION SELECT session FROM {{S}}.claimq_session

--------------------------------------------------------------------------
-- claimq_why: the rows of a session in order; of each session.

-- name: SESSION_WHY like SESSION_READY
SELECT enqueue_seq, {{SESSION_ID}} AS batch_id, session,
  {{SESSION_ROW_A}}, NULL AS payload, headers, {{SESSION_ROW_B}}
FROM {{S}}.claimq_batch INDEXED BY claimq_batch_by_session
WHERE session=:session ORDER BY enqueue_seq

-- name: SESSION_ANY_WHY like SESSION_READY
SELECT enqueue_seq, {{SESSION_ID}} AS batch_id, session,
  {{SESSION_ROW_A}}, NULL AS payload, headers, {{SESSION_ROW_B}}
FROM {{S}}.claimq_batch NOT INDEXED ORDER BY session, enqueue_seq
