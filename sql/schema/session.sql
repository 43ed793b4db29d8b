-- session.sql: the tables of sessions.
--
-- feature: sessions
--
-- Sessions: claimq(session, owner, ...) takes batches of one session in the
-- order of enqueue_seq.
--
-- A batch is in its place as soon as it is in the table, whoever put it there.
--
--   BATCH_DUE  when it can be claimed, as far as is known: -1 at once, or it
--             could when somebody last looked.  That follows from its times,
--             unless claimq has moved it: then place says it.  (The expression
--             is in sql/session.sql.  As a generated column it would cost each
--             write more: see claimq_job)
--   batch_id  follows from the row, too.  claimq_enqueue() writes it, and so
--             does the first claim of a row that came by a plain INSERT

CREATE TABLE {{S}}.claimq_batch(
  enqueue_seq     INTEGER PRIMARY KEY AUTOINCREMENT
                  CONSTRAINT
                    "claimq: bad_argument: enqueue_seq must be positive"
                  CHECK(enqueue_seq>0),
  batch_id        TEXT,                 -- NULL: nobody has looked at it yet
  session         TEXT NOT NULL,
  source_key      TEXT,                 -- unique in the session; NULL: none
  work_class      TEXT NOT NULL DEFAULT 'turn_work'
                  CHECK(work_class='turn_work' OR
                        work_class='session_command'),
  delivery_policy TEXT NOT NULL DEFAULT 'earliest_safe_boundary'
                  CHECK(delivery_policy='earliest_safe_boundary' OR
                        delivery_policy='after_current_turn_commit'),
  slot_policy     TEXT NOT NULL DEFAULT 'exclusive'
                  CHECK(slot_policy='exclusive' OR slot_policy='join'),
  merge_key       TEXT NOT NULL DEFAULT 'never'
                  CHECK(merge_key='never' OR merge_key='payload_default'
                        OR substr(merge_key,1,6)='group:'),
  enqueued_at_ms  INTEGER NOT NULL {{DEFAULT_NOW}}
                  CHECK(enqueued_at_ms>=0),
  available_at_ms INTEGER CHECK(available_at_ms>=0),  -- NULL: enqueued_at_ms
  place           INTEGER,
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  attempts        INTEGER NOT NULL DEFAULT 0,
  claim_id        TEXT,
  lease_token     TEXT,
  owner           TEXT,
  incarnation     TEXT,
  claim_size      INTEGER,
  claim_last      INTEGER,              -- key of the claim's last row
  claim_serial    INTEGER,              -- 1: the claim is a serial one
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  last_error      TEXT,
  headers         TEXT
                  CONSTRAINT "claimq: bad_argument: headers must be a JSON object"
                  CHECK(headers IS NULL OR headers GLOB '{*}'),
  payload         ANY,                  -- last: it may be long
  -- Where a claimed row stands in the index: see below.
  CONSTRAINT "claimq: bad_argument: expires_at_ms of a claimed batch is changed by claimq_renew() and claimq_revoke()"
  CHECK(place IS NULL OR place<0 OR claim_id IS NULL
    OR place=max(0, ifnull(expires_at_ms, 0)))
) STRICT;

CREATE INDEX {{S}}.claimq_batch_by_session
  ON claimq_batch(session, {{BATCH_DUE}});
CREATE UNIQUE INDEX {{S}}.claimq_batch_by_key
  ON claimq_batch(session, source_key) WHERE source_key IS NOT NULL;

-- Rows that wait, of all sessions.  The ready ones stand in the table itself
-- in the right order.
CREATE INDEX {{S}}.claimq_batch_by_due ON claimq_batch({{BATCH_DUE}})
  WHERE {{BATCH_DUE}}>=0;

-- No index leads from a claim to its rows.  The claim id names the first, which
-- knows the last; those between are in the same session, and either among the
-- ready ones or where the claim's expiry puts them.  So the due of a claimed
-- row is -1 or expires_at_ms, even if its available_at_ms is later.

-- Nor is there an index by batch id, which would cost a fifth of an enqueue.
-- claimq_cancel() looks from the newest batch to the oldest; who often cancels
-- old ones of many makes an index on batch_id, and it will be used.

