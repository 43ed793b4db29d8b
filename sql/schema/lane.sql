-- lane.sql: jobs, their attempts and events.
--
-- Lanes: claimq_lane(lane, owner, ...) takes jobs of one lane and partition by
-- priority (larger first), then created_at_ms, then job_id.
--
-- A job is in its place as soon as it is in the table, whoever put it there:
-- what claims look for follows from its columns, in the index
-- claimq_job_by_due.  (sql/lane.sql has the expressions.  As generated columns
-- they would cost more: SQLite would check the types of all columns twice at
-- each write.)
--
-- JOB_DUE     when it can be claimed: -1 at once, or it could when somebody
--             last looked.  That follows from its times, unless place says it,
--             which claimq writes.
-- JOB_THERE   that is known: it is in the index.  Not so if place is -2 (it is
--             blocked, or needs a grant), and of a job of admission grant that
--             has no place.
-- JOB_BUCKET  what it stands together with: jobs that require the same
--             capabilities.  In a lane that keeps groups claims move jobs that
--             have a group_key to the head of their group, see "Limits" below;
--             until then, and in all other lanes, they stand apart from those
--             without.
--
-- reclaim and admission are NULL of a job that a plain INSERT has put and that
-- does not say them: as auto, unless the policy of the lane says grant when a
-- claim meets the job; then the claim writes that.  said tells which of the two
-- the job has said itself, 1 and 2, so that one that is put back says these
-- again and no others; NULL: those that are not NULL.

