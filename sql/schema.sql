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

-- The fencing token that the last winner of any contest got.
INSERT INTO main.claimq_meta(name, value) VALUES('contest_fence', 0);

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
-- Outbox: claimq_outbox(queue, owner, ...) leases a partition of a queue and
-- delivers the messages after its cursor.
--
-- claimq_queue(queue, partitions) registers a queue: one row in
-- claimq_partition for each of its partitions, numbered from 0.  A message is
-- one row in claimq_message; the trigger gives it the next number of its
-- partition.  Writers are serial in SQLite, so the numbers have no gaps and
-- follow the order of commits.  Messages after processed_seq wait; those up to
-- it are done and stay until claimq_vacuum() removes them (up to vacuumed_seq
-- it has).

CREATE TABLE main.claimq_partition(
  partition_id     INTEGER PRIMARY KEY AUTOINCREMENT,
  queue_name       TEXT NOT NULL,
  partition        INTEGER NOT NULL CHECK(partition BETWEEN 0 AND 1023),
  last_seq         INTEGER NOT NULL DEFAULT 0,  -- of the newest message
  processed_seq    INTEGER NOT NULL DEFAULT 0   -- the cursor
                   CHECK(processed_seq BETWEEN 0 AND last_seq),
  attempts         INTEGER NOT NULL DEFAULT 0,  -- claims without progress
  last_error       TEXT,
  fencing_token    INTEGER NOT NULL DEFAULT 0,
  waiting_since_ms INTEGER,             -- created_at_ms of the first to do
  available_at_ms  INTEGER NOT NULL DEFAULT 0,  -- 0: not kept back
  claim_id         TEXT,
  lease_token      TEXT,
  owner_id         TEXT,
  incarnation_id   TEXT,
  claim_size       INTEGER,             -- messages that the claim delivered
  delivered_seq    INTEGER,             -- and the last of them
  claimed_at_ms    INTEGER,
  expires_at_ms    INTEGER,
  vacuumed_seq     INTEGER NOT NULL DEFAULT 0,
  rejected_at_ms   INTEGER,             -- these four are set for a moment when
  reject_after     INTEGER,             -- messages become dead letters: all up
  reject_reason    TEXT,                -- to the cursor after this one, with
  reject_list      TEXT,                -- this reason; or those of a JSON list
  promoted         INTEGER NOT NULL DEFAULT 0,
  due              INTEGER AS (
    CASE WHEN promoted OR (claim_id IS NULL AND available_at_ms=0)
         THEN -1
         ELSE max(0, available_at_ms, ifnull(expires_at_ms,0))
    END) VIRTUAL,
  UNIQUE(queue_name, partition)
) STRICT;

-- Partitions with messages, free ones (due = -1) by how long they wait.
CREATE INDEX main.claimq_partition_by_wait
  ON claimq_partition(queue_name, due, waiting_since_ms, partition)
  WHERE last_seq>processed_seq;

-- Partitions with processed messages that claimq_vacuum() can remove.
CREATE INDEX main.claimq_partition_by_done
  ON claimq_partition(partition_id) WHERE processed_seq>vacuumed_seq;

CREATE TABLE main.claimq_message(
  message_id    INTEGER PRIMARY KEY,
  queue_name    TEXT NOT NULL,
  partition     INTEGER NOT NULL DEFAULT 0,
  seq           INTEGER,                -- by trigger
  payload       ANY,
  payload_type  TEXT NOT NULL DEFAULT 'application/json'
                CHECK(length(payload_type) BETWEEN 1 AND 1024
                  AND length(payload_type)=length(CAST(payload_type AS BLOB))
                  AND payload_type NOT GLOB '*[^ -~]*'),
  created_at_ms INTEGER NOT NULL DEFAULT
                (CAST(round((julianday('now')-2440587.5)*86400000)
                 AS INTEGER))
) STRICT;

CREATE UNIQUE INDEX main.claimq_message_by_seq
  ON claimq_message(queue_name, partition, seq) WHERE seq IS NOT NULL;

