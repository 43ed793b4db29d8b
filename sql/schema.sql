-- schema.sql: the database format of claimq, version 1.
--
-- All tables are ordinary tables in main and may be read with plain SQL.  Rows
-- may be added with plain INSERT; defaults and triggers fill what is not
-- given.  (The triggers call pure functions of claimq: the extension must be
-- loaded where rows are inserted.)  Everything else is done by claimq's own
-- functions.  SQLite's JSON functions are not used here: older versions do not
-- let a trigger call them where trusted_schema is off.
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
--   of several rows writes its size in each (claim_size): if fewer rows carry
--   the claim than its size says, one was displaced, and the claim is lost as
--   a whole.
--
--   Due.  A row is claimable when now >= available_at_ms and its claim, if
--   any, has expired.  "The first such row by order" is no single range of any
--   index, so rows stand in one of two places of the same index: at due = -1
--   those that are ready, or were when somebody last looked, in claim order;
--   at due >= 0 those that wait, by the time they become claimable.  A claim
--   reads the head of the first place and the range 0..now of the second,
--   whatever else stands in the table.  Moving a row costs a write to each
--   index, so it is put off, and often saved: a claimed row stays where it is
--   until it is done, unless claims have to look past many such rows; then
--   these are moved to the second place.  Rows that became due are moved to
--   the first when a claim meets many of them.  Each row pays for this once.
--   So due = -1 is only a hint, and what stands there is checked against the
--   clock, which may also go backwards.  (Where this is not written out below,
--   due is computed from the other columns, and promoted = 1 moves a row.)
--
--   Times are integer milliseconds since 1970.

