-- schema.sql: the database format of claimq, version 1.
--
-- All tables are ordinary tables in main and may be read with plain SQL.  Rows
-- may be added with plain INSERT; defaults and triggers fill what is not
-- given.  (The triggers call pure functions of claimq: the extension must be
-- loaded where rows are inserted.)  Everything else is done by claimq's own
-- functions.
--
-- The tables are STRICT, so that a column holds what it says; payloads are of
-- type ANY and keep the type and bytes they were given.
--
-- Three ideas are shared by all tables of claimable rows.
--
--   The lease.  claim_id, lease_token, owner_id, incarnation_id,
--   claimed_at_ms, expires_at_ms describe the claim that holds the row, NULL
--   if none does.  An expired claim stays written until another takes the row:
--   expiry makes a claim takeable, only being displaced makes it lost.
--   fencing_token counts the claims of the row and never goes back.  A claim
--   of several rows writes its size in each (claim_size) and the key of its
--   first row (claim_head): if fewer rows carry the claim than its size says,
--   one was displaced, and the claim is lost as a whole.
--
--   Due.  A row is claimable when now >= available_at_ms and its claim, if
--   any, has expired.  "The first such row by order" is no single range of any
--   index, so rows stand in one of two places of the same index: ready rows at
--   due = -1, in claim order; all others at due = the time they become
--   claimable.  A claim reads the head of the first place and the range
--   0..now of the second, whatever else stands in the table.  Rows that became
--   due are moved to the first place (promoted = 1) when a claim meets many of
--   them; each row pays for this once.  Because time may go backwards,
--   promoted is a hint: ready rows are still checked against the clock.
--
--   Times are integer milliseconds since 1970.

-- One row: the version of this format.  Also the counters that must survive
-- when the rows that used them are gone.
CREATE TABLE main.claimq_meta(
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO main.claimq_meta(name, value) VALUES('schema_version', 1);

--------------------------------------------------------------------------
-- Sessions: claimq(session, owner, ...) takes batches of one session in the
-- order of enqueue_seq.

CREATE TABLE main.claimq_batch(
  enqueue_seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  batch_id        TEXT,                 -- filled by trigger
  session_id      TEXT NOT NULL,
  source_key      TEXT,                 -- unique in the session; NULL: none
  work_class      TEXT NOT NULL DEFAULT 'turn_work'
                  CHECK(work_class IN ('turn_work','session_command')),
  delivery_policy TEXT NOT NULL DEFAULT 'earliest_safe_boundary'
                  CHECK(delivery_policy IN
                    ('earliest_safe_boundary','after_current_turn_commit')),
  slot_policy     TEXT NOT NULL DEFAULT 'exclusive'
                  CHECK(slot_policy IN ('exclusive','join')),
  merge_key       TEXT NOT NULL DEFAULT 'never'
                  CHECK(merge_key IN ('never','payload_default')
                        OR merge_key GLOB 'group:?*'),
  payload         ANY,
  enqueued_at_ms  INTEGER NOT NULL DEFAULT
                  (CAST(round((julianday('now')-2440587.5)*86400000)
                   AS INTEGER)),
  available_at_ms INTEGER,              -- NULL: enqueued_at_ms; by trigger
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  attempts        INTEGER NOT NULL DEFAULT 0,
  last_error      TEXT,
  claim_id        TEXT,
  lease_token     TEXT,
  owner_id        TEXT,
  incarnation_id  TEXT,
  claim_size      INTEGER,
  claim_head      INTEGER,
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  rejected_at_ms  INTEGER,              -- set for a moment by claimq_reject()
  promoted        INTEGER NOT NULL DEFAULT 0,
  due             INTEGER AS (
    CASE WHEN promoted
           OR (claim_id IS NULL AND ifnull(available_at_ms<=enqueued_at_ms,1))
         THEN -1
         ELSE max(0, ifnull(available_at_ms,enqueued_at_ms),
                     ifnull(expires_at_ms,0))
    END) VIRTUAL
) STRICT;

CREATE INDEX main.claimq_batch_by_session ON claimq_batch(session_id, due);
CREATE INDEX main.claimq_batch_by_due ON claimq_batch(due);
CREATE UNIQUE INDEX main.claimq_batch_by_key
  ON claimq_batch(session_id, source_key) WHERE source_key IS NOT NULL;

-- Twelve of the hash's digits are enough to find a batch and keep the index
-- narrow.
CREATE INDEX main.claimq_batch_by_id ON claimq_batch(substr(batch_id,5,12));

-- Only claims of several rows need it: one row is found by the claim id.
CREATE INDEX main.claimq_batch_by_claim
  ON claimq_batch(claim_head) WHERE claim_size>1;

CREATE TRIGGER main.claimq_batch_insert AFTER INSERT ON claimq_batch
WHEN new.batch_id IS NULL OR new.available_at_ms IS NULL
BEGIN
  UPDATE claimq_batch SET
    batch_id=ifnull(batch_id,
      claimq_batch_id(session_id, source_key, enqueued_at_ms, enqueue_seq)),
    available_at_ms=ifnull(available_at_ms, enqueued_at_ms)
  WHERE enqueue_seq=new.enqueue_seq;
END;

-- claimq_reject(): from the queue to the dead letters in one statement.
CREATE TRIGGER main.claimq_batch_reject AFTER UPDATE OF rejected_at_ms
ON claimq_batch WHEN new.rejected_at_ms IS NOT NULL
BEGIN
  INSERT INTO claimq_letter(source, scope, ref, payload, created_at_ms,
      failed_at_ms, reason, attempts, origin)
  VALUES('session', new.session_id, new.batch_id, new.payload,
      new.enqueued_at_ms, new.rejected_at_ms, new.last_error, new.attempts,
      json_object('source_key', new.source_key, 'work_class', new.work_class,
        'delivery_policy', new.delivery_policy,
        'slot_policy', new.slot_policy, 'merge_key', new.merge_key));
  DELETE FROM claimq_batch WHERE enqueue_seq=new.enqueue_seq;
END;

--------------------------------------------------------------------------
-- Dead letters: claimq_dead_letter(source, scope, owner, ...) takes what other
-- disciplines rejected, oldest first.

CREATE TABLE main.claimq_letter(
  letter_id      INTEGER PRIMARY KEY AUTOINCREMENT,
  source         TEXT NOT NULL CHECK(source IN ('session','lane','outbox')),
  scope          TEXT NOT NULL,         -- session, lane, QUEUE/PARTITION
  ref            ANY NOT NULL,          -- batch id, job id, seq
  payload        ANY,
  payload_type   TEXT,
  created_at_ms  INTEGER NOT NULL,
  failed_at_ms   INTEGER NOT NULL,
  reason         TEXT,
  attempts       INTEGER NOT NULL DEFAULT 0,
  status         TEXT NOT NULL DEFAULT 'pending'
                 CHECK(status IN
                   ('pending','reprocessing','resolved','discarded')),
  origin         TEXT,                  -- JSON: what claimq_requeue() needs
  fencing_token  INTEGER NOT NULL DEFAULT 0,
  claim_id       TEXT,
  lease_token    TEXT,
  owner_id       TEXT,
  incarnation_id TEXT,
  claim_size     INTEGER,
  claim_head     INTEGER,
  claimed_at_ms  INTEGER,
  expires_at_ms  INTEGER
) STRICT;