-- The payload stands last: a claim that only looks at a job need not read over
-- a large one.  What the trigger of a DELETE reads is among the first 32: of a
-- column behind these SQLite would read all the others, too.
--
-- settled_by and what follows it say how the last claim that is over ended,
-- other than by being displaced by another claim: complete, release, retry,
-- dead (a retry too many), reject, revoke, cancel, reclaim_cap.  A verb that is
-- repeated answers from there.  Of a job that was cancelled before it was ever
-- claimed settled_by is cancel, too, or after: because of one that it waited
-- for; or resolve: completed from outside.  Of one that failed because nobody
-- could ever claim it, invalid.
--
-- The constraint at the end says what goes with each state: these columns only
-- change together.  (A trigger that saw to it would cost each claim and each
-- complete more; so would a CASE, all of which SQLite computes; of AND and OR
-- it jumps over what does not matter.)
CREATE TABLE {{S}}.claimq_job(
  job_id          INTEGER PRIMARY KEY AUTOINCREMENT
                  CONSTRAINT "claimq: bad_argument: job_id must be positive"
                  CHECK(job_id>0),
  lane            TEXT NOT NULL,
  partition       INTEGER NOT NULL DEFAULT 0,
  priority        INTEGER NOT NULL DEFAULT 0,
  state           TEXT NOT NULL DEFAULT 'ready',
  reclaim         TEXT
                  CONSTRAINT "reclaim IN ('auto','grant')"
                  CHECK(reclaim='auto' OR reclaim='grant'),
  admission       TEXT CHECK(admission='auto' OR admission='grant'),
  said            INTEGER,
  created_at_ms   INTEGER NOT NULL {{DEFAULT_NOW}}
                  CHECK(created_at_ms>=0),
  available_at_ms INTEGER CHECK(available_at_ms>=0),  -- NULL: created_at_ms
  attempt_index   INTEGER NOT NULL DEFAULT 0,    -- the attempt now or next
  retry_count     INTEGER NOT NULL DEFAULT 0,
  reclaim_count   INTEGER NOT NULL DEFAULT 0,
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  attempts        INTEGER NOT NULL DEFAULT 0,    -- claims, less releases
  claim_id        TEXT,
  lease_token     TEXT,
  owner           TEXT,
  incarnation     TEXT,
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  previous_claim_id TEXT,               -- the expired claim it displaced
  slot            INTEGER,
  place           INTEGER,
  head_id         INTEGER,
  terminal_at_ms  INTEGER,              -- set with the terminal states
  awaited         INTEGER,
  -- NULL of these: as the policy of the lane says
  max_attempts    INTEGER,
  backoff_ms      INTEGER,
  backoff_factor  INTEGER,
  backoff_max_ms  INTEGER,
  max_reclaims    INTEGER,
  max_runtime_ms  INTEGER,
  source_key      TEXT,                 -- unique in the lane till the end
  unique_until_ms INTEGER,              -- ... or beyond it, till then
  flow_id         TEXT,
  namespace       TEXT,
  instance_tag    TEXT,
  capabilities    TEXT NOT NULL DEFAULT '[]'
                  CONSTRAINT "claimq: bad_argument: capabilities must be a JSON array of strings, such as [] or [""gpu""]"
                  CHECK(capabilities='[]' OR capabilities GLOB '[[]"*'),
  last_error      TEXT,
  error_class     TEXT,
  group_key       TEXT,                 -- the tenant it belongs to; or NULL
  settled_by      TEXT,
  settled_at_ms   INTEGER,
  settled_claim_id TEXT,
  settled_token   TEXT,
  settled_owner   TEXT,
  settled_incarnation TEXT,
  settled_started_ms INTEGER,
  settled_expires_ms INTEGER,
  waits_for       INTEGER,
  on_failure      TEXT,
  headers         TEXT
                  CONSTRAINT "claimq: bad_argument: headers must be a JSON object"
                  CHECK(headers IS NULL OR headers GLOB '{*}'),
  progress        ANY,
  result          ANY,
  payload         ANY,
  CONSTRAINT "claimq: bad_argument: max_attempts, backoff_ms, backoff_factor, backoff_max_ms and max_reclaims must be 0 or more, max_runtime_ms more than 0"
  CHECK(max_attempts IS NULL AND backoff_ms IS NULL AND backoff_factor IS NULL
      AND backoff_max_ms IS NULL AND max_reclaims IS NULL
      AND max_runtime_ms IS NULL
    OR max_attempts>=0 AND backoff_ms>=0 AND backoff_factor>=0
      AND backoff_max_ms>=0 AND max_reclaims>=0 AND max_runtime_ms>0),
  CONSTRAINT "claimq: bad_argument: state, claim_id and terminal_at_ms of a job change together: use claimq's functions"
  CHECK(terminal_at_ms IS NULL AND (
        waits_for IS NULL AND (
            claim_id IS NULL AND (state='ready' OR state='delayed')
          OR state='active' AND
            (claim_id IS NOT NULL OR owner IS NULL AND settled_by='revoke'))
      OR claim_id IS NULL AND state='blocked' AND waits_for IS NOT NULL
        AND on_failure IS NOT NULL)
    OR terminal_at_ms IS NOT NULL AND claim_id IS NULL AND waits_for IS NULL
      AND awaited IS NULL
      AND (state='completed' OR state='failed' OR state='cancelled'))
) STRICT;

-- The head of what is ready for each set is one seek.
CREATE INDEX {{S}}.claimq_job_by_due ON claimq_job(
  lane, partition, {{JOB_BUCKET}}, {{JOB_DUE}}, priority DESC, created_at_ms
) WHERE {{LANE_THERE}};

-- A key is of one job that has not ended, and of any number that have.
CREATE UNIQUE INDEX {{S}}.claimq_job_by_key ON claimq_job(
  lane, source_key, iif(terminal_at_ms IS NULL, 0, job_id)
) WHERE source_key IS NOT NULL;