-- Only payloads and headers are changed by a plain UPDATE.  (Claims and
-- completes write none of these columns, and so pay nothing.)  The name of the
-- function is what SQLite says where the extension is not loaded.
CREATE TRIGGER {{S}}.claimq_batch_guard AFTER UPDATE OF enqueue_seq, rowid, oid,
  _rowid_, batch_id, session, source_key, work_class, delivery_policy,
  slot_policy, merge_key, enqueued_at_ms, available_at_ms, last_error
ON claimq_batch
WHEN "claimq: load the extension and use its functions to change a batch"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: of a batch only payload and headers can be changed by UPDATE: use claimq_cancel() and claimq_enqueue(), or a verb'); END;

CREATE TRIGGER {{S}}.claimq_batch_delete AFTER DELETE ON claimq_batch
BEGIN SELECT RAISE(ABORT, 'claimq') WHERE "claimq: load the extension to delete a batch"(old.session, old.claim_id, old.enqueue_seq, old.place); END;

-- A claim of any session that reads the table looks at all rows in front of the
-- first that it may take, and a serial claim at all rows of its session.
-- Databases with the setting any_session or serial keep what spares them that:
-- a row for each session, and an index of the rows that are or were claimed.
--
--   head   no row at due = -1 is before it; NULL: there is none at all
--   state  what a claim finds there: 1 a command, 2 turn work, 3 turn work that
--          is delivered after the current turn's commit, 0 any of these; 4 more
--          if that is not for serial claims: a row is held, or one in front of
--          it waits for its retry; NULL: no head
--   due    when the others change that: the least due of those that wait or
--          are held there, or something before that
--   since_ms  from when on the head is available.  That is past, unless the
--          clock went back: then what stands behind the head, and may be of
--          another kind, can be available before it
--
-- It is a hint: a claim looks at the session itself before it takes something.
-- A session may be believed to give what it does not, and sooner than it does;
-- never the other way round.  Who meets a hint that is wrong writes what is to
-- be seen (ext/session/look.c), and so does whoever makes it wrong in the other
-- direction.
--
-- In most sessions all batches are of one kind: turn work, at the earliest safe
-- boundary.  There head and state stay true when the first batch is claimed,
-- and when it is done, because the next one is of the same kind; so neither a
-- claim nor its complete writes this row, and the claimed row stays where it
-- is.  since_ms is NULL.  In a session with other batches state is the kind of
-- the head, which is free.  A claim there moves its rows to due = expires_at_ms
-- at once, and looks at the session afterwards.
-- option: any_session serial
CREATE TABLE {{S}}.claimq_session(
  session    TEXT NOT NULL PRIMARY KEY,
  head       INTEGER,
  state      INTEGER,
  due        INTEGER,
  since_ms   INTEGER
) STRICT, WITHOUT ROWID;

-- option: any_session serial
CREATE INDEX {{S}}.claimq_session_by_state ON claimq_session(state, head);
-- option: any_session serial
CREATE INDEX {{S}}.claimq_session_by_due ON claimq_session(due)
  WHERE due IS NOT NULL;
-- option: any_session serial
CREATE INDEX {{S}}.claimq_session_by_since ON claimq_session(since_ms)
  WHERE since_ms IS NOT NULL;

-- option: any_session serial
CREATE INDEX {{S}}.claimq_batch_by_tried
  ON claimq_batch(session, {{BATCH_DUE}})
  WHERE claim_id IS NOT NULL OR fencing_token>0;

-- Rows that are not of the usual kind.
-- option: any_session serial
CREATE INDEX {{S}}.claimq_batch_by_kind ON claimq_batch(session)
  WHERE {{SESSION_SPECIAL}};

-- Rows that came by a plain INSERT: the row of their session does not know of
-- them yet.
-- option: any_session serial
CREATE INDEX {{S}}.claimq_batch_by_id ON claimq_batch(batch_id)
  WHERE batch_id IS NULL;

-- option: any_session serial
INSERT INTO {{S}}.claimq_session(session, head, state, due, since_ms)
{{SESSION_SEEN SESSION_ALL}} WHERE 1
ON CONFLICT(session) DO UPDATE
SET head=excluded.head, state=excluded.state, due=excluded.due,
  since_ms=excluded.since_ms;