-- One row: the version of this format.  Also the counters that must survive
-- when the rows that used them are gone.
CREATE TABLE {{S}}.claimq_meta(
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO {{S}}.claimq_meta(name, value) VALUES('schema_version', 1);

-- The settings of claimq_init(): 1 any_session, 2 serial, 4 clock 'explicit',
-- 8 vacuum.  And 16: it has, or had, schedules; 64: it has, or had, limits.
INSERT INTO {{S}}.claimq_meta(name, value) VALUES('settings', 0);

-- The fencing token that the last winner of any contest got.
INSERT INTO {{S}}.claimq_meta(name, value) VALUES('contest_fence', 0);

-- Answers of calls that gave a request, so that they can be repeated: of which
-- function, with which first argument, by which owner; and when.
CREATE TABLE {{S}}.claimq_request(
  request  TEXT NOT NULL PRIMARY KEY,
  func     TEXT NOT NULL,
  scope    TEXT,
  owner_id TEXT,
  at_ms    INTEGER NOT NULL,
  answer   ANY                          -- of a claim: a JSON array of claim
                                        -- ids, each with those it displaced
) STRICT, WITHOUT ROWID;

CREATE INDEX {{S}}.claimq_request_by_time ON claimq_request(at_ms);

-- The clock, for plain INSERTs that give no time.  Columns have no DEFAULT that
-- reads it, because a database may want its times from its callers: then the
-- triggers of plain INSERTs raise clock_required.
CREATE VIEW {{S}}.claimq_now(at_ms) AS
SELECT CAST(round((julianday('now')-2440587.5)*86400000) AS INTEGER);

--------------------------------------------------------------------------
-- Sessions: claimq(session, owner, ...) takes batches of one session in the
-- order of enqueue_seq.

CREATE TABLE {{S}}.claimq_batch(
  enqueue_seq     INTEGER PRIMARY KEY AUTOINCREMENT
                  CONSTRAINT
                    "claimq: bad_argument: enqueue_seq must be positive"
                  CHECK(enqueue_seq>0),
  batch_id        TEXT,                 -- filled by trigger
  session_id      TEXT NOT NULL,
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
  enqueued_at_ms  INTEGER               -- NULL: now; by trigger
                  CONSTRAINT
                    "claimq: bad_argument: enqueued_at_ms may not be NULL"
                  CHECK(enqueued_at_ms IS NOT NULL OR due IS NULL),
  available_at_ms INTEGER,              -- NULL: enqueued_at_ms; by trigger
  due             INTEGER,              -- its place in the index; by trigger
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  attempts        INTEGER NOT NULL DEFAULT 0,
  claim_id        TEXT,
  lease_token     TEXT,
  owner_id        TEXT,
  incarnation_id  TEXT,
  claim_size      INTEGER,
  claim_last      INTEGER,              -- key of the claim's last row
  claim_serial    INTEGER,              -- 1: the claim is a serial one
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  last_error      TEXT,
  payload         ANY,                  -- last: it may be long
  -- Where a claimed row stands in the index: see below.
  CONSTRAINT "claimq: bad_argument: expires_at_ms of a claimed batch is changed by claimq_renew() and claimq_revoke()"
  CHECK(due<0 OR claim_id IS NULL OR due=max(0, ifnull(expires_at_ms, 0)))
) STRICT;

CREATE INDEX {{S}}.claimq_batch_by_session ON claimq_batch(session_id, due);
CREATE UNIQUE INDEX {{S}}.claimq_batch_by_key
  ON claimq_batch(session_id, source_key) WHERE source_key IS NOT NULL;

-- Rows that wait, of all sessions.  The ready ones stand in the table itself
-- in the right order.
CREATE INDEX {{S}}.claimq_batch_by_due ON claimq_batch(due) WHERE due>=0;

-- But a claim of any session that reads the table looks at all rows in front
-- of the first that it may take, and a serial claim at all rows of its session.
-- Databases with the setting any_session or serial keep what spares them that:
-- a row for each session, written by triggers, and an index of the rows that
-- are or were claimed.  There a claim moves its rows to due = expires_at_ms at
-- once, so that what stands at due = -1 is free.
--
--   head   the first row at due = -1; NULL: there is none
--   state  what that is: 1 a command, 2 turn work, 3 turn work that is
--          delivered after the current turn's commit; 4 more if it is not for
--          serial claims: a row is held, or one in front of it waits for its
--          retry; NULL: not known, or no head
--   due    when the others change that: the least due of those that wait or
--          are held; 0: at any time; -1: the row was replaced, look again
--
-- It is a hint: a claim looks at the session itself before it takes something.
CREATE TABLE {{S}}.claimq_session(
  session_id TEXT NOT NULL PRIMARY KEY,
  head       INTEGER,
  state      INTEGER,
  due        INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX {{S}}.claimq_session_by_state ON claimq_session(state, head);
CREATE INDEX {{S}}.claimq_session_by_due ON claimq_session(due);

-- option: any_session serial
CREATE INDEX {{S}}.claimq_batch_by_tried ON claimq_batch(session_id, due)
  WHERE claim_id IS NOT NULL OR fencing_token>0;

-- No index leads from a claim to its rows.  The claim id names the first, which
-- knows the last; those between are in the same session, and either among the
-- ready ones or where the claim's expiry puts them.  So the due of a claimed
-- row is -1 or expires_at_ms, even if its available_at_ms is later.

-- Nor is there an index by batch id, which would cost a fifth of an enqueue.
-- claimq_cancel() looks from the newest batch to the oldest; who often cancels
-- old ones of many makes an index on batch_id, and it will be used.

-- Rows of a plain INSERT.  The work is done by the trigger of a view, because
-- a trigger costs what its body would need, also when it has nothing to do:
-- claimq_enqueue(), which fills in everything, pays for a small one.
CREATE VIEW {{S}}.claimq_batch_fill(enqueue_seq, at_ms) AS SELECT NULL, NULL;

-- (A due that does not follow from the other columns is not believed either.)
CREATE TRIGGER {{S}}.claimq_batch_insert AFTER INSERT ON claimq_batch
WHEN new.batch_id IS NULL OR new.due IS NULL
  OR new.due<>-1 AND new.claim_id IS NULL
    AND new.due IS NOT max(0, new.available_at_ms)
BEGIN
  INSERT INTO claimq_batch_fill VALUES(new.enqueue_seq, new.enqueued_at_ms);
END;

CREATE TRIGGER {{S}}.claimq_batch_fill_now INSTEAD OF INSERT
ON claimq_batch_fill WHEN new.at_ms IS NULL
BEGIN
  INSERT INTO claimq_batch_fill SELECT new.enqueue_seq, at_ms FROM claimq_now;
END;

CREATE TRIGGER {{S}}.claimq_batch_fill_insert INSTEAD OF INSERT
ON claimq_batch_fill WHEN new.at_ms IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'claimq: clock_required: this database takes the time from its callers: give enqueued_at_ms')
  FROM claimq_batch WHERE enqueue_seq=new.enqueue_seq
    AND enqueued_at_ms IS NULL
    AND (SELECT value FROM claimq_meta WHERE name='settings') & 4;
  UPDATE claimq_batch SET
    batch_id=ifnull(batch_id,
      claimq_batch_id(session_id, source_key, new.at_ms, enqueue_seq)),
    enqueued_at_ms=new.at_ms,
    available_at_ms=ifnull(available_at_ms, new.at_ms),
    due=CASE WHEN claim_id IS NOT NULL THEN max(0, ifnull(expires_at_ms, 0))
             WHEN available_at_ms>new.at_ms THEN max(0, available_at_ms)
             ELSE -1 END
  WHERE enqueue_seq=new.enqueue_seq;
END;

-- A plain UPDATE of available_at_ms moves a row that waits, and a ready one
-- that is to wait.  It must be a time.
CREATE TRIGGER {{S}}.claimq_batch_move AFTER UPDATE OF available_at_ms
ON claimq_batch
WHEN new.due IS old.due AND new.claim_id IS NULL
    AND (new.due>=0 OR new.available_at_ms>old.available_at_ms)
  OR new.available_at_ms IS NULL
BEGIN
  SELECT RAISE(ABORT,
    'claimq: bad_argument: available_at_ms may not be NULL')
  WHERE new.available_at_ms IS NULL;
  UPDATE claimq_batch SET due=max(0, available_at_ms)
  WHERE enqueue_seq=new.enqueue_seq;
END;

-- But its place itself is given by claimq.  (Not a CHECK: a plain INSERT leaves
-- it NULL until its trigger has run.  A claim of ready rows and its complete do
-- not write it, and so pay nothing.)
CREATE TRIGGER {{S}}.claimq_batch_due AFTER UPDATE OF due ON claimq_batch
WHEN new.due IS NULL OR new.due<-1 OR new.due>=0 AND new.claim_id IS NULL
  AND new.due<>max(0, ifnull(new.available_at_ms, new.enqueued_at_ms))
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: due is given by claimq: update available_at_ms');
END;

-- Batch ids and claim ids are made of enqueue_seq.  (The other names are those
-- that SQLite has for it.)
CREATE TRIGGER {{S}}.claimq_batch_renumbered
AFTER UPDATE OF enqueue_seq, rowid, oid, _rowid_ ON claimq_batch
WHEN new.enqueue_seq<>old.enqueue_seq
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: enqueue_seq may not be changed');
END;

-- Look at a session, and write down what is found: INSERT INTO this view.
CREATE VIEW {{S}}.claimq_session_look(session_id) AS SELECT NULL;

CREATE TRIGGER {{S}}.claimq_session_look_insert INSTEAD OF INSERT
ON claimq_session_look
BEGIN
  DELETE FROM claimq_session WHERE session_id=new.session_id
    AND NOT EXISTS(SELECT 1 FROM claimq_batch WHERE session_id=new.session_id);
  INSERT INTO claimq_session(session_id, head, state, due)
  SELECT new.session_id, head,
    (SELECT CASE WHEN claim_id IS NOT NULL THEN NULL
       WHEN work_class='session_command' THEN 1
       WHEN delivery_policy='earliest_safe_boundary' THEN 2 ELSE 3 END
     FROM claimq_batch WHERE enqueue_seq=head)
    + 4*EXISTS(SELECT 1 FROM claimq_batch
        WHERE session_id=new.session_id AND due>=0
          AND (claim_id IS NOT NULL OR fencing_token>0)
          AND (claim_id IS NOT NULL OR enqueue_seq<head)),
    iif((SELECT claim_id FROM claimq_batch WHERE enqueue_seq=head) IS NULL,
        (SELECT min(due) FROM claimq_batch
         WHERE session_id=new.session_id AND due>=0), 0)
  FROM (SELECT (SELECT min(enqueue_seq)
                FROM claimq_batch INDEXED BY claimq_batch_by_session
                WHERE session_id=new.session_id AND due=-1) AS head)
  WHERE EXISTS(SELECT 1 FROM claimq_batch WHERE session_id=new.session_id)
  ON CONFLICT(session_id) DO UPDATE
  SET head=excluded.head, state=excluded.state, due=excluded.due
  WHERE head IS NOT excluded.head OR state IS NOT excluded.state
    OR due IS NOT excluded.due;
END;

-- Every change of a row is a change of its session.  A row that is replaced is
-- gone without a trigger.
-- option: any_session serial
CREATE TRIGGER {{S}}.claimq_session_replace BEFORE INSERT ON claimq_batch
WHEN new.enqueue_seq>0
BEGIN
  UPDATE claimq_session SET state=NULL, due=-1 WHERE session_id=
    (SELECT session_id FROM claimq_batch WHERE enqueue_seq=new.enqueue_seq);
END;

-- option: any_session serial
CREATE TRIGGER {{S}}.claimq_session_insert AFTER INSERT ON claimq_batch
WHEN new.due IS NOT NULL
BEGIN
  INSERT INTO claimq_session_look VALUES(new.session_id);
END;

-- (source_key: another batch of the session that had it may be replaced.)
-- option: any_session serial
CREATE TRIGGER {{S}}.claimq_session_update AFTER UPDATE OF session_id,
  source_key, due, claim_id, fencing_token, work_class, delivery_policy
ON claimq_batch
BEGIN
  INSERT INTO claimq_session_look VALUES(new.session_id);
  INSERT INTO claimq_session_look SELECT old.session_id
  WHERE old.session_id IS NOT new.session_id;
END;

-- option: any_session serial
CREATE TRIGGER {{S}}.claimq_session_delete AFTER DELETE ON claimq_batch
BEGIN
  INSERT INTO claimq_session_look VALUES(old.session_id);
END;

-- option: any_session serial
INSERT INTO {{S}}.claimq_session_look(session_id)
SELECT DISTINCT session_id FROM claimq_batch;

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

CREATE TABLE {{S}}.claimq_partition(
  partition_id     INTEGER PRIMARY KEY AUTOINCREMENT
                   CONSTRAINT
                     "claimq: bad_argument: partition_id must be positive"
                   CHECK(partition_id>0),
  queue_name       TEXT NOT NULL,
  partition        INTEGER NOT NULL CHECK(partition BETWEEN 0 AND 1023),
  last_seq         INTEGER NOT NULL DEFAULT 0,  -- of the newest message
  processed_seq    INTEGER NOT NULL DEFAULT 0   -- the cursor
                   CHECK(processed_seq BETWEEN 0 AND last_seq),
  attempts         INTEGER NOT NULL DEFAULT 0,  -- claims without progress
  degrade          INTEGER NOT NULL DEFAULT 1   -- they make batches smaller
                   CHECK(degrade BETWEEN 0 AND 1),
  last_error       TEXT,
  fencing_token    INTEGER NOT NULL DEFAULT 0,
  waiting_since_ms INTEGER,             -- created_at_ms of the first to do;
                                        -- NULL: there is nothing to do
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
  promoted         INTEGER NOT NULL DEFAULT 0,
  due              INTEGER AS (
    CASE WHEN promoted OR (claim_id IS NULL AND available_at_ms=0)
         THEN -1
         ELSE max(0, available_at_ms, ifnull(expires_at_ms,0))
    END) VIRTUAL,
  UNIQUE(queue_name, partition)
) STRICT;

-- Partitions with messages, free ones (due = -1) by how long they wait.
CREATE INDEX {{S}}.claimq_partition_by_wait
  ON claimq_partition(queue_name, due, waiting_since_ms, partition)
  WHERE waiting_since_ms IS NOT NULL;

-- Partitions with processed messages that claimq_vacuum() can remove.
CREATE INDEX {{S}}.claimq_partition_by_done
  ON claimq_partition(partition_id) WHERE processed_seq>vacuumed_seq;

CREATE TABLE {{S}}.claimq_message(
  message_id    INTEGER PRIMARY KEY
                CONSTRAINT "claimq: bad_argument: message_id must be positive"
                CHECK(message_id>0),
  queue_name    TEXT NOT NULL,
  partition     INTEGER NOT NULL DEFAULT 0,
  seq           INTEGER,                -- by trigger
  source_key    TEXT,                   -- unique in the queue; NULL: none
  payload       ANY,
  payload_type  TEXT NOT NULL DEFAULT 'application/json'
                CHECK(payload_type='application/json'
                  OR (length(payload_type) BETWEEN 1 AND 1024
                    AND instr(payload_type, char(0))=0
                    AND payload_type NOT GLOB '*[^ -~]*')),
  created_at_ms INTEGER                 -- NULL: now; by trigger
) STRICT;

CREATE UNIQUE INDEX {{S}}.claimq_message_by_seq
  ON claimq_message(queue_name, partition, seq) WHERE seq IS NOT NULL;

CREATE UNIQUE INDEX {{S}}.claimq_message_by_key
  ON claimq_message(queue_name, source_key) WHERE source_key IS NOT NULL;

-- claimq_publish() writes a message with its time and its number, which is the
-- next of the partition; a plain INSERT leaves the number out, and a view does
-- the rest, so that claimq_publish() need not pay for it.
CREATE TRIGGER {{S}}.claimq_message_insert AFTER INSERT ON claimq_message
WHEN new.seq IS NOT NULL
BEGIN
  UPDATE claimq_partition SET last_seq=new.seq
  WHERE queue_name=new.queue_name AND partition=new.partition
    AND last_seq=new.seq-1 AND new.created_at_ms IS NOT NULL;
  SELECT RAISE(ABORT,
    'claimq: bad_argument: seq is given by claimq: leave it out')
  WHERE changes()=0;
END;

CREATE VIEW {{S}}.claimq_message_fill(message_id, queue_name, partition) AS
SELECT NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_message_plain AFTER INSERT ON claimq_message
WHEN new.seq IS NULL
BEGIN
  INSERT INTO claimq_message_fill
  VALUES(new.message_id, new.queue_name, new.partition);
END;

CREATE TRIGGER {{S}}.claimq_message_fill_insert
INSTEAD OF INSERT ON claimq_message_fill
BEGIN
  SELECT RAISE(ABORT, 'claimq: clock_required: this database takes the time from its callers: give created_at_ms')
  FROM claimq_message WHERE message_id=new.message_id AND created_at_ms IS NULL
    AND (SELECT value FROM claimq_meta WHERE name='settings') & 4;
  UPDATE claimq_message SET created_at_ms=ifnull(created_at_ms,
    (SELECT at_ms FROM claimq_now)), seq=(
    SELECT last_seq+1 FROM claimq_partition
    WHERE queue_name=new.queue_name AND partition=new.partition)
  WHERE message_id=new.message_id;
END;

-- How long a partition waits is found anew when it gets its first message, and
-- when something happens to one that is to do: waiting_since_ms is set to NULL
-- for that.
CREATE TRIGGER {{S}}.claimq_partition_wait AFTER UPDATE OF last_seq
ON claimq_partition WHEN new.waiting_since_ms IS NULL
BEGIN
  UPDATE claimq_partition SET waiting_since_ms=(
    SELECT created_at_ms FROM claimq_message
    WHERE queue_name=new.queue_name AND partition=new.partition
      AND seq>new.processed_seq
    ORDER BY seq)
  WHERE partition_id=new.partition_id;
END;

-- It is deleted by hand.
CREATE TRIGGER {{S}}.claimq_message_delete AFTER DELETE ON claimq_message
WHEN old.seq>(SELECT processed_seq FROM claimq_partition
              WHERE queue_name=old.queue_name AND partition=old.partition)
BEGIN
  UPDATE claimq_partition SET waiting_since_ms=NULL, last_seq=last_seq
  WHERE queue_name=old.queue_name AND partition=old.partition;
END;

-- It gets another time; or the message of a plain INSERT gets its first time,
-- and its number.  Where it stands is given by claimq, once.  (One trigger, and
-- one UPDATE, for all of it: claimq_publish() has to compile what a plain
-- INSERT comes to.)
CREATE TRIGGER {{S}}.claimq_message_update
AFTER UPDATE OF queue_name, partition, seq, created_at_ms ON claimq_message
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: queue_name, partition and seq of a message may not be changed, and created_at_ms may not be NULL')
  WHERE new.queue_name<>old.queue_name OR new.partition<>old.partition
    OR old.seq IS NOT NULL AND new.seq IS NOT old.seq
    OR new.created_at_ms IS NULL;
  UPDATE claimq_partition SET last_seq=max(last_seq, new.seq),
    waiting_since_ms=iif(old.seq IS NULL, waiting_since_ms, NULL)
  WHERE queue_name=new.queue_name AND partition=new.partition;
  SELECT CASE
    WHEN EXISTS(SELECT 1 FROM claimq_partition
                WHERE queue_name=new.queue_name) THEN RAISE(ABORT,
      'claimq: bad_argument: the queue has no such partition')
    ELSE RAISE(ABORT,
      'claimq: not_found: the queue is not registered: see claimq_queue()')
    END
  WHERE changes()=0;
END;

--------------------------------------------------------------------------
-- Lanes: claimq_lane(lane, owner, ...) takes jobs of one lane and partition by
-- priority (larger first), then created_at_ms, then job_id.
--
-- Everything that happens to a job is one UPDATE of its row; what must be
-- remembered beside it is written by the triggers below, in the same statement:
-- an attempt that ended, the one event of the terminal transition, the dead
-- letter, the grant that was used up.

-- The sets of required capabilities that jobs of a lane and partition have (or
-- had: claimq_vacuum() removes those that no job needs any more), so that a
-- claim tells once per set, not once per job, what its worker can run.  Sets
-- are told apart by their text; claimq_submit() writes them sorted and without
-- repetition.  Jobs that require nothing have cap_id 0 and no row here.
CREATE TABLE {{S}}.claimq_capset(
  cap_id        INTEGER PRIMARY KEY,
  lane_id       TEXT NOT NULL,
  partition_key INTEGER NOT NULL,
  required      TEXT NOT NULL,          -- a JSON array of strings
  UNIQUE(lane_id, partition_key, required)
) STRICT;

-- The payload stands last: a claim that only looks at a job need not read over
-- a large one.  What triggers ask of the old row stands among the first 32
-- columns: for one that does not, SQLite hands them all columns.
--
-- due stays what it was when the job ends: to write it would make a claim and
-- its complete 1 % longer, because there is a trigger for it.
--
-- settled_by and what follows it say how the last claim that is over ended,
-- other than by being displaced by another claim: complete, release, retry,
-- dead (a retry too many), reject, revoke, cancel, reclaim_cap.  A verb that is
-- repeated answers from there.
--
-- The constraint at the end says what goes with each state: these columns only
-- change together.  (A trigger that saw to it would cost each claim and each
-- complete more; so would a CASE, all of which SQLite computes; of AND and OR
-- it jumps over what does not matter.)
CREATE TABLE {{S}}.claimq_job(
  job_id          INTEGER PRIMARY KEY AUTOINCREMENT
                  CONSTRAINT "claimq: bad_argument: job_id must be positive"
                  CHECK(job_id>0),
  lane_id         TEXT NOT NULL,
  partition_key   INTEGER NOT NULL DEFAULT 0,
  priority        INTEGER NOT NULL DEFAULT 0,
  cap_id          INTEGER NOT NULL DEFAULT 0,    -- by trigger
  state           TEXT NOT NULL DEFAULT 'ready',
  reclaim         TEXT NOT NULL DEFAULT 'auto'
                  -- (IN makes a claimq_submit() 0.8 % longer.)
                  CONSTRAINT "reclaim IN ('auto','grant')"
                  CHECK(reclaim='auto' OR reclaim='grant'),
  created_at_ms   INTEGER               -- NULL: now; by trigger
                  CONSTRAINT
                    "claimq: bad_argument: created_at_ms may not be NULL"
                  CHECK(created_at_ms IS NOT NULL OR due IS NULL),
  available_at_ms INTEGER,              -- NULL: created_at_ms; by trigger
  attempt_index   INTEGER NOT NULL DEFAULT 0,    -- the attempt now or next
  retry_count     INTEGER NOT NULL DEFAULT 0,
  reclaim_count   INTEGER NOT NULL DEFAULT 0,
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  attempts        INTEGER NOT NULL DEFAULT 0,    -- claims, less releases
  claim_id        TEXT,
  lease_token     TEXT,
  owner_id        TEXT,
  incarnation_id  TEXT,
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  previous_claim_id TEXT,               -- the expired claim it displaced
  slot            INTEGER,              -- see "Limits" below; by trigger
  -- Its place in the index; by trigger.  NULL: not claimable until something
  -- happens to it (blocked, or active and waiting for a grant).
  due             INTEGER,
  terminal_at_ms  INTEGER,              -- set with the terminal states
  max_attempts    INTEGER NOT NULL DEFAULT 20 CHECK(max_attempts>=0),
  backoff_ms      INTEGER NOT NULL DEFAULT 1000 CHECK(backoff_ms>=0),
  backoff_factor  INTEGER NOT NULL DEFAULT 2 CHECK(backoff_factor>=0),
  backoff_max_ms  INTEGER NOT NULL DEFAULT 60000 CHECK(backoff_max_ms>=0),
  max_reclaims    INTEGER NOT NULL DEFAULT 1000 CHECK(max_reclaims>=0),
  source_key      TEXT,                 -- unique in the lane till the end
  flow_id         TEXT,
  namespace       TEXT,
  instance_tag    TEXT,
  required_capabilities TEXT NOT NULL DEFAULT '[]',
  last_error      TEXT,
  error_class     TEXT,                 -- of it, a word of the caller's
  group_key       TEXT,                 -- the tenant it belongs to; or NULL
  settled_by      TEXT,                 -- see above
  settled_at_ms   INTEGER,              -- complete: see terminal_at_ms
  settled_claim_id TEXT,
  settled_token   TEXT,
  -- Its attempt, if it was completed or released: see claimq_attempt.
  settled_owner_id TEXT,
  settled_incarnation_id TEXT,
  settled_started_ms INTEGER,
  settled_expires_ms INTEGER,
  waits_for       INTEGER,              -- see claimq_after
  on_failure      TEXT,                 -- the same
  awaited         INTEGER,              -- the same
  progress        ANY,                  -- what the holder stored last
  result          ANY,
  payload         ANY,
  CONSTRAINT "claimq: bad_argument: state, due, claim_id, expires_at_ms and terminal_at_ms of a job change together: use claimq's functions"
  CHECK(terminal_at_ms IS NULL AND claim_id IS NULL AND waits_for IS NULL
        AND (state='ready' OR state='delayed')
    OR terminal_at_ms IS NULL AND waits_for IS NULL AND state='active'
        AND (due<0 OR due IS NULL OR due=max(0, ifnull(expires_at_ms, 0)))
    OR terminal_at_ms IS NULL AND claim_id IS NULL AND state='blocked'
        AND waits_for IS NOT NULL AND due IS NULL AND on_failure IS NOT NULL
        AND (on_failure='cancel' OR on_failure='run')
    OR terminal_at_ms IS NOT NULL AND claim_id IS NULL AND waits_for IS NULL
        AND awaited IS NULL
        AND (state='completed' OR state='failed' OR state='cancelled'))
) STRICT;

-- The head of what is ready for each set is one seek.
CREATE INDEX {{S}}.claimq_job_by_due ON claimq_job(
  lane_id, partition_key, cap_id, due, priority DESC, created_at_ms
) WHERE due IS NOT NULL AND terminal_at_ms IS NULL;

CREATE UNIQUE INDEX {{S}}.claimq_job_by_key ON claimq_job(lane_id, source_key)
  WHERE source_key IS NOT NULL AND terminal_at_ms IS NULL;

-- Two indexes for claimq_vacuum() that make every claimq_submit() and
-- claimq_complete() longer, so who wants them asks for them:
-- claimq_init('vacuum', 1).
--
-- Jobs with a set that wait for a grant, or for other jobs, and so are not in
-- claimq_job_by_due: their sets stay.  (3 % of a submit, 1 % of a claim and its
-- complete.)
-- option: vacuum
CREATE INDEX {{S}}.claimq_job_by_set ON claimq_job(cap_id)
  WHERE due IS NULL AND terminal_at_ms IS NULL AND cap_id<>0;

-- Jobs that have ended, by the time of the end: old ones are found without
-- looking at all jobs.  (7 % of a claim and its complete.)
-- option: vacuum
CREATE INDEX {{S}}.claimq_job_by_end ON claimq_job(terminal_at_ms)
  WHERE terminal_at_ms IS NOT NULL;

-- The attempts: one row each.  A claim and a complete are frequent, and an
-- attempt that runs, or ended by complete or release, is told by the row of
-- its job, which is written anyway.  All others are here.  So a released
-- attempt is overwritten by the next claim, which has the same index.
CREATE TABLE {{S}}.claimq_past(
  job_id         INTEGER NOT NULL,
  attempt_index  INTEGER NOT NULL,
  owner_id       TEXT NOT NULL,
  incarnation_id TEXT NOT NULL,
  fencing_token  INTEGER NOT NULL,
  started_at_ms  INTEGER NOT NULL,
  ended_at_ms    INTEGER,
  outcome        TEXT CHECK(outcome='success' OR outcome='retry'
                   OR outcome='failed' OR outcome='released'
                   OR outcome='interrupted_reclaimed'
                   OR outcome='cancelled' OR outcome='revoked'),
  error          TEXT,
  expires_at_ms  INTEGER,               -- when its lease was to end
  error_class    TEXT,
  PRIMARY KEY(job_id, attempt_index)
) STRICT, WITHOUT ROWID;

CREATE VIEW {{S}}.claimq_attempt(job_id, attempt_index, owner_id,
  incarnation_id, fencing_token, started_at_ms, ended_at_ms, outcome, error,
  expires_at_ms, error_class)
AS
SELECT job_id, attempt_index, owner_id, incarnation_id, fencing_token,
  started_at_ms, ended_at_ms, outcome, error, expires_at_ms, error_class
FROM claimq_past
UNION ALL
SELECT job_id, attempt_index, ifnull(owner_id, settled_owner_id),
  iif(owner_id IS NULL, settled_incarnation_id, incarnation_id),
  fencing_token, iif(owner_id IS NULL, settled_started_ms, claimed_at_ms),
  CASE WHEN owner_id IS NOT NULL THEN NULL
       WHEN state='completed' THEN terminal_at_ms ELSE settled_at_ms END,
  CASE WHEN owner_id IS NOT NULL THEN NULL
       WHEN state='completed' THEN 'success' ELSE 'released' END,
  NULL, iif(owner_id IS NULL, settled_expires_ms, expires_at_ms), NULL
FROM claimq_job WHERE owner_id IS NOT NULL OR settled_owner_id IS NOT NULL
ORDER BY 1, 2;

-- One row per terminal transition.  SQLite has one writer at a time, so ids
-- follow the order of commits: a reader that remembers the greatest event_id
-- it saw and asks for greater ones misses none.
CREATE TABLE {{S}}.claimq_event(
  event_id       INTEGER PRIMARY KEY AUTOINCREMENT
                 CONSTRAINT "claimq: bad_argument: event_id must be positive"
                 CHECK(event_id>0),
  job_id         INTEGER NOT NULL,
  lane_id        TEXT NOT NULL,
  partition_key  INTEGER NOT NULL,
  flow_id        TEXT,
  outcome        TEXT NOT NULL
                 CHECK(outcome='success' OR outcome='failed'
                       OR outcome='cancelled'),
  error_class    TEXT,                  -- of a failed one
  namespace      TEXT,
  instance_tag   TEXT,
  occurred_at_ms INTEGER NOT NULL
) STRICT;

-- Permissions to reclaim an expired or revoked job, for one owner.  The newest
-- of a job counts; it is deleted when it is used or found expired.
CREATE TABLE {{S}}.claimq_grant(
  grant_id            INTEGER PRIMARY KEY AUTOINCREMENT
                      CONSTRAINT
                        "claimq: bad_argument: grant_id must be positive"
                      CHECK(grant_id>0),
  job_id              INTEGER NOT NULL,
  owner_id            TEXT NOT NULL,
  incarnation_id      TEXT NOT NULL,
  lane_id             TEXT NOT NULL,
  issued_at_ms        INTEGER NOT NULL,
  expires_at_ms       INTEGER NOT NULL,
  capability_hash     TEXT,
  worker_capabilities TEXT,             -- a JSON array of strings
  route_snapshot_json TEXT,
  admission_summary   TEXT
) STRICT;

CREATE INDEX {{S}}.claimq_grant_by_job ON claimq_grant(job_id, issued_at_ms);

-- For claimq_vacuum().
CREATE INDEX {{S}}.claimq_grant_by_expiry ON claimq_grant(expires_at_ms);

-- What a plain INSERT leaves open.
-- As with batches, a view does the work, so that claimq_submit() need not pay.
-- (What it does must not come to an INSERT into another table with
-- AUTOINCREMENT, not even by triggers: SQLite would count there for each job,
-- also for those of claimq_submit().)
--
-- The first claimq_submit() of a connection pays all the same, because SQLite
-- compiles with an INSERT, or an UPDATE, all triggers that it could come to,
-- whether it does or not: so what these do is done in one place.  (And they
-- say OR ABORT, which is the default, because SQLite compiles a trigger once
-- for INSERT, and again for INSERT OR ABORT, which the DO UPDATE of an INSERT
-- comes to.)
CREATE VIEW {{S}}.claimq_job_fill(job_id, at_ms) AS SELECT NULL, NULL;

CREATE TRIGGER {{S}}.claimq_job_insert AFTER INSERT ON claimq_job
WHEN new.due IS NULL OR new.group_key IS NOT NULL OR new.flow_id IS NOT NULL
  OR (new.required_capabilities<>'[]' AND new.cap_id=0)
BEGIN
  INSERT OR ABORT INTO claimq_job_fill VALUES(new.job_id, new.created_at_ms);
END;

-- claimq_capable() raises if the required capabilities are no list of
-- capabilities; it is 1 for an empty list, however that is written.
CREATE TRIGGER {{S}}.claimq_job_fill_insert INSTEAD OF INSERT ON claimq_job_fill
BEGIN
  SELECT RAISE(ABORT, 'claimq: clock_required: this database takes the time from its callers: give created_at_ms')
  WHERE new.at_ms IS NULL
    AND (SELECT value FROM claimq_meta WHERE name='settings') & 4;
  SELECT RAISE(ABORT, 'claimq: bad_argument: a job that is held is not inserted into a lane with limits: insert it first, and then its limits')
  FROM claimq_job AS j CROSS JOIN claimq_limit AS l ON l.lane_id=j.lane_id
  WHERE j.job_id=new.job_id AND j.claim_id IS NOT NULL;
  INSERT INTO claimq_job_gone SELECT new.job_id
  WHERE EXISTS(SELECT 1 FROM claimq_slot WHERE job_id=new.job_id)
    OR EXISTS(SELECT 1 FROM claimq_after WHERE job_id=new.job_id)
    OR EXISTS(SELECT 1 FROM claimq_after WHERE after_id=new.job_id);
  INSERT INTO claimq_job_replaced
  SELECT lane_id, source_key FROM claimq_job
  WHERE job_id=new.job_id AND source_key IS NOT NULL;
  INSERT INTO claimq_flow_job(flow_id, job_id)
  SELECT flow_id, job_id FROM claimq_job
  WHERE job_id=new.job_id AND flow_id IS NOT NULL
  ON CONFLICT DO NOTHING;
  INSERT INTO claimq_head_new
  SELECT lane_id, partition_key, group_key, required_capabilities,
    NOT claimq_capable(required_capabilities, '[]') FROM claimq_job
  WHERE job_id=new.job_id
    AND (required_capabilities<>'[]' OR group_key IS NOT NULL);
  INSERT INTO claimq_job_put
  VALUES(new.job_id, ifnull(new.at_ms, (SELECT at_ms FROM claimq_now)));
END;

-- A job that came at at_ms gets its place in the index, and what else follows
-- from its other columns.
CREATE VIEW {{S}}.claimq_job_put(job_id, at_ms) AS SELECT NULL, NULL;

CREATE TRIGGER {{S}}.claimq_job_put_insert INSTEAD OF INSERT ON claimq_job_put
BEGIN
  UPDATE claimq_job SET
    created_at_ms=new.at_ms,
    available_at_ms=ifnull(available_at_ms, new.at_ms),
    state=CASE WHEN due IS NOT NULL OR state<>'ready' AND state<>'blocked'
        THEN state
      WHEN available_at_ms>new.at_ms THEN 'delayed' ELSE 'ready' END,
    waits_for=NULL,
    due=CASE WHEN state='active'
        THEN iif(reclaim='auto', max(0, ifnull(expires_at_ms, 0)), NULL)
      WHEN due<0 THEN due
      WHEN due>=0 OR state='delayed'
      THEN max(0, ifnull(available_at_ms, new.at_ms))
      WHEN state='ready' OR state='blocked'
      THEN iif(available_at_ms>new.at_ms, max(0, available_at_ms), -1)
      END,
    cap_id={{JOB_CAP claimq_job}}
  WHERE job_id=new.job_id AND (due IS NULL OR due>=0
    OR available_at_ms IS NULL OR required_capabilities<>'[]'
    OR cap_id<>0 OR group_key IS NOT NULL);
END;

-- INSERT OR REPLACE, or UPDATE OR REPLACE, of a job whose source_key another
-- had removes that one, and fires no trigger for it: INSERT the lane and the
-- key of the new one into this view.
CREATE VIEW {{S}}.claimq_job_replaced(lane_id, source_key) AS SELECT NULL, NULL;

CREATE TRIGGER {{S}}.claimq_job_replaced_insert INSTEAD OF INSERT
ON claimq_job_replaced
BEGIN
  INSERT INTO claimq_job_gone
  SELECT job_id FROM claimq_tied
  WHERE lane_id=new.lane_id AND source_key=new.source_key
    AND NOT EXISTS(SELECT 1 FROM claimq_job AS g
                   WHERE g.job_id=claimq_tied.job_id)
  UNION ALL
  SELECT job_id FROM claimq_slot INDEXED BY claimq_slot_by_key
  WHERE lane_id=new.lane_id AND source_key=new.source_key
    AND source_key IS NOT NULL
    AND NOT EXISTS(SELECT 1 FROM claimq_job AS g
                   WHERE g.job_id=claimq_slot.job_id);
END;

-- One that was replaced.  A job that waits for others, or for which others
-- wait, stays.  The slot of one that is gone is free, and the next claim looks
-- at its group: to compute when that opens would be much to compile here.
CREATE VIEW {{S}}.claimq_job_gone(job_id) AS SELECT NULL;

CREATE TRIGGER {{S}}.claimq_job_gone_insert INSTEAD OF INSERT ON claimq_job_gone
BEGIN
  SELECT RAISE(ABORT, 'claimq: conflict: a job that waits for others, or for which others wait, is not replaced: use claimq_change()')
  WHERE EXISTS(SELECT 1 FROM claimq_after WHERE job_id=new.job_id)
    OR EXISTS(SELECT 1 FROM claimq_after AS a INDEXED BY claimq_after_by_after
      WHERE a.after_id=new.job_id AND 'blocked'=(
        SELECT j.state FROM claimq_job AS j WHERE j.job_id=a.job_id));
  UPDATE claimq_head SET place=0 WHERE place>0 AND group_id=(
    SELECT group_id FROM claimq_slot WHERE job_id=new.job_id);
  UPDATE claimq_group SET opens_at_ms=0 WHERE group_id=(
    SELECT group_id FROM claimq_slot WHERE job_id=new.job_id);
  DELETE FROM claimq_slot WHERE job_id=new.job_id;
END;

-- The set of a job, and in a lane with limits its slot.  In a lane that keeps
-- groups a job with a group_key has the number of a head as its set, made
-- negative; see "Limits" below.
CREATE VIEW {{S}}.claimq_job_set(job_id, required) AS SELECT NULL, NULL;

CREATE TRIGGER {{S}}.claimq_job_set_insert INSTEAD OF INSERT ON claimq_job_set
BEGIN
  INSERT INTO claimq_head_new
  SELECT lane_id, partition_key, group_key, required_capabilities, new.required
  FROM claimq_job WHERE job_id=new.job_id;
  UPDATE claimq_job SET
    cap_id={{JOB_CAP claimq_job}},
    slot=iif(claim_id IS NULL OR NOT EXISTS(
          SELECT 1 FROM claimq_limit AS l WHERE l.lane_id=claimq_job.lane_id),
        NULL, ifnull(slot, 0))
  WHERE job_id=new.job_id;
END;

-- claimq_change(), or a plain UPDATE: a job moves to another lane, partition or
-- group, or requires something else.
CREATE TRIGGER {{S}}.claimq_job_place
AFTER UPDATE OF lane_id, partition_key, required_capabilities, group_key
ON claimq_job
WHEN new.lane_id<>old.lane_id OR new.partition_key<>old.partition_key
  OR new.required_capabilities<>old.required_capabilities
  OR new.group_key IS NOT old.group_key
BEGIN
  INSERT OR ABORT INTO claimq_job_set
  VALUES(new.job_id, NOT claimq_capable(new.required_capabilities, '[]'));
END;

-- A plain UPDATE of available_at_ms moves a job that waits.  It must be a time.
CREATE TRIGGER {{S}}.claimq_job_move AFTER UPDATE OF available_at_ms
ON claimq_job
WHEN new.due>=0 AND new.due IS old.due AND new.state<>'active'
    AND new.due<>max(0, new.available_at_ms)
  OR new.available_at_ms IS NULL
BEGIN
  SELECT RAISE(ABORT,
    'claimq: bad_argument: available_at_ms may not be NULL')
  WHERE new.available_at_ms IS NULL;
  INSERT OR ABORT INTO claimq_job_put VALUES(new.job_id, new.created_at_ms);
END;

-- But its place itself is given by claimq.
CREATE TRIGGER {{S}}.claimq_job_due AFTER UPDATE OF due ON claimq_job
WHEN new.terminal_at_ms IS NULL
  AND (new.due>=0 AND new.state<>'active'
      AND new.due<>max(0, ifnull(new.available_at_ms, new.created_at_ms))
    OR new.due IS NULL AND (new.state='ready' OR new.state='delayed'))
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: due is given by claimq: update available_at_ms');
END;

-- A plain UPDATE of reclaim: an expired job that waited for a grant is there
-- for everybody, or the other way round.
CREATE TRIGGER {{S}}.claimq_job_reclaim AFTER UPDATE OF reclaim ON claimq_job
WHEN new.state='active' AND new.reclaim<>old.reclaim
BEGIN
  INSERT OR ABORT INTO claimq_job_put VALUES(new.job_id, new.created_at_ms);
END;

-- Which set a job has follows from the job.
CREATE TRIGGER {{S}}.claimq_job_cap AFTER UPDATE OF cap_id ON claimq_job
WHEN new.cap_id<>old.cap_id AND new.cap_id<>{{JOB_CAP new}}
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: cap_id is given by claimq: update required_capabilities or group_key');
END;

-- Each of the triggers below names a column that is written when it has
-- something to do, and rarely else: a trigger costs time in every UPDATE that
-- names its column, also when its WHEN is false.  (And IN with three or more
-- values costs more than all of the rest: SQLite makes a table of them.)

-- A claim is over: displaced by another (new.claim_id), or settled other than
-- by complete or release, whose attempt the job tells.
CREATE TRIGGER {{S}}.claimq_job_attempt_end
AFTER UPDATE OF settled_at_ms, reclaim_count ON claimq_job
WHEN old.owner_id IS NOT NULL AND new.claim_id IS NOT old.claim_id
  AND (new.claim_id IS NOT NULL OR new.settled_by<>'release')
BEGIN
  INSERT OR REPLACE INTO claimq_past(job_id, attempt_index, owner_id,
    incarnation_id, fencing_token, started_at_ms, ended_at_ms, outcome, error,
    expires_at_ms, error_class)
  VALUES(old.job_id, CAST(old.attempt_index AS INTEGER), old.owner_id,
    ifnull(old.incarnation_id, ''), old.fencing_token,
    ifnull(old.claimed_at_ms, 0),
    iif(new.claim_id IS NULL, new.settled_at_ms, new.claimed_at_ms),
    CASE iif(new.claim_id IS NULL, new.settled_by, 'reclaim_cap')
      WHEN 'retry' THEN 'retry'
      WHEN 'revoke' THEN 'revoked'
      WHEN 'cancel' THEN 'cancelled'
      WHEN 'reclaim_cap' THEN 'interrupted_reclaimed'
      ELSE 'failed'
    END,
    iif(new.claim_id IS NULL AND (new.settled_by='retry'
          OR new.settled_by='dead' OR new.settled_by='reject'
          OR new.settled_by='reclaim_cap'), new.last_error, NULL),
    old.expires_at_ms,
    iif(new.claim_id IS NULL AND (new.settled_by='retry'
          OR new.settled_by='dead' OR new.settled_by='reject'),
        new.error_class, NULL));
END;

-- A job that was released is cancelled: its row tells of that now.
CREATE TRIGGER {{S}}.claimq_job_released_end AFTER UPDATE OF settled_at_ms
ON claimq_job
WHEN old.owner_id IS NULL AND old.settled_owner_id IS NOT NULL
  AND new.settled_owner_id IS NULL
BEGIN
  INSERT OR REPLACE INTO claimq_past(job_id, attempt_index, owner_id,
    incarnation_id, fencing_token, started_at_ms, ended_at_ms, outcome,
    expires_at_ms)
  VALUES(old.job_id, old.attempt_index, old.settled_owner_id,
    ifnull(old.settled_incarnation_id, ''), old.fencing_token,
    ifnull(old.settled_started_ms, 0), old.settled_at_ms, 'released',
    old.settled_expires_ms);
END;

-- A job ends that others wait for: see claimq_after.  This stands before the
-- next because SQLite runs first what was created last: so the event of a job
-- comes before those of the jobs that end because of it.
CREATE TRIGGER {{S}}.claimq_job_awaited AFTER UPDATE OF awaited ON claimq_job
WHEN old.awaited IS NOT NULL AND new.terminal_at_ms IS NOT NULL
  AND old.terminal_at_ms IS NULL AND new.settled_by IS NOT 'after'
BEGIN
  INSERT INTO claimq_job_over
  VALUES(new.job_id, new.state<>'completed', new.terminal_at_ms);
END;

-- The terminal transition.  A terminal state is never left.  (WHEN is written
-- so that SQLite computes it with one register: with one more, what it runs the
-- trigger in is larger than malloc() has at hand, and a claim and its complete
-- are 1 % longer.)
CREATE TRIGGER {{S}}.claimq_job_end AFTER UPDATE OF terminal_at_ms ON claimq_job
WHEN new.terminal_at_ms IS NOT NULL AND old.terminal_at_ms IS NULL
  OR old.terminal_at_ms IS NOT NULL AND new.terminal_at_ms IS NULL
BEGIN
  INSERT INTO claimq_event(job_id, lane_id, partition_key, flow_id, outcome,
      error_class, namespace, instance_tag, occurred_at_ms)
  VALUES(new.job_id, new.lane_id, new.partition_key, new.flow_id,
      CASE WHEN new.state='completed' THEN 'success'
        WHEN new.terminal_at_ms IS NULL THEN RAISE(ABORT, 'claimq: bad_argument: a job that has ended stays so: submit it again')
        ELSE new.state END,
      iif(new.state='failed', new.error_class, NULL),
      new.namespace, new.instance_tag, new.terminal_at_ms);
END;

-- Failed jobs go to the dead letters.  The keys of origin are the names of the
-- options of claimq_submit(), so that claimq_requeue() can submit the job
-- again: capabilities (a JSON array), priority, source_key, max_attempts,
-- backoff_ms, backoff_factor, backoff_max_ms, max_reclaims, reclaim,
-- partition_key, group_key, flow_id, namespace, instance_tag.
CREATE TRIGGER {{S}}.claimq_job_fail AFTER UPDATE OF last_error ON claimq_job
WHEN new.state='failed' AND old.terminal_at_ms IS NULL
BEGIN
  INSERT INTO claimq_letter(source, scope, ref, payload, created_at_ms,
      failed_at_ms, reason, error_class, attempts, origin)
  VALUES('lane', new.lane_id, new.job_id, new.payload, new.created_at_ms,
      new.terminal_at_ms, new.last_error, new.error_class, new.attempts,
      '{"capabilities":'||new.required_capabilities||','||substr(
        claimq_origin('priority', new.priority, 'source_key', new.source_key,
          'max_attempts', new.max_attempts, 'backoff_ms', new.backoff_ms,
          'backoff_factor', new.backoff_factor,
          'backoff_max_ms', new.backoff_max_ms,
          'max_reclaims', new.max_reclaims, 'reclaim', new.reclaim,
          'partition_key', new.partition_key, 'group_key', new.group_key,
          'flow_id', new.flow_id, 'namespace', new.namespace,
          'instance_tag', new.instance_tag), 2));
END;

--------------------------------------------------------------------------
-- Jobs that wait for others: claimq_submit() with after.
--
-- A row says that job_id waits, or waited, for after_id, which is smaller: so
-- there are no cycles.  Rows may be inserted, and deleted, with plain SQL: the
-- triggers below do the same for them as for claimq_submit().  They go when
-- their job_id goes; after_id may have been vacuumed before.
--
-- A job is blocked while one that it waits for has not ended, and says in
-- waits_for which is the latest such.  When that one ends, the next is looked
-- for among those before it, because all that come after have ended: so a job
-- looks at each of its rows once in all.  (It is the latest because that is the
-- last to end, as a rule: then there is nothing left to look for, and the row
-- of the job is not written for each of those that it waits for.)  on_failure
-- says what becomes of the job when one of them fails or is cancelled; NULL if
-- it never waited.  awaited is 1 if another waits for the job, or did: what
-- ends such a job also sets that to NULL, for which there is a trigger.  So to
-- end any other costs nothing.
CREATE TABLE {{S}}.claimq_after(
  job_id   INTEGER NOT NULL,
  after_id INTEGER NOT NULL
           CONSTRAINT "claimq: bad_argument: a job can only wait for jobs that were submitted before it: after_id must be less than job_id"
           CHECK(after_id BETWEEN 1 AND job_id-1),
  PRIMARY KEY(job_id, after_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX {{S}}.claimq_after_by_after ON claimq_after(after_id);

-- Whether others wait for a job follows from claimq_after.
CREATE TRIGGER {{S}}.claimq_job_unawaited AFTER UPDATE OF awaited ON claimq_job
WHEN new.awaited IS NOT old.awaited AND new.terminal_at_ms IS NULL
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: whether others wait for a job is given by claimq: delete their rows of claimq_after')
  WHERE new.awaited IS NOT (
    SELECT 1 FROM claimq_after INDEXED BY claimq_after_by_after
    WHERE after_id=new.job_id);
END;

-- Those that on_failure cancels if it failed, or was cancelled, and those that
-- are cancelled because of them, are found by one query, however long the
-- chain; the others may go on.
CREATE VIEW {{S}}.claimq_job_over(job_id, failed, at_ms) AS
SELECT NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_job_over_insert INSTEAD OF INSERT ON claimq_job_over
BEGIN
  UPDATE claimq_job SET state='cancelled', waits_for=NULL, settled_by='after',
    settled_at_ms=new.at_ms, settled_claim_id=NULL, settled_token=NULL,
    settled_owner_id=NULL, terminal_at_ms=new.at_ms, awaited=NULL
  WHERE job_id IN (
    WITH RECURSIVE gone(id) AS (
      SELECT new.job_id WHERE new.failed
      UNION
      SELECT j.job_id FROM gone
        CROSS JOIN claimq_after AS a INDEXED BY claimq_after_by_after
        CROSS JOIN claimq_job AS j
      WHERE a.after_id=gone.id AND j.job_id=a.job_id AND j.state='blocked'
        AND j.on_failure='cancel')
    SELECT id FROM gone WHERE id<>new.job_id);
  INSERT INTO claimq_job_next SELECT j.job_id, new.job_id, new.at_ms
  FROM claimq_after AS a INDEXED BY claimq_after_by_after
    CROSS JOIN claimq_job AS j
  WHERE a.after_id=new.job_id AND j.job_id=a.job_id AND j.waits_for=new.job_id;
END;

-- A job does not wait for after_id any more, the latest of those it waited for:
-- it waits for the next, or it may run.  at_ms NULL: the time is not known.
CREATE VIEW {{S}}.claimq_job_next(job_id, after_id, at_ms) AS
SELECT NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_job_next_insert INSTEAD OF INSERT ON claimq_job_next
BEGIN
  UPDATE claimq_job SET waits_for=(
    SELECT a.after_id FROM claimq_after AS a CROSS JOIN claimq_job AS p
    WHERE a.job_id=new.job_id AND a.after_id<new.after_id
      AND p.job_id=a.after_id AND p.terminal_at_ms IS NULL
    ORDER BY a.after_id DESC LIMIT 1)
  WHERE job_id=new.job_id AND waits_for=new.after_id AND (
    SELECT a.after_id FROM claimq_after AS a CROSS JOIN claimq_job AS p
    WHERE a.job_id=new.job_id AND a.after_id<new.after_id
      AND p.job_id=a.after_id AND p.terminal_at_ms IS NULL
    ORDER BY a.after_id DESC LIMIT 1) IS NOT NULL;
  UPDATE claimq_job SET waits_for=NULL, slot=slot,
    state=iif(available_at_ms>ifnull(new.at_ms, -1), 'delayed', 'ready'),
    due=iif(available_at_ms>ifnull(new.at_ms, -1), available_at_ms, -1)
  WHERE job_id=new.job_id AND waits_for=new.after_id;
END;

-- A job that was cancelled because another failed: by claimq_job_over, and by
-- nothing else, which leaves no other job behind it that on_failure cancels.
CREATE TRIGGER {{S}}.claimq_job_cancelled AFTER UPDATE OF waits_for
ON claimq_job WHEN new.settled_by='after' AND old.terminal_at_ms IS NULL
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: only claimq says that a job was cancelled because of another: use claimq_cancel()')
  WHERE old.waits_for IS NULL OR new.state<>'cancelled'
    OR new.on_failure<>'cancel' OR NOT EXISTS (
      SELECT 1 FROM claimq_after AS a CROSS JOIN claimq_job AS p
      WHERE a.job_id=new.job_id AND p.job_id=a.after_id
        AND (p.state='failed' OR p.state='cancelled'));
END;

-- Those with on_failure 'run' that waited for it may go on.
CREATE TRIGGER {{S}}.claimq_job_cancelled_awaited AFTER UPDATE OF awaited
ON claimq_job
WHEN old.awaited IS NOT NULL AND new.settled_by='after'
  AND old.terminal_at_ms IS NULL AND new.terminal_at_ms IS NOT NULL
BEGIN
  INSERT INTO claimq_job_next SELECT j.job_id, new.job_id, new.terminal_at_ms
  FROM claimq_after AS a INDEXED BY claimq_after_by_after
    CROSS JOIN claimq_job AS j
  WHERE a.after_id=new.job_id AND j.job_id=a.job_id AND j.waits_for=new.job_id
    AND j.on_failure='run';
END;

-- What a job waits for follows from claimq_after, and from nothing else.
CREATE TRIGGER {{S}}.claimq_job_waits AFTER UPDATE OF waits_for ON claimq_job
WHEN new.terminal_at_ms IS NULL AND new.waits_for IS NOT old.waits_for
BEGIN
  SELECT RAISE(ABORT, 'claimq: conflict: what a job waits for follows from its rows in claimq_after: delete those to let it run')
  WHERE new.waits_for IS NOT (
    SELECT a.after_id FROM claimq_after AS a CROSS JOIN claimq_job AS p
    WHERE a.job_id=new.job_id AND p.job_id=a.after_id
      AND a.after_id<=iif(new.waits_for IS NULL OR new.waits_for<old.waits_for,
                          old.waits_for, new.job_id)
      AND p.terminal_at_ms IS NULL
    ORDER BY a.after_id DESC LIMIT 1);
END;

-- The source keys of jobs that wait, or waited, for others, or for which others
-- wait or waited: so that INSERT OR REPLACE is noticed.  See
-- claimq_job_replaced.
CREATE TABLE {{S}}.claimq_tied(
  lane_id    TEXT NOT NULL,
  source_key TEXT NOT NULL,
  job_id     INTEGER NOT NULL,
  PRIMARY KEY(lane_id, source_key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER {{S}}.claimq_after_insert AFTER INSERT ON claimq_after
BEGIN
  SELECT RAISE(ABORT, 'claimq: not_found: there is no such job: insert both before the row that says which waits for which')
  WHERE NOT EXISTS(SELECT 1 FROM claimq_job WHERE job_id=new.job_id)
    OR NOT EXISTS(SELECT 1 FROM claimq_job WHERE job_id=new.after_id);
  SELECT RAISE(ABORT, 'claimq: conflict: the job has begun, and cannot wait for others any more')
  FROM claimq_job WHERE job_id=new.job_id AND state='active';
  INSERT INTO claimq_tied(lane_id, source_key, job_id)
  SELECT lane_id, source_key, job_id FROM claimq_job
  WHERE (job_id=new.job_id OR job_id=new.after_id) AND source_key IS NOT NULL
    AND terminal_at_ms IS NULL
  ON CONFLICT DO UPDATE SET job_id=excluded.job_id;
  UPDATE claimq_job SET on_failure='cancel'
  WHERE job_id=new.job_id AND on_failure IS NULL;
  UPDATE claimq_job SET awaited=1
  WHERE job_id=new.after_id AND awaited IS NULL AND terminal_at_ms IS NULL;
  UPDATE claimq_job SET state='blocked', due=NULL, waits_for=new.after_id,
    slot=slot
  WHERE job_id=new.job_id AND terminal_at_ms IS NULL
    AND ifnull(waits_for, 0)<new.after_id
    AND (SELECT p.terminal_at_ms IS NULL FROM claimq_job AS p
         WHERE p.job_id=new.after_id);
  UPDATE claimq_job SET state='cancelled', waits_for=NULL,
    settled_by='cancel', settled_claim_id=NULL, settled_token=NULL,
    settled_owner_id=NULL, awaited=NULL, slot=slot,
    settled_at_ms=max(created_at_ms, (SELECT p.terminal_at_ms
      FROM claimq_job AS p WHERE p.job_id=new.after_id)),
    terminal_at_ms=max(created_at_ms, (SELECT p.terminal_at_ms
      FROM claimq_job AS p WHERE p.job_id=new.after_id))
  WHERE job_id=new.job_id AND terminal_at_ms IS NULL AND on_failure='cancel'
    AND EXISTS(SELECT 1 FROM claimq_job AS p WHERE p.job_id=new.after_id
      AND (p.state='failed' OR p.state='cancelled'));
END;

CREATE TRIGGER {{S}}.claimq_after_delete AFTER DELETE ON claimq_after
BEGIN
  INSERT INTO claimq_job_next SELECT old.job_id, old.after_id, NULL
  FROM claimq_job WHERE job_id=old.job_id AND waits_for=old.after_id;
END;

CREATE TRIGGER {{S}}.claimq_after_update BEFORE UPDATE ON claimq_after
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: a row of claimq_after is not changed: delete it, and insert another');
END;

-- The jobs of a flow.  (An index would cost jobs without a flow 2 % of their
-- claimq_submit().)  A hint: claimq_job says in which flow a job is.
CREATE TABLE {{S}}.claimq_flow_job(
  flow_id TEXT NOT NULL,
  job_id  INTEGER NOT NULL,
  PRIMARY KEY(flow_id, job_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER {{S}}.claimq_job_flow AFTER UPDATE OF flow_id ON claimq_job
WHEN new.flow_id IS NOT old.flow_id
BEGIN
  DELETE FROM claimq_flow_job WHERE flow_id=old.flow_id AND job_id=old.job_id;
  INSERT INTO claimq_flow_job(flow_id, job_id)
  SELECT new.flow_id, new.job_id
  WHERE new.flow_id IS NOT NULL
  ON CONFLICT DO NOTHING;
END;

CREATE VIEW {{S}}.claimq_flow(flow_id, blocked, ready, delayed, active,
  completed, failed, cancelled)
AS
SELECT f.flow_id, sum(j.state='blocked'), sum(j.state='ready'),
  sum(j.state='delayed'), sum(j.state='active'), sum(j.state='completed'),
  sum(j.state='failed'), sum(j.state='cancelled')
FROM claimq_flow_job AS f CROSS JOIN claimq_job AS j
WHERE j.job_id=f.job_id AND j.flow_id=f.flow_id
GROUP BY f.flow_id;

-- claimq_submit() with unique_for_ms: the source key of the job is taken until
-- then, also when the job has ended.  The last one of a key counts.
CREATE TABLE {{S}}.claimq_unique(
  lane_id    TEXT NOT NULL,
  source_key TEXT NOT NULL,
  job_id     INTEGER NOT NULL,
  until_ms   INTEGER NOT NULL,
  PRIMARY KEY(lane_id, source_key)
) STRICT, WITHOUT ROWID;

-- claimq_change(), or a plain UPDATE: the key goes with its job.
CREATE TRIGGER {{S}}.claimq_job_rekeyed AFTER UPDATE OF lane_id, source_key
ON claimq_job
WHEN old.source_key IS NOT NULL
  AND (new.lane_id<>old.lane_id OR new.source_key IS NOT old.source_key)
BEGIN
  INSERT INTO claimq_unique(lane_id, source_key, job_id, until_ms)
  SELECT new.lane_id, new.source_key, job_id, until_ms FROM claimq_unique
  WHERE lane_id=old.lane_id AND source_key=old.source_key
    AND job_id=new.job_id AND new.source_key IS NOT NULL
  ON CONFLICT DO UPDATE SET job_id=excluded.job_id, until_ms=excluded.until_ms;
  DELETE FROM claimq_unique WHERE lane_id=old.lane_id
    AND source_key=old.source_key AND job_id=old.job_id;
END;

-- What else knows the key of a job.
CREATE TRIGGER {{S}}.claimq_job_keyed AFTER UPDATE OF lane_id, source_key
ON claimq_job
WHEN new.lane_id<>old.lane_id OR new.source_key IS NOT old.source_key
BEGIN
  INSERT INTO claimq_job_replaced SELECT new.lane_id, new.source_key
  WHERE new.source_key IS NOT NULL AND new.terminal_at_ms IS NULL;
  DELETE FROM claimq_tied WHERE lane_id=old.lane_id
    AND source_key=old.source_key AND job_id=old.job_id;
  INSERT INTO claimq_tied(lane_id, source_key, job_id)
  SELECT new.lane_id, new.source_key, new.job_id
  WHERE new.source_key IS NOT NULL AND new.terminal_at_ms IS NULL
    AND (EXISTS(SELECT 1 FROM claimq_after WHERE job_id=new.job_id)
      OR EXISTS(SELECT 1 FROM claimq_after WHERE after_id=new.job_id))
  ON CONFLICT DO UPDATE SET job_id=excluded.job_id;
  UPDATE claimq_slot SET source_key=new.source_key
  WHERE job_id=new.job_id AND source_key IS NOT new.source_key;
END;

-- A job is deleted: by claimq_vacuum(), or by hand.
CREATE TRIGGER {{S}}.claimq_job_delete AFTER DELETE ON claimq_job
WHEN old.terminal_at_ms IS NULL OR old.on_failure IS NOT NULL
  OR old.flow_id IS NOT NULL OR old.source_key IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'claimq: conflict: other jobs wait for this one: cancel it, or delete their rows of claimq_after before')
  WHERE old.terminal_at_ms IS NULL AND EXISTS (
    SELECT 1 FROM claimq_after AS a INDEXED BY claimq_after_by_after
      CROSS JOIN claimq_job AS j
    WHERE a.after_id=old.job_id AND j.job_id=a.job_id AND j.state='blocked');
  DELETE FROM claimq_after WHERE job_id=old.job_id;
  DELETE FROM claimq_flow_job WHERE flow_id=old.flow_id AND job_id=old.job_id;
  DELETE FROM claimq_unique WHERE lane_id=old.lane_id
    AND source_key=old.source_key AND job_id=old.job_id;
  DELETE FROM claimq_tied WHERE lane_id=old.lane_id
    AND source_key=old.source_key AND job_id=old.job_id;
END;

-- Its attempts go with it, whatever it was.  (claimq_vacuum() has counted and
-- removed them before.)
CREATE TRIGGER {{S}}.claimq_job_delete_past AFTER DELETE ON claimq_job
BEGIN
  DELETE FROM claimq_past WHERE job_id=old.job_id;
END;

CREATE TRIGGER {{S}}.claimq_job_renumbered
AFTER UPDATE OF job_id, rowid, oid, _rowid_ ON claimq_job
WHEN new.job_id<>old.job_id
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: job_id may not be changed');
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

CREATE TABLE {{S}}.claimq_letter(
  letter_id       INTEGER PRIMARY KEY AUTOINCREMENT
                  CONSTRAINT "claimq: bad_argument: letter_id must be positive"
                  CHECK(letter_id>0),
  source          TEXT NOT NULL
                  CHECK(source='session' OR source='lane' OR source='outbox'),
  scope           TEXT NOT NULL,        -- session, lane, QUEUE/PARTITION
  ref             ANY NOT NULL,         -- batch id, job id, seq
  payload         ANY,
  payload_type    TEXT,
  created_at_ms   INTEGER NOT NULL,
  failed_at_ms    INTEGER NOT NULL,
  reason          TEXT,
  error_class     TEXT,                 -- a word of the caller's, or NULL
  attempts        INTEGER NOT NULL DEFAULT 0,
  status          TEXT NOT NULL DEFAULT 'pending'
                  CHECK(status='pending' OR status='reprocessing'
                        OR status='resolved' OR status='discarded'),
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

CREATE INDEX {{S}}.claimq_letter_by_scope
  ON claimq_letter(source, scope, due) WHERE due IS NOT NULL;
CREATE INDEX {{S}}.claimq_letter_by_source
  ON claimq_letter(source, due) WHERE due IS NOT NULL;

-- The letters of a claim.
CREATE INDEX {{S}}.claimq_letter_by_claim
  ON claimq_letter(claim_head) WHERE claim_head IS NOT NULL;

-- Done letters, for claimq_vacuum().
CREATE INDEX {{S}}.claimq_letter_done
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

CREATE TABLE {{S}}.claimq_holder(
  holder_id         INTEGER PRIMARY KEY
                    CONSTRAINT
                      "claimq: bad_argument: holder_id must be positive"
                    CHECK(holder_id>0),
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
CREATE TRIGGER {{S}}.claimq_holder_insert AFTER INSERT ON claimq_holder
BEGIN
  UPDATE claimq_meta SET value=max(value, new.fencing_token)
  WHERE name='contest_fence';
END;

CREATE TRIGGER {{S}}.claimq_holder_update AFTER UPDATE OF fencing_token
ON claimq_holder
BEGIN
  UPDATE claimq_meta SET value=max(value, new.fencing_token)
  WHERE name='contest_fence';
END;

-- claimq_fence(resource, token): the highest token that a resource has seen.
CREATE TABLE {{S}}.claimq_fence(
  resource TEXT NOT NULL PRIMARY KEY,
  token    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