-- The attempts: one row each.  A claim and a complete are frequent, so a
-- running attempt, and one that ended by complete or release, is recorded in
-- the job's own row, which is written anyway.  All others are here.  So a
-- released attempt is overwritten by the next claim, which has the same index.
CREATE TABLE {{S}}.claimq_past(
  job_id         INTEGER NOT NULL,
  attempt_index  INTEGER NOT NULL,
  owner          TEXT NOT NULL,
  incarnation    TEXT NOT NULL,
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

CREATE VIEW {{S}}.claimq_attempt(job_id, attempt_index, owner,
  incarnation, fencing_token, started_at_ms, ended_at_ms, outcome, error,
  expires_at_ms, error_class)
AS
SELECT job_id, attempt_index, owner, incarnation, fencing_token,
  started_at_ms, ended_at_ms, outcome, error, expires_at_ms, error_class
FROM claimq_past
UNION ALL
SELECT job_id, attempt_index, ifnull(owner, settled_owner),
  iif(owner IS NULL, settled_incarnation, incarnation),
  fencing_token, iif(owner IS NULL, settled_started_ms, claimed_at_ms),
  CASE WHEN owner IS NOT NULL THEN NULL
       WHEN state='completed' THEN terminal_at_ms ELSE settled_at_ms END,
  CASE WHEN owner IS NOT NULL THEN NULL
       WHEN state='completed' THEN 'success' ELSE 'released' END,
  NULL, iif(owner IS NULL, settled_expires_ms, expires_at_ms), NULL
FROM claimq_job WHERE owner IS NOT NULL OR settled_owner IS NOT NULL
ORDER BY 1, 2;

-- One row per terminal transition.  SQLite has one writer at a time, so ids
-- follow the order of commits: a reader that remembers the greatest event_id
-- it saw and asks for greater ones misses none.  No id is given twice while the
-- newest event stays: claimq never removes it.  (With AUTOINCREMENT each
-- complete would write the page of sqlite_sequence, too: a claim and its
-- complete would be 7 % longer.)
CREATE TABLE {{S}}.claimq_event(
  event_id       INTEGER PRIMARY KEY
                 CONSTRAINT "claimq: bad_argument: event_id must be positive"
                 CHECK(event_id>0)
                 CONSTRAINT "claimq: conflict: no event_id is left"
                 CHECK(event_id<9223372036854775807),
  job_id         INTEGER NOT NULL,
  lane           TEXT NOT NULL,
  partition      INTEGER NOT NULL,
  flow_id        TEXT,
  outcome        TEXT NOT NULL,         -- success, failed, cancelled, restored
  error_class    TEXT,                  -- of a failed one
  namespace      TEXT,
  instance_tag   TEXT,
  occurred_at_ms INTEGER NOT NULL
) STRICT;

-- (SQLite looks for a row from the first on: what submits is first.)
INSERT INTO {{S}}.sqlite_sequence(name, seq)
VALUES('claimq_job', 0);

-- Only payloads and headers are changed by a plain UPDATE.  (Claims and
-- completes write none of these columns, and so pay nothing; what they do write
-- is guarded by the constraint above.)  The name of the function is what SQLite
-- says where the extension is not loaded.
CREATE TRIGGER {{S}}.claimq_job_guard AFTER UPDATE OF job_id, rowid, oid,
  _rowid_, lane, partition, priority, reclaim, admission, said, created_at_ms,
  available_at_ms, attempt_index, retry_count, reclaim_count, slot, place,
  head_id, max_attempts, backoff_ms, backoff_factor, backoff_max_ms,
  max_reclaims, max_runtime_ms, source_key, unique_until_ms, flow_id,
  namespace, instance_tag, capabilities, last_error, error_class, group_key,
  waits_for, on_failure, awaited, progress ON claimq_job
WHEN "claimq: load the extension and use claimq_change() to change a job"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: of a job only payload and headers can be changed by UPDATE: use claimq_change(), claimq_cancel(), or a verb'); END;

CREATE TRIGGER {{S}}.claimq_job_delete AFTER DELETE ON claimq_job
BEGIN SELECT RAISE(ABORT, 'claimq') WHERE "claimq: load the extension to delete a job"(old.job_id, old.lane, old.claim_id, old.awaited, old.head_id); END;

-- The terminal transition.
CREATE TRIGGER {{S}}.claimq_job_end AFTER UPDATE OF terminal_at_ms ON claimq_job
WHEN new.terminal_at_ms IS NOT NULL AND old.terminal_at_ms IS NULL
BEGIN
  INSERT INTO claimq_event(job_id, lane, partition, flow_id, outcome,
      error_class, namespace, instance_tag, occurred_at_ms)
  VALUES(new.job_id, new.lane, new.partition, new.flow_id,
      iif(new.state='completed', 'success', new.state),
      iif(new.state='failed', new.error_class, NULL),
      new.namespace, new.instance_tag, new.terminal_at_ms);
  SELECT RAISE(ABORT, 'claimq: conflict: a trigger on claimq_event left a row out')
  WHERE changes()=0;
END;
