-- limit.sql: policies of lanes: limits, groups that take turns, defaults.
--
-- feature: policies
--
-- What a lane says of its claims and its jobs: how many may be held at a time,
-- how many claims may begin in a while, whether groups take turns; whether it
-- is paused; and what holds for jobs and claims that do not say it themselves.
--
-- A lane without a row here says nothing.  NULL: nothing is said, and the row
-- whose lane is NULL counts, which is about every lane; if that says nothing
-- either, what is built in.  (Limits, fair, and all that follows admission are
-- of one lane.)  To write the row is all that claimq_policy() does, whatever
-- the lane holds: what limits need beside it the claims make that need it.
CREATE TABLE {{S}}.claimq_policy(
  lane             TEXT UNIQUE,
  max_active       INTEGER,
  rate             INTEGER,
  per_ms           INTEGER,
  group_max_active INTEGER,
  group_rate       INTEGER,
  group_per_ms     INTEGER,
  fair             INTEGER NOT NULL DEFAULT 0,
  paused           INTEGER,
  max_attempts     INTEGER,             -- of jobs
  backoff_ms       INTEGER,
  backoff_factor   INTEGER,
  backoff_max_ms   INTEGER,
  max_reclaims     INTEGER,
  max_runtime_ms   INTEGER,
  lease_ms         INTEGER,             -- of claims
  strict           INTEGER,             -- 1: an expired claim is lost
  keep_ms          INTEGER,             -- -1: for ever
  keep_failed_ms   INTEGER,
  events           INTEGER,             -- 0: none
  reclaim          TEXT,                -- of jobs that come from now on
  admission        TEXT,
  begun            INTEGER NOT NULL DEFAULT 0,  -- claims so far
  last_ms          INTEGER NOT NULL DEFAULT 0,  -- none of them began later
  turn             INTEGER NOT NULL DEFAULT 0,  -- the last turn taken
  keyless_turn     INTEGER NOT NULL DEFAULT 0,  -- by jobs without a group_key
  fair_from        INTEGER NOT NULL DEFAULT 0,  -- earlier turns do not count
  groups           INTEGER NOT NULL DEFAULT 0,  -- 1: the lane keeps groups
  counted          INTEGER NOT NULL DEFAULT 0,  -- 1: what is held has a slot
  -- Groups from this one on are to be looked at again, because the limits have
  -- changed; NULL: none.
  look_from        TEXT,
  CONSTRAINT
    "claimq: bad_argument: max_active and group_max_active must be 0 or more"
  CHECK(ifnull(max_active, 0)>=0 AND ifnull(group_max_active, 0)>=0),
  CONSTRAINT
    "claimq: bad_argument: rate and group_rate must be within 0..10000"
  CHECK(ifnull(rate, 0) BETWEEN 0 AND 10000
    AND ifnull(group_rate, 0) BETWEEN 0 AND 10000),
  CONSTRAINT
    "claimq: bad_argument: per_ms and group_per_ms must be 1 or more"
  CHECK(ifnull(per_ms, 1)>=1 AND ifnull(group_per_ms, 1)>=1),
  CONSTRAINT "claimq: bad_argument: rate and per_ms belong together, and so do group_rate and group_per_ms: give both, or NULL for both"
  CHECK((rate IS NULL)=(per_ms IS NULL)
    AND (group_rate IS NULL)=(group_per_ms IS NULL)),
  CONSTRAINT "claimq: bad_argument: fair must be 0 or 1"
  CHECK(fair BETWEEN 0 AND 1)
) STRICT;

CREATE TRIGGER {{S}}.claimq_policy_insert AFTER INSERT ON claimq_policy
WHEN "claimq: load the extension and use claimq_policy()"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: a policy is set by claimq_policy()'); END;