CREATE TRIGGER main.claimq_message_check BEFORE INSERT ON claimq_message
WHEN new.seq IS NOT NULL OR NOT EXISTS(
  SELECT 1 FROM claimq_partition
  WHERE queue_name=new.queue_name AND partition=new.partition)
BEGIN
  SELECT CASE
    WHEN new.seq IS NOT NULL THEN RAISE(ABORT,
      'claimq: bad_argument: seq is given by claimq: leave it out')
    WHEN EXISTS(SELECT 1 FROM claimq_partition
                WHERE queue_name=new.queue_name) THEN RAISE(ABORT,
      'claimq: bad_argument: the queue has no such partition')
    ELSE RAISE(ABORT,
      'claimq: not_found: the queue is not registered: see claimq_queue()')
    END;
END;

CREATE TRIGGER main.claimq_message_insert AFTER INSERT ON claimq_message
BEGIN
  UPDATE claimq_partition SET last_seq=last_seq+1,
    waiting_since_ms=CASE WHEN last_seq>processed_seq THEN waiting_since_ms
                          ELSE new.created_at_ms END
  WHERE queue_name=new.queue_name AND partition=new.partition;
  UPDATE claimq_message SET seq=(
    SELECT last_seq FROM claimq_partition
    WHERE queue_name=new.queue_name AND partition=new.partition)
  WHERE message_id=new.message_id;
END;

-- claimq_reject(), and claimq_complete() with 'rejected': the cursor moves and
-- dead letters are written in one statement.
CREATE TRIGGER main.claimq_partition_reject AFTER UPDATE OF rejected_at_ms
ON claimq_partition WHEN new.rejected_at_ms IS NOT NULL
BEGIN
  INSERT INTO claimq_letter(source, scope, ref, payload, payload_type,
      created_at_ms, failed_at_ms, reason, attempts, origin)
  SELECT 'outbox', new.queue_name||'/'||new.partition, m.seq, m.payload,
      m.payload_type, m.created_at_ms, new.rejected_at_ms, new.reject_reason,
      old.attempts, json_object('queue_name', new.queue_name,
        'partition', new.partition)
  FROM claimq_message AS m
  WHERE m.queue_name=new.queue_name AND m.partition=new.partition
    AND m.seq>new.reject_after AND m.seq<=new.processed_seq
  ORDER BY m.seq;
  INSERT INTO claimq_letter(source, scope, ref, payload, payload_type,
      created_at_ms, failed_at_ms, reason, attempts, origin)
  SELECT 'outbox', new.queue_name||'/'||new.partition, m.seq, m.payload,
      m.payload_type, m.created_at_ms, new.rejected_at_ms,
      j.value->>'$.reason', old.attempts,
      json_object('queue_name', new.queue_name, 'partition', new.partition)
  FROM json_each(new.reject_list) AS j CROSS JOIN claimq_message AS m
  WHERE m.queue_name=new.queue_name AND m.partition=new.partition
    AND m.seq=j.value->>'$.seq'
  ORDER BY m.seq;
  UPDATE claimq_partition SET rejected_at_ms=NULL, reject_after=NULL,
    reject_reason=NULL, reject_list=NULL
  WHERE partition_id=new.partition_id;
END;

--------------------------------------------------------------------------
-- Dead letters: claimq_dead_letter(source, scope, owner, ...) takes what other
-- disciplines rejected, oldest first.
--
-- A letter is open (pending or reprocessing) or done (resolved or discarded).
-- Only open letters have a due time and stand in the indexes that claims read,
-- so that done letters, however many are kept, cost nothing.  There is no
-- index by due alone: sources are three, and a claim of all merges three
-- ordered ranges.

