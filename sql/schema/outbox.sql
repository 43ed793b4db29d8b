-- outbox.sql: the tables of the outbox.
--
-- feature: outbox
--
-- Outbox: claimq_outbox(queue, owner, ...) leases a partition of a queue and
-- delivers the messages after its cursor.
--
-- claimq_queue(queue, partitions) registers a queue: one row in
-- claimq_partition for each of its partitions, numbered from 0.  A message is
-- one row in claimq_message, and has a number in its partition, seq.
-- claimq_publish() gives it the next one.  A plain INSERT gives it none: any
-- program can write it, without the extension.  Such messages stand behind all
-- that have a number, in the order of message_id, and get theirs when a claim
-- delivers one of them or claimq_publish() writes one behind them.  Writers are
-- serial in SQLite, so the numbers have no gaps and follow the order of
-- commits.
-- Messages after processed_seq wait; those up to it are done and stay until
-- claimq_vacuum() removes them (up to vacuumed_seq it has).

CREATE TABLE {{S}}.claimq_partition(
  partition_id     INTEGER PRIMARY KEY AUTOINCREMENT
                   CONSTRAINT
                     "claimq: bad_argument: partition_id must be positive"
                   CHECK(partition_id>0),
  queue            TEXT NOT NULL,
  partition        INTEGER NOT NULL CHECK(partition BETWEEN 0 AND 1023),
  last_seq         INTEGER NOT NULL DEFAULT 0,  -- the last that was given
  processed_seq    INTEGER NOT NULL DEFAULT 0   -- the cursor
                   CHECK(processed_seq BETWEEN 0 AND last_seq),
  attempts         INTEGER NOT NULL DEFAULT 0,  -- claims without progress
  degrade          INTEGER NOT NULL DEFAULT 1   -- they make batches smaller
                   CHECK(degrade BETWEEN 0 AND 1),
  -- What claimq_queue() was given, the same in all partitions of a queue; NULL:
  -- the default.
  lease_ms         INTEGER CHECK(lease_ms>=0),
  max              INTEGER CHECK(max>=1),
  backoff_ms       INTEGER CHECK(backoff_ms>=0),
  backoff_factor   INTEGER CHECK(backoff_factor>=0),
  backoff_max_ms   INTEGER CHECK(backoff_max_ms>=0),
  max_attempts     INTEGER CHECK(max_attempts>=0),
  retry_count      INTEGER NOT NULL DEFAULT 0,  -- since the cursor moved
  last_error       TEXT,
  fencing_token    INTEGER NOT NULL DEFAULT 0,
  waiting_since_ms INTEGER,             -- created_at_ms of the first to do
                                        -- that has a number; NULL: none has
  available_at_ms  INTEGER NOT NULL DEFAULT 0,  -- 0: not kept back
  previous_claim_id TEXT,               -- expired, the last to be displaced
  claim_id         TEXT,
  lease_token      TEXT,
  owner            TEXT,
  incarnation      TEXT,
  claim_size       INTEGER,             -- messages that the claim delivered
  delivered_seq    INTEGER,             -- and the last of them
  claimed_at_ms    INTEGER,
  expires_at_ms    INTEGER,
  vacuumed_seq     INTEGER NOT NULL DEFAULT 0,
  promoted         INTEGER NOT NULL DEFAULT 0,
  due              ANY AS (
    CASE WHEN promoted OR (claim_id IS NULL AND available_at_ms=0)
         THEN -1
         ELSE max(0, available_at_ms, ifnull(expires_at_ms,0))
    END) VIRTUAL,
  UNIQUE(queue, partition)
) STRICT;

-- Partitions with messages, free ones (due = -1) by how long they wait.
CREATE INDEX {{S}}.claimq_partition_by_wait
  ON claimq_partition(queue, due, waiting_since_ms, partition)
  WHERE waiting_since_ms IS NOT NULL;

-- Partitions with processed messages that claimq_vacuum() can remove.
CREATE INDEX {{S}}.claimq_partition_by_done
  ON claimq_partition(partition_id) WHERE processed_seq>vacuumed_seq;

CREATE TABLE {{S}}.claimq_message(
  message_id    INTEGER PRIMARY KEY
                CONSTRAINT "claimq: bad_argument: message_id must be positive"
                CHECK(message_id>0),
  queue         TEXT NOT NULL,
  partition     INTEGER NOT NULL DEFAULT 0,
  seq           INTEGER                 -- NULL: not given yet
                CONSTRAINT
                "claimq: bad_argument: seq is given by claimq: leave it out"
                CHECK(seq IS NULL OR numbered IS 1),
  numbered      INTEGER,                -- 1: claimq has given seq
  source_key    TEXT,                   -- unique in the queue; NULL: none
  payload_type  TEXT NOT NULL DEFAULT 'application/json'
                CHECK(payload_type='application/json'
                  OR (length(payload_type) BETWEEN 1 AND 1024
                    AND instr(payload_type, char(0))=0
                    AND payload_type NOT GLOB '*[^ -~]*')),
  created_at_ms INTEGER NOT NULL {{DEFAULT_NOW}} CHECK(created_at_ms>=0),
  headers       TEXT
                CONSTRAINT "claimq: bad_argument: headers must be a JSON object"
                CHECK(headers IS NULL OR headers GLOB '{*}'),
  payload       ANY                     -- last: it may be long
) STRICT;

CREATE UNIQUE INDEX {{S}}.claimq_message_by_seq
  ON claimq_message(queue, partition, seq) WHERE seq IS NOT NULL;

CREATE UNIQUE INDEX {{S}}.claimq_message_by_key
  ON claimq_message(queue, source_key) WHERE source_key IS NOT NULL;

-- Messages without a number, in the order in which they get one.
CREATE INDEX {{S}}.claimq_message_new
  ON claimq_message(queue, partition) WHERE seq IS NULL;

CREATE TRIGGER {{S}}.claimq_message_guard AFTER UPDATE OF message_id, rowid,
  oid, _rowid_, queue, partition, seq, numbered, source_key, payload_type,
  created_at_ms ON claimq_message
WHEN "claimq: of a message only payload and headers can be changed"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: of a message only payload and headers can be changed by UPDATE'); END;

CREATE TRIGGER {{S}}.claimq_message_delete AFTER DELETE ON claimq_message
BEGIN SELECT RAISE(ABORT, 'claimq') WHERE "claimq: load the extension to delete a message"(old.queue, old.partition, old.seq); END;