CREATE TRIGGER {{S}}.claimq_policy_guard AFTER UPDATE OF lane, max_active, rate,
  per_ms, group_max_active, group_rate, group_per_ms, fair, paused,
  max_attempts, backoff_ms, backoff_factor, backoff_max_ms, max_reclaims,
  max_runtime_ms, lease_ms, strict, keep_ms, keep_failed_ms, events, reclaim,
  admission, fair_from, groups, counted, look_from ON claimq_policy
WHEN "claimq: load the extension and use claimq_policy()"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: a policy is changed by claimq_policy()'); END;

CREATE TRIGGER {{S}}.claimq_policy_delete AFTER DELETE ON claimq_policy
WHEN "claimq: load the extension and use claimq_policy()"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: a policy is changed by claimq_policy()'); END;

-- The leases of lanes that limit how many may be live, so that these can be
-- counted: of a group, 0 if the job has none, and of the lane.  The group is
-- also what stands in claimq_job.slot.  (Two indexes of claimq_job would do;
-- but SQLite opens all indexes of a table that it inserts into, and lanes
-- without limits would pay 4 % of a claim and its complete, and 7 % of a
-- submit.)
CREATE TABLE {{S}}.claimq_slot(
  lane          TEXT NOT NULL,
  group_id      INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  job_id        INTEGER NOT NULL,
  PRIMARY KEY(lane, group_id, expires_at_ms, job_id)
) STRICT, WITHOUT ROWID;

-- When claims began: the last `rate` of a lane (group_id 0) and the last
-- `group_rate` of a group, numbered one after the other.
CREATE TABLE {{S}}.claimq_start(
  lane     TEXT NOT NULL,
  group_id INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL,
  PRIMARY KEY(lane, group_id, seq)
) STRICT, WITHOUT ROWID;

-- The groups of lanes that keep them: one row for each group_key.  A claim only
-- writes it if groups take turns or have a rate; then at_ms is no earlier than
-- its last claim.  Whether its limits let one more claim begin is what its
-- leases and starts tell.
CREATE TABLE {{S}}.claimq_group(
  group_id    INTEGER PRIMARY KEY,
  lane        TEXT NOT NULL,
  group_key   TEXT NOT NULL,
  turn        INTEGER NOT NULL DEFAULT 0,  -- its last one; 0: none yet
  at_ms       INTEGER NOT NULL DEFAULT 0,  -- when it was last seen in use
  UNIQUE(lane, group_key)
) STRICT;

CREATE INDEX {{S}}.claimq_group_by_time ON claimq_group(lane, at_ms)
  WHERE at_ms>0;

-- The jobs of a group that are in one partition and require the same
-- capabilities are one range of claimq_job_by_due: their bucket is the number
-- of a head.  The head tells its first job, so that a claim finds the first
-- group that may begin without looking at the others:
--
--   place  -1: the job stands there and its group is open; else the time at
--          which that may be so; NULL: there is nothing
--   due    if place is -1, when the first of those that wait falls due
--   turn   of the group, 0 if the lane is not fair
--
-- It is a hint: a claim looks at the group and its jobs before it takes one.
-- In such a lane a claim moves its jobs to place = expires_at_ms at once, so
-- that what stands at due = -1 is free.
CREATE TABLE {{S}}.claimq_head(
  head_id       INTEGER PRIMARY KEY,
  lane          TEXT NOT NULL,
  partition     INTEGER NOT NULL,
  capabilities  TEXT NOT NULL,
  group_id      INTEGER NOT NULL,
  place         INTEGER,
  due           INTEGER,
  turn          INTEGER NOT NULL DEFAULT 0,
  priority      INTEGER,
  created_at_ms INTEGER,
  job_id        INTEGER,
  UNIQUE(group_id, partition, capabilities)
) STRICT;

CREATE INDEX {{S}}.claimq_head_by_place ON claimq_head(
  lane, partition, capabilities, place, turn, priority DESC,
  created_at_ms, job_id
) WHERE place IS NOT NULL;
CREATE INDEX {{S}}.claimq_head_by_due ON claimq_head(
  lane, partition, capabilities, due
) WHERE due IS NOT NULL;