CREATE TABLE main.claimq_letter(
  letter_id       INTEGER PRIMARY KEY AUTOINCREMENT,
  source          TEXT NOT NULL CHECK(source IN ('session','lane','outbox')),
  scope           TEXT NOT NULL,        -- session, lane, QUEUE/PARTITION
  ref             ANY NOT NULL,         -- batch id, job id, seq
  payload         ANY,
  payload_type    TEXT,
  created_at_ms   INTEGER NOT NULL,
  failed_at_ms    INTEGER NOT NULL,
  reason          TEXT,
  attempts        INTEGER NOT NULL DEFAULT 0,
  status          TEXT NOT NULL DEFAULT 'pending'
                  CHECK(status IN
                    ('pending','reprocessing','resolved','discarded')),
  origin          TEXT,                 -- JSON: what claimq_requeue() needs
  requeued_as     ANY,                  -- what claimq_requeue() made of it
  available_at_ms INTEGER,              -- NULL: at once
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  claim_id        TEXT,
  lease_token     TEXT,
  owner_id        TEXT,
  incarnation_id  TEXT,
  claim_size      INTEGER,
  claim_head      INTEGER,
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  promoted        INTEGER NOT NULL DEFAULT 0,
  due             INTEGER AS (
    CASE WHEN status IN ('resolved','discarded') THEN NULL
         WHEN promoted OR (claim_id IS NULL AND available_at_ms IS NULL)
         THEN -1
         ELSE max(0, ifnull(available_at_ms,0), ifnull(expires_at_ms,0))
    END) VIRTUAL
) STRICT;

CREATE INDEX main.claimq_letter_by_scope
  ON claimq_letter(source, scope, due) WHERE due IS NOT NULL;
CREATE INDEX main.claimq_letter_by_source
  ON claimq_letter(source, due) WHERE due IS NOT NULL;

-- The letters of a claim.
CREATE INDEX main.claimq_letter_by_claim
  ON claimq_letter(claim_head) WHERE claim_head IS NOT NULL;

-- Done letters, for claimq_vacuum().
CREATE INDEX main.claimq_letter_done
  ON claimq_letter(status) WHERE status IN ('resolved','discarded');

--------------------------------------------------------------------------
-- Contests: claimq_contest(kind, label, owner, ...) makes one of many the
-- holder of a subject.
--
-- A row is a subject that is held, or was held by somebody whose claim
-- expired: expires_at_ms says until when nobody else can have it.  A subject
-- that is released has no row, unless it is kept back for a while (release
-- with delay_ms): then claim_id is NULL and expires_at_ms ends the while.
--
-- Fencing tokens come from one counter for all subjects, contest_fence in
-- claimq_meta.  It outlives the rows, so tokens only ever grow.  The id of a
-- row is the token of the first claim it was made for, so ids are not used
-- again either.

CREATE TABLE main.claimq_holder(
  holder_id         INTEGER PRIMARY KEY,
  subject_kind      INTEGER NOT NULL CHECK(subject_kind BETWEEN 0 AND 255),
  subject_label     TEXT NOT NULL,
  fencing_token     INTEGER NOT NULL,
  attempts          INTEGER NOT NULL DEFAULT 1,  -- claims since a release
  previous_claim_id TEXT,               -- expired, displaced by claim_id
  claim_id          TEXT,
  lease_token       TEXT,
  owner_id          TEXT,
  incarnation_id    TEXT,
  claimed_at_ms     INTEGER,
  expires_at_ms     INTEGER NOT NULL,
  UNIQUE(subject_kind, subject_label)
) STRICT;

-- A win is one write: the counter follows by itself.
CREATE TRIGGER main.claimq_holder_insert AFTER INSERT ON claimq_holder
BEGIN
  UPDATE claimq_meta SET value=max(value, new.fencing_token)
  WHERE name='contest_fence';
END;

CREATE TRIGGER main.claimq_holder_update AFTER UPDATE OF fencing_token
ON claimq_holder
BEGIN
  UPDATE claimq_meta SET value=max(value, new.fencing_token)
  WHERE name='contest_fence';
END;

-- claimq_fence(resource, token): the highest token that a resource has seen.
CREATE TABLE main.claimq_fence(
  resource TEXT NOT NULL PRIMARY KEY,
  token    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

--------------------------------------------------------------------------
-- claimq_vacuum(): finds what it may remove without looking at the rest.

CREATE INDEX main.claimq_letter_by_done
  ON claimq_letter(letter_id) WHERE status IN ('resolved','discarded');
