-- limit.sql: limits and fairness of lanes: their tables, and the statements of
-- ext/lane_limit.c.

-- schema:
--------------------------------------------------------------------------
-- Limits: how many jobs of a lane may be held at a time, how many claims may
-- begin in a while, and whether groups take turns.
--
-- A lane without a row here has none.  NULL: not limited.
-- claimq_limit() writes it, and so may plain SQL: the triggers below bring
-- slots and groups to what the limits want.
CREATE TABLE {{S}}.claimq_limit(
  lane_id          TEXT NOT NULL PRIMARY KEY,
  max_active       INTEGER,
  rate             INTEGER,
  per_ms           INTEGER,
  group_max_active INTEGER,
  group_rate       INTEGER,
  group_per_ms     INTEGER,
  fair             INTEGER NOT NULL DEFAULT 0,
  begun            INTEGER NOT NULL DEFAULT 0,  -- claims so far
  last_ms          INTEGER NOT NULL DEFAULT 0,  -- none of them began later
  turn             INTEGER NOT NULL DEFAULT 0,  -- the last turn taken
  keyless_turn     INTEGER NOT NULL DEFAULT 0,  -- by jobs without a group_key
  -- 1: the lane keeps groups
  groups           INTEGER AS (group_max_active IS NOT NULL
    OR group_rate IS NOT NULL OR fair) VIRTUAL,
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
) STRICT, WITHOUT ROWID;

CREATE TRIGGER {{S}}.claimq_limit_insert AFTER INSERT ON claimq_limit
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: claims of this database do not look for limits yet: set the first one with claimq_limit()')
  WHERE NOT (SELECT value FROM claimq_meta WHERE name='settings') & 64;
  INSERT OR ABORT INTO claimq_limit_place VALUES(new.lane_id);
END;

CREATE TRIGGER {{S}}.claimq_limit_update AFTER UPDATE OF lane_id, max_active,
  rate, per_ms, group_max_active, group_rate, group_per_ms, fair ON claimq_limit
BEGIN
  INSERT OR ABORT INTO claimq_limit_place VALUES(new.lane_id);
  INSERT OR ABORT INTO claimq_limit_place SELECT old.lane_id
  WHERE old.lane_id<>new.lane_id;
END;

CREATE TRIGGER {{S}}.claimq_limit_delete AFTER DELETE ON claimq_limit
BEGIN
  INSERT OR ABORT INTO claimq_limit_place VALUES(old.lane_id);
END;

-- The limits of a lane have changed.  What no limit asks for any more is
-- forgotten; what is held moves to where it waits; all jobs of the lane that
-- have a group or are held get their place, in the order of their keys, which
-- numbers new groups in the same way everywhere.  (Jobs that wait for a grant
-- stand in no index: all jobs are read.)
CREATE VIEW {{S}}.claimq_limit_place(lane_id) AS SELECT NULL;

CREATE TRIGGER {{S}}.claimq_limit_place_insert INSTEAD OF INSERT
ON claimq_limit_place
BEGIN
  DELETE FROM claimq_start WHERE lane_id=new.lane_id AND NOT EXISTS (
    SELECT 1 FROM claimq_limit AS l WHERE l.lane_id=new.lane_id
      AND iif(claimq_start.group_id=0, l.rate, l.group_rate) IS NOT NULL);
  UPDATE claimq_group SET turn=0
  WHERE lane_id=new.lane_id AND turn<>0 AND NOT EXISTS (
    SELECT 1 FROM claimq_limit AS l WHERE l.lane_id=new.lane_id AND l.fair);
  UPDATE claimq_limit SET
    turn=max(turn, keyless_turn*fair, ifnull((
      SELECT max(g.turn) FROM claimq_group AS g WHERE g.lane_id=new.lane_id),
      0)),
    keyless_turn=keyless_turn*fair
  WHERE lane_id=new.lane_id;
  DELETE FROM claimq_head
  WHERE group_id IN (
      SELECT g.group_id FROM claimq_group AS g WHERE g.lane_id=new.lane_id)
    AND NOT EXISTS (
      SELECT 1 FROM claimq_limit AS l
      WHERE l.lane_id=new.lane_id AND l.groups);
  DELETE FROM claimq_group WHERE lane_id=new.lane_id AND NOT EXISTS (
    SELECT 1 FROM claimq_limit AS l WHERE l.lane_id=new.lane_id AND l.groups);
  UPDATE claimq_job SET
    due=iif(reclaim='auto', max(0, ifnull(expires_at_ms, 0)), NULL)
  WHERE job_id IN (
      SELECT j.job_id FROM claimq_limit AS l CROSS JOIN claimq_job AS j
        NOT INDEXED
      WHERE l.lane_id=new.lane_id AND j.lane_id=new.lane_id
        AND j.terminal_at_ms IS NULL AND j.claim_id IS NOT NULL)
    AND due<0;
  INSERT INTO claimq_job_set
  SELECT job_id, 0 FROM claimq_job NOT INDEXED
  WHERE lane_id=new.lane_id AND terminal_at_ms IS NULL
    AND (group_key IS NOT NULL OR claim_id IS NOT NULL)
  ORDER BY job_id;
  INSERT OR ABORT INTO claimq_group_look
  SELECT group_id FROM claimq_group WHERE lane_id=new.lane_id
  ORDER BY group_key;
END;

-- The slots.  In a lane with limits a job that a claim holds has in `slot` the
-- number of its turn, 0 if the lane is not fair; every other job has NULL.  A
-- claim there moves its jobs to due = expires_at_ms at once, so that what
-- stands at due = -1 is free.  The leases are here once more, so that live ones
-- can be counted.  (Two indexes of claimq_job would do; but SQLite opens all
-- indexes of a table that it inserts into, and lanes without limits would pay
-- 4 % of a claim and its complete, and 7 % of a submit.)
CREATE TABLE {{S}}.claimq_slot(
  job_id        INTEGER PRIMARY KEY,
  lane_id       TEXT NOT NULL,
  group_id      INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  source_key    TEXT                    -- see claimq_job_replaced
) STRICT;

CREATE INDEX {{S}}.claimq_slot_by_lane ON claimq_slot(lane_id, expires_at_ms);
CREATE INDEX {{S}}.claimq_slot_by_group ON claimq_slot(group_id, expires_at_ms)
  WHERE group_id>0;
CREATE INDEX {{S}}.claimq_slot_by_key ON claimq_slot(lane_id, source_key)
  WHERE source_key IS NOT NULL;

CREATE TRIGGER {{S}}.claimq_slot_insert AFTER INSERT ON claimq_slot
WHEN new.group_id>0
BEGIN
  INSERT OR ABORT INTO claimq_group_look VALUES(new.group_id);
END;

CREATE TRIGGER {{S}}.claimq_slot_update AFTER UPDATE ON claimq_slot
BEGIN
  INSERT OR ABORT INTO claimq_group_look SELECT new.group_id
    WHERE new.group_id>0;
  INSERT OR ABORT INTO claimq_group_look SELECT old.group_id
    WHERE old.group_id>0 AND old.group_id<>new.group_id;
END;

-- When claims began: the last `rate` of a lane (group_id 0) and the last
-- `group_rate` of a group, numbered one after the other.
CREATE TABLE {{S}}.claimq_start(
  lane_id  TEXT NOT NULL,
  group_id INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL,
  PRIMARY KEY(lane_id, group_id, seq)
) STRICT, WITHOUT ROWID;

-- The clock has gone back, to at_ms: what began later than that began then.
-- Without this a start that was written when the clock was far ahead would be
-- in the window until then.
CREATE VIEW {{S}}.claimq_limit_back(lane_id, at_ms) AS SELECT NULL, NULL;

CREATE TRIGGER {{S}}.claimq_limit_back_insert INSTEAD OF INSERT
ON claimq_limit_back
BEGIN
  UPDATE claimq_limit SET last_ms=new.at_ms WHERE lane_id=new.lane_id;
  UPDATE claimq_start SET at_ms=new.at_ms
  WHERE lane_id=new.lane_id AND group_id IN (
      SELECT 0 UNION ALL
      SELECT g.group_id FROM claimq_group AS g INDEXED BY claimq_group_by_time
      WHERE g.lane_id=new.lane_id AND g.at_ms>new.at_ms)
    AND at_ms>new.at_ms;
  INSERT OR ABORT INTO claimq_group_look
  SELECT g.group_id FROM claimq_group AS g INDEXED BY claimq_group_by_time
  WHERE g.lane_id=new.lane_id AND g.at_ms>new.at_ms;
  UPDATE claimq_group SET at_ms=new.at_ms
  WHERE lane_id=new.lane_id AND at_ms>new.at_ms;
END;

-- The groups of lanes that keep them: one row for each group_key.
CREATE TABLE {{S}}.claimq_group(
  group_id    INTEGER PRIMARY KEY,
  lane_id     TEXT NOT NULL,
  group_key   TEXT NOT NULL,
  opens_at_ms INTEGER NOT NULL DEFAULT -1, -- when its limits let a claim begin;
                                           -- -1: at any time; 0: look
  turn        INTEGER NOT NULL DEFAULT 0,  -- its last one; 0: none yet
  at_ms       INTEGER NOT NULL DEFAULT 0,  -- when its last claim began
  UNIQUE(lane_id, group_key)
) STRICT;

CREATE INDEX {{S}}.claimq_group_by_time ON claimq_group(lane_id, at_ms);

-- The jobs of a group that are in one partition and require one set (cap_id, 0
-- if they require nothing) are one range of claimq_job_by_due: their cap_id is
-- the number of a head, made negative.  The head tells its first job, so that
-- a claim finds the first group that may begin without looking at the others:
--
--   place  -1: the job stands there and its group is open; else the time at
--          which that may be so; NULL: there is nothing
--   due    if place is -1, when the first of those that wait falls due
--   turn   of the group, 0 if the lane is not fair
--
-- It is a hint: a claim looks at the group and its jobs before it takes one.
CREATE TABLE {{S}}.claimq_head(
  head_id       INTEGER PRIMARY KEY,
  lane_id       TEXT NOT NULL,
  partition_key INTEGER NOT NULL,
  cap_id        INTEGER NOT NULL,
  group_id      INTEGER NOT NULL,
  place         INTEGER,
  due           INTEGER,
  turn          INTEGER NOT NULL DEFAULT 0,
  priority      INTEGER,
  created_at_ms INTEGER,
  job_id        INTEGER,
  UNIQUE(group_id, partition_key, cap_id)
) STRICT;

CREATE INDEX {{S}}.claimq_head_by_place ON claimq_head(
  lane_id, partition_key, cap_id, place, turn, priority DESC, created_at_ms,
  job_id
) WHERE place IS NOT NULL;
CREATE INDEX {{S}}.claimq_head_by_due ON claimq_head(
  lane_id, partition_key, cap_id, due
) WHERE due IS NOT NULL;

-- What a job has that its lane does not know yet: its set of capabilities, if
-- it requires any (required is 1); where groups are kept, its group and a head.
CREATE VIEW {{S}}.claimq_head_new(lane_id, partition_key, group_key,
  required_capabilities, required) AS SELECT NULL, NULL, NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_head_new_insert INSTEAD OF INSERT ON claimq_head_new
BEGIN
  INSERT INTO claimq_capset(lane_id, partition_key, required)
    SELECT new.lane_id, new.partition_key, new.required_capabilities
    WHERE new.required
    ON CONFLICT DO NOTHING;
  INSERT INTO claimq_group(lane_id, group_key, opens_at_ms)
    SELECT lane_id, new.group_key, iif(group_max_active=0 OR group_rate=0,
      9223372036854775807, -1)
    FROM claimq_limit
    WHERE lane_id=new.lane_id AND groups AND new.group_key IS NOT NULL
    ON CONFLICT DO NOTHING;
  INSERT INTO claimq_head(lane_id, partition_key, cap_id, group_id)
    SELECT lane_id, new.partition_key, {{JOB_SET new}}, group_id
    FROM claimq_group
    WHERE lane_id=new.lane_id AND group_key=new.group_key
    ON CONFLICT DO NOTHING;
END;

-- Look at the jobs of a head, and write down what is found: INSERT INTO this
-- view.  The same for a group and all its heads.  (An UPDATE FROM would do it
-- at once, and make the first claimq_submit() of a connection 10 % longer:
-- SQLite would have five tables to put in order.)
CREATE VIEW {{S}}.claimq_head_look(head_id) AS SELECT NULL;

CREATE TRIGGER {{S}}.claimq_head_look_insert INSTEAD OF INSERT
ON claimq_head_look
BEGIN
  INSERT INTO claimq_head_found
  SELECT h.head_id, g.opens_at_ms, g.turn, (
      SELECT min(due) FROM claimq_job INDEXED BY claimq_job_by_due
      WHERE lane_id=h.lane_id AND partition_key=h.partition_key
        AND cap_id=-h.head_id AND due>=0 AND terminal_at_ms IS NULL), (
      SELECT job_id FROM claimq_job INDEXED BY claimq_job_by_due
      WHERE lane_id=h.lane_id AND partition_key=h.partition_key
        AND cap_id=-h.head_id AND due=-1 AND terminal_at_ms IS NULL
      ORDER BY priority DESC, created_at_ms, job_id LIMIT 1)
  FROM claimq_head AS h CROSS JOIN claimq_group AS g ON g.group_id=h.group_id
  WHERE h.head_id=new.head_id;
END;

-- When its group opens, the group's turn, when the first that waits falls due,
-- and the first that is ready.
CREATE VIEW {{S}}.claimq_head_found(head_id, opens_at_ms, turn, due, job_id)
AS SELECT NULL, NULL, NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_head_found_insert INSTEAD OF INSERT
ON claimq_head_found
BEGIN
  UPDATE claimq_head SET
    place=iif(new.job_id IS NULL, max(new.due, new.opens_at_ms),
      new.opens_at_ms),
    due=iif(new.job_id IS NOT NULL AND new.opens_at_ms<0, new.due, NULL),
    turn=new.turn, job_id=new.job_id,
    priority=(SELECT priority FROM claimq_job WHERE job_id=new.job_id),
    created_at_ms=(
      SELECT created_at_ms FROM claimq_job WHERE job_id=new.job_id)
  WHERE head_id=new.head_id;
END;

CREATE VIEW {{S}}.claimq_group_look(group_id) AS SELECT NULL;

CREATE TRIGGER {{S}}.claimq_group_look_insert INSTEAD OF INSERT
ON claimq_group_look
BEGIN
  UPDATE claimq_group SET opens_at_ms=ifnull((
    SELECT o.opens_at_ms FROM claimq_group_opens AS o
    WHERE o.group_id=claimq_group.group_id), -1)
  WHERE group_id=new.group_id;
  INSERT OR ABORT INTO claimq_head_look
    SELECT head_id FROM claimq_head WHERE group_id=new.group_id;
END;

-- From when on the limits of a group let one more claim begin, as far as only
-- time passes; -1: at any time.
CREATE VIEW {{S}}.claimq_group_opens(group_id, opens_at_ms) AS
SELECT g.group_id,
  {{LIMIT_OPENS GROUP group_max_active group_rate group_per_ms g.group_id}}
FROM claimq_group AS g CROSS JOIN claimq_limit AS l ON l.lane_id=g.lane_id;

-- The same for a lane.
CREATE VIEW {{S}}.claimq_limit_opens(lane_id, opens_at_ms) AS
SELECT l.lane_id, {{LIMIT_OPENS LANE max_active rate per_ms 0}}
FROM claimq_limit AS l;

-- A claim begins at new.at_ms, in a lane whose last n claims are to be known.
-- Claims that seem to have begun later (the clock went back) began now.
CREATE VIEW {{S}}.claimq_start_now(lane_id, group_id, at_ms, n) AS
SELECT NULL, NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_start_now_insert INSTEAD OF INSERT
ON claimq_start_now
BEGIN
  UPDATE claimq_start SET at_ms=new.at_ms
  WHERE lane_id=new.lane_id AND group_id=new.group_id AND at_ms>new.at_ms
    AND seq>(SELECT iif(at_ms>new.at_ms, 0, 9223372036854775807)
             FROM claimq_start
             WHERE lane_id=new.lane_id AND group_id=new.group_id
             ORDER BY seq DESC LIMIT 1);
  INSERT INTO claimq_start VALUES(new.lane_id, new.group_id, 1+ifnull((
    SELECT max(seq) FROM claimq_start
    WHERE lane_id=new.lane_id AND group_id=new.group_id), 0), new.at_ms);
  DELETE FROM claimq_start
  WHERE lane_id=new.lane_id AND group_id=new.group_id AND seq<=(
    SELECT max(seq) FROM claimq_start
    WHERE lane_id=new.lane_id AND group_id=new.group_id)-new.n;
END;

-- Something happened to a job that has a slot, or a head.  All statements that
-- change the place of a job write its slot, also if that stays what it is; but
-- for those of lanes without limits that would pay for it: see LANE_STAMP_NEW
-- and LANE_HELD_ALONE in sql/lane.sql.
CREATE TRIGGER {{S}}.claimq_job_slot AFTER UPDATE OF slot ON claimq_job
WHEN new.slot IS NOT NULL OR old.slot IS NOT NULL OR new.cap_id<0
  OR old.cap_id<0
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: the slot of a job that is held is given by claimq')
  FROM claimq_limit WHERE lane_id=new.lane_id
    AND new.slot IS NULL AND old.slot IS NOT NULL AND new.claim_id IS NOT NULL;
  INSERT OR ABORT INTO claimq_slot_taken
    SELECT new.lane_id, ifnull((
        SELECT group_id FROM claimq_head WHERE head_id=-new.cap_id), 0),
      new.claimed_at_ms, new.slot
    WHERE new.slot IS NOT NULL AND new.claim_id IS NOT old.claim_id;
  DELETE FROM claimq_slot WHERE job_id=new.job_id AND new.slot IS NULL;
  INSERT OR ABORT INTO claimq_group_look
    SELECT group_id FROM claimq_head
    WHERE head_id=-old.cap_id AND new.slot IS NULL AND old.slot IS NOT NULL;
  INSERT OR ABORT INTO claimq_slot
    SELECT new.job_id, new.lane_id, ifnull((
        SELECT group_id FROM claimq_head WHERE head_id=-new.cap_id), 0),
      ifnull(new.expires_at_ms, 0), new.source_key
    WHERE new.slot IS NOT NULL
    ON CONFLICT(job_id) DO UPDATE SET lane_id=excluded.lane_id,
      group_id=excluded.group_id, expires_at_ms=excluded.expires_at_ms,
      source_key=excluded.source_key;
  INSERT OR ABORT INTO claimq_head_look SELECT -new.cap_id
    WHERE new.cap_id<0 AND new.slot IS NULL AND old.slot IS NULL;
  INSERT OR ABORT INTO claimq_head_look SELECT -old.cap_id
    WHERE old.cap_id<0 AND old.cap_id<>new.cap_id;
END;

-- Of these a plain UPDATE may change what a head tells.
CREATE TRIGGER {{S}}.claimq_job_head
AFTER UPDATE OF priority, created_at_ms ON claimq_job
WHEN new.cap_id<0
BEGIN
  INSERT OR ABORT INTO claimq_head_look SELECT -new.cap_id
  WHERE NOT EXISTS (
    SELECT 1 FROM claimq_head
    WHERE head_id=-new.cap_id AND new.due=-1 AND job_id<>new.job_id
      AND (priority, new.created_at_ms, new.job_id)>
          (new.priority, created_at_ms, job_id));
END;

CREATE TRIGGER {{S}}.claimq_job_slot_delete AFTER DELETE ON claimq_job
WHEN old.terminal_at_ms IS NULL AND (old.slot IS NOT NULL OR old.cap_id<0)
BEGIN
  DELETE FROM claimq_slot WHERE job_id=old.job_id;
  INSERT OR ABORT INTO claimq_group_look
    SELECT group_id FROM claimq_head WHERE head_id=-old.cap_id;
END;

CREATE VIEW {{S}}.claimq_slot_taken(lane_id, group_id, at_ms, turn) AS
SELECT NULL, NULL, NULL, NULL;

CREATE TRIGGER {{S}}.claimq_slot_taken_insert INSTEAD OF INSERT
ON claimq_slot_taken
BEGIN
  INSERT OR ABORT INTO claimq_start_now
    SELECT lane_id, 0, new.at_ms, rate FROM claimq_limit
    WHERE lane_id=new.lane_id AND rate>0;
  INSERT OR ABORT INTO claimq_start_now
    SELECT lane_id, new.group_id, new.at_ms, group_rate FROM claimq_limit
    WHERE lane_id=new.lane_id AND group_rate>0 AND new.group_id>0;
  UPDATE claimq_group SET at_ms=new.at_ms, turn=max(turn, new.turn)
  WHERE group_id=new.group_id;
  UPDATE claimq_limit SET begun=begun+(begun<9223372036854775807),
    last_ms=max(last_ms, new.at_ms), turn=max(turn, new.turn),
    keyless_turn=iif(new.group_id=0, max(keyless_turn, new.turn), keyless_turn)
  WHERE lane_id=new.lane_id;
END;

--------------------------------------------------------------------------
-- What the limits of a lane are, and how much of them is used up.

-- name: LIMIT_ROW
SELECT max_active, rate, per_ms, group_max_active, group_rate, group_per_ms,
  fair, groups, begun, last_ms, turn, keyless_turn
FROM {{S}}.claimq_limit WHERE lane_id=:lane

-- fragment: JOB_CAP
-- What the cap_id of a job is to be.  $1: claimq_job, or new.
ifnull((
      SELECT -h.head_id FROM claimq_head AS h
      WHERE h.group_id=(
          SELECT g.group_id FROM claimq_group AS g
          WHERE g.lane_id=$1.lane_id AND g.group_key=$1.group_key)
        AND h.partition_key=$1.partition_key AND h.cap_id={{JOB_SET $1}}),
      {{JOB_SET $1}})

-- fragment: JOB_SET
-- The set of capabilities that it requires.
iif($1.required_capabilities='[]', 0, ifnull((
        SELECT s.cap_id FROM claimq_capset AS s
        WHERE s.lane_id=$1.lane_id AND s.partition_key=$1.partition_key
          AND s.required=$1.required_capabilities), 0))

-- fragment: LIMIT_LANE_SLOTS
claimq_slot INDEXED BY claimq_slot_by_lane WHERE lane_id=l.lane_id

-- fragment: LIMIT_GROUP_SLOTS
claimq_slot INDEXED BY claimq_slot_by_group
            WHERE group_id=g.group_id AND group_id>0

-- fragment: LIMIT_OPENS
-- From when on the limits l of a LANE, or of a GROUP ($1), let one more claim
-- begin: $2 live leases at a time, $3 claims in $4 ms.  The starts are those of
-- group $5, 0 for the lane.  This asks for no clock: fewer than n leases are
-- live from the end of the n-th last of all leases on, whether it has passed or
-- not.  If there are more than n of them, e goes from the last end backwards,
-- and counts those that end later.  (A window function would do, too; but when
-- SQLite is interrupted while it prepares one, it says something else.  See
-- test/fault_prepare.test.)
CASE
  WHEN l.$2=0 OR l.$3=0 THEN 9223372036854775807
  ELSE max(iif(l.$2 IS NULL, -1, (
      SELECT CASE
        WHEN count(*)<l.$2 THEN -1
        WHEN count(*)=l.$2 THEN min(expires_at_ms)
        ELSE (
          WITH RECURSIVE e(at_ms, n) AS (
            SELECT max(expires_at_ms), 0 FROM {{LIMIT_$1_SLOTS}}
            UNION ALL
            SELECT (SELECT max(expires_at_ms) FROM {{LIMIT_$1_SLOTS}}
                      AND expires_at_ms<e.at_ms),
              e.n+(SELECT count(*) FROM {{LIMIT_$1_SLOTS}}
                     AND expires_at_ms=e.at_ms)
            FROM e WHERE e.n<l.$2)
          SELECT min(at_ms) FROM e WHERE n<l.$2)
        END
      FROM {{LIMIT_$1_SLOTS}})),
    ifnull((
      SELECT s.at_ms+min(l.$4, 9223372036854775807-s.at_ms)
      FROM claimq_start AS s
      WHERE s.lane_id=l.lane_id AND s.group_id=$5
        AND s.seq=1-l.$3+(
          SELECT max(t.seq) FROM claimq_start AS t
          WHERE t.lane_id=l.lane_id AND t.group_id=$5)), -1))
  END

-- fragment: LIMIT_LANE_LEASES
{{S}}.claimq_slot INDEXED BY claimq_slot_by_lane
WHERE lane_id=:lane AND expires_at_ms>:now

-- fragment: LIMIT_GROUP_LEASES
{{S}}.claimq_slot INDEXED BY claimq_slot_by_group
WHERE group_id=:group AND group_id>0 AND expires_at_ms>:now

-- name: LIMIT_LANE_LIVE
-- How many leases are live?
SELECT count(*) AS n FROM {{LIMIT_LANE_LEASES}}

-- name: LIMIT_GROUP_LIVE like LIMIT_LANE_LIVE
SELECT count(*) AS n FROM {{LIMIT_GROUP_LEASES}}

-- name: LIMIT_LANE_END like LIMIT_LANE_LIVE
-- When does the :nth of them end?
SELECT expires_at_ms AS n FROM {{LIMIT_LANE_LEASES}}
ORDER BY expires_at_ms LIMIT 1 OFFSET :nth-1

-- name: LIMIT_GROUP_END like LIMIT_LANE_LIVE
SELECT expires_at_ms AS n FROM {{LIMIT_GROUP_LEASES}}
ORDER BY expires_at_ms LIMIT 1 OFFSET :nth-1

-- name: LIMIT_LAST like LIMIT_LANE_LIVE
-- The number of the last claim that began.
SELECT max(seq) AS n FROM {{S}}.claimq_start
WHERE lane_id=:lane AND group_id=:group

-- name: LIMIT_START like LIMIT_LANE_LIVE
-- When did claim number :nth begin?
SELECT at_ms AS n FROM {{S}}.claimq_start
WHERE lane_id=:lane AND group_id=:group AND seq=:nth

-- name: LIMIT_OF_JOB
-- The lane and the group of a job.
SELECT lane_id, ifnull((
    SELECT g.group_id FROM {{S}}.claimq_group AS g
    WHERE g.lane_id=j.lane_id AND g.group_key=j.group_key), 0) AS group_id
FROM {{S}}.claimq_job AS j WHERE job_id=:job

--------------------------------------------------------------------------
-- Choosing jobs in a lane that keeps groups.

-- fragment: LIMIT_HEADS
lane_id=:lane AND partition_key=:partition AND cap_id=:set

-- fragment: LIMIT_HEAD
head_id, group_id, turn, priority, created_at_ms, job_id, (
  SELECT g.turn FROM {{S}}.claimq_group AS g
  WHERE g.group_id=claimq_head.group_id) AS group_turn

-- name: LIMIT_OPEN
-- The heads of a set that may be taken from, in order; and what they promise.
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE {{LIMIT_HEADS}} AND place=-1
ORDER BY turn, priority DESC, created_at_ms, job_id

-- name: LIMIT_LATE like LIMIT_OPEN
-- Those of which something has fallen due: the group opened, or a job waited.
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
WHERE {{LIMIT_HEADS}} AND place BETWEEN 0 AND :now
UNION ALL
SELECT {{LIMIT_HEAD}}
FROM {{S}}.claimq_head INDEXED BY claimq_head_by_due
WHERE {{LIMIT_HEADS}} AND due BETWEEN 0 AND :now

-- name: LIMIT_WHEN
-- When will something fall due?
SELECT min(at) AS at_ms FROM (
  SELECT min(place) AS at FROM {{S}}.claimq_head INDEXED BY claimq_head_by_place
  WHERE {{LIMIT_HEADS}} AND place>:now
  UNION ALL
  SELECT min(due) FROM {{S}}.claimq_head INDEXED BY claimq_head_by_due
  WHERE {{LIMIT_HEADS}} AND due>:now)

-- name: LIMIT_LOOK
-- Look again at the heads of a list, and at their groups.
INSERT INTO {{S}}.claimq_group_look
SELECT h.group_id FROM claimq_ids(:ids) AS l
  CROSS JOIN {{S}}.claimq_head AS h ON h.head_id=l.id

-- name: LIMIT_OPENED
-- Heads of the list whose group has opened stand among the open ones.
UPDATE {{S}}.claimq_head NOT INDEXED SET place=-1, due=(
    SELECT min(due) FROM {{S}}.claimq_job AS j INDEXED BY claimq_job_by_due
    WHERE j.lane_id=claimq_head.lane_id
      AND j.partition_key=claimq_head.partition_key
      AND j.cap_id=-claimq_head.head_id AND j.due>=0
      AND j.terminal_at_ms IS NULL)
WHERE head_id IN (SELECT id FROM claimq_ids(:ids))
  AND +place BETWEEN 0 AND :now AND job_id IS NOT NULL

--------------------------------------------------------------------------
-- Stamping them.

-- fragment: LIMIT_SLOT
slot=iif(l.claim_id IS NULL, NULL, ifnull(l.turn, 0))

-- fragment: LIMIT_SAME
-- Nobody has claimed in the lane since the limits were read.  (Where SQLite
-- isolates connections that is so; with read_uncommitted it does not.)
:begun=(SELECT n.begun FROM {{S}}.claimq_limit AS n WHERE n.lane_id=j.lane_id)

-- name: LIMIT_STAMP like LANE_STAMP
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}, {{LIMIT_SLOT}}
FROM claimq_ids(:ids) AS l WHERE {{LANE_TAKEABLE}} AND {{LIMIT_SAME}}

-- name: LIMIT_RECLAIM like LANE_RECLAIM
UPDATE {{S}}.claimq_job AS j SET {{LANE_GIVE}}, {{LANE_GIVE_UP}}, {{LIMIT_SLOT}}
FROM claimq_ids(:ids) AS l
WHERE {{LANE_TAKEABLE}} AND state='active' AND {{LIMIT_SAME}}

-- name: LIMIT_BACK
-- The clock has gone back.
INSERT INTO {{S}}.claimq_limit_back
SELECT lane_id, :now FROM {{S}}.claimq_limit
WHERE lane_id=:lane AND last_ms>:now

-- name: LIMIT_BACK_OF_JOB like LIMIT_BACK
INSERT INTO {{S}}.claimq_limit_back
SELECT lane_id, :now FROM {{S}}.claimq_limit
WHERE lane_id=(SELECT lane_id FROM {{S}}.claimq_job WHERE job_id=:job)
  AND last_ms>:now

--------------------------------------------------------------------------
-- claimq_limit()

-- name: LIMIT_SET
INSERT INTO {{S}}.claimq_limit(lane_id, max_active, rate, per_ms,
  group_max_active, group_rate, group_per_ms, fair)
VALUES(:lane, :max_active, :rate, :per_ms, :group_max_active, :group_rate,
  :group_per_ms, :fair)
ON CONFLICT(lane_id) DO UPDATE SET max_active=excluded.max_active,
  rate=excluded.rate, per_ms=excluded.per_ms,
  group_max_active=excluded.group_max_active, group_rate=excluded.group_rate,
  group_per_ms=excluded.group_per_ms, fair=excluded.fair

-- name: LIMIT_UNSET
DELETE FROM {{S}}.claimq_limit WHERE lane_id=:lane

--------------------------------------------------------------------------
-- claimq_vacuum()

-- name: LIMIT_OLD_HEADS like VACUUM_ROWS
-- Heads without a job that is, or can become, claimable.
SELECT head_id AS id, 0 AS at_ms FROM {{S}}.claimq_head AS h
WHERE CASE
  WHEN EXISTS (
    SELECT 1 FROM {{S}}.claimq_job INDEXED BY claimq_job_by_due
    WHERE lane_id=h.lane_id AND partition_key=h.partition_key
      AND cap_id=-h.head_id AND due IS NOT NULL AND terminal_at_ms IS NULL)
  THEN 0
  ELSE -h.head_id NOT IN ({{LANE_WAITING_SETS}}) END
ORDER BY head_id LIMIT :limit

-- name: LIMIT_OLD_HEADS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_head
WHERE head_id IN (SELECT id FROM claimq_ids(:ids) LIMIT :limit)

-- name: LIMIT_OLD_GROUPS like VACUUM_ROWS
-- Groups without a head: nobody asks when they had their last turn, nor, once
-- the window is over, when their last claims began.
SELECT group_id AS id,
  at_ms+min(ifnull(l.group_per_ms, 0), 9223372036854775807-at_ms) AS at_ms
FROM {{S}}.claimq_group AS g
  LEFT JOIN {{S}}.claimq_limit AS l ON l.lane_id=g.lane_id
WHERE NOT EXISTS (
  SELECT 1 FROM {{S}}.claimq_head AS h WHERE h.group_id=g.group_id)
ORDER BY 2, group_id LIMIT :limit

-- name: LIMIT_OLD_GROUPS_START like VACUUM_DELETE
DELETE FROM {{S}}.claimq_start
WHERE (lane_id, group_id, seq) IN (
  SELECT s.lane_id, s.group_id, s.seq FROM claimq_ids(:ids) AS l
    CROSS JOIN {{S}}.claimq_group AS g ON g.group_id=l.id
    CROSS JOIN {{S}}.claimq_start AS s
      ON s.lane_id=g.lane_id AND s.group_id=g.group_id
  LIMIT :limit)

-- name: LIMIT_OLD_GROUPS_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_group
WHERE group_id IN (
  SELECT l.id FROM claimq_ids(:ids) AS l
  WHERE NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_group AS g CROSS JOIN {{S}}.claimq_start AS s
      ON s.lane_id=g.lane_id AND s.group_id=g.group_id
    WHERE g.group_id=l.id)
  LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_check

-- name: LIMIT_CHECK like CHECK
SELECT 'claimq_limit' AS table_name, lane_id AS row_key, problem
FROM (SELECT lane_id, CASE
    {{CHECK_TEXT lane_id}} {{CHECK_INT_NULL max_active}} {{CHECK_INT_NULL rate}}
    {{CHECK_INT_NULL per_ms}} {{CHECK_INT_NULL group_max_active}}
    {{CHECK_INT_NULL group_rate}} {{CHECK_INT_NULL group_per_ms}}
    {{CHECK_BOOL fair}} {{CHECK_INT begun}} {{CHECK_INT last_ms}}
    {{CHECK_INT turn}}
    {{CHECK_INT keyless_turn}}
    WHEN max_active<0 THEN 'bad max_active'
    WHEN rate NOT BETWEEN 0 AND 10000 THEN 'bad rate'
    WHEN per_ms<1 OR (rate IS NULL)<>(per_ms IS NULL) THEN 'bad per_ms'
    WHEN group_max_active<0 THEN 'bad group_max_active'
    WHEN group_rate NOT BETWEEN 0 AND 10000 THEN 'bad group_rate'
    WHEN group_per_ms<1 OR (group_rate IS NULL)<>(group_per_ms IS NULL)
    THEN 'bad group_per_ms'
    WHEN last_ms<(
      SELECT max(s.at_ms) FROM {{S}}.claimq_start AS s
      WHERE s.lane_id=l.lane_id) THEN 'last_ms is before a start'
    WHEN keyless_turn>turn OR turn<(
      SELECT max(g.turn) FROM {{S}}.claimq_group AS g
      WHERE g.lane_id=l.lane_id) THEN 'turn is not the last turn taken'
    WHEN NOT claimq_sound(lane_id) {{CHECK_UNSOUND}}
    WHEN NOT (SELECT value FROM {{S}}.claimq_meta WHERE name='settings') & 64
    THEN 'claims do not look for limits: call claimq_limit()'
  END AS problem FROM {{S}}.claimq_limit AS l)
WHERE problem IS NOT NULL

-- name: LIMIT_CHECK_STARTS like CHECK
-- They are numbered one after the other, and none is before the one in front.
SELECT 'claimq_start' AS table_name,
  lane_id||'/'||group_id||'/'||seq AS row_key, problem
FROM (SELECT lane_id, group_id, seq, CASE
    WHEN NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_limit AS l WHERE l.lane_id=s.lane_id
        AND iif(s.group_id=0, l.rate, l.group_rate) IS NOT NULL)
    THEN 'no limit asks for it'
    WHEN seq-1>(
      SELECT max(t.seq) FROM {{S}}.claimq_start AS t
      WHERE t.lane_id=s.lane_id AND t.group_id=s.group_id AND t.seq<s.seq)
    THEN 'the start before it is missing'
    WHEN at_ms<(
      SELECT t.at_ms FROM {{S}}.claimq_start AS t
      WHERE t.lane_id=s.lane_id AND t.group_id=s.group_id AND t.seq=s.seq-1)
    THEN 'at_ms is before that of the one before'
    WHEN group_id<>0 AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_group AS g
      WHERE g.group_id=s.group_id AND g.lane_id=s.lane_id)
    THEN 'its group is not there'
  END AS problem FROM {{S}}.claimq_start AS s)
WHERE problem IS NOT NULL

-- name: LIMIT_CHECK_SLOTS like CHECK
SELECT 'claimq_slot' AS table_name, s.job_id AS row_key,
  CASE WHEN j.slot IS NULL THEN 'its job is not held'
       ELSE 'is not the lease of its job' END AS problem
FROM {{S}}.claimq_slot AS s LEFT JOIN {{S}}.claimq_job AS j
  ON j.job_id=s.job_id
WHERE j.slot IS NULL OR j.lane_id<>s.lane_id
  OR ifnull(j.expires_at_ms, 0)<>s.expires_at_ms
  OR j.source_key IS NOT s.source_key
  OR s.group_id<>ifnull((
    SELECT h.group_id FROM {{S}}.claimq_head AS h WHERE h.head_id=-j.cap_id), 0)

-- name: LIMIT_CHECK_JOBS like CHECK
SELECT 'claimq_job' AS table_name, job_id AS row_key, problem
FROM (SELECT job_id, CASE
    {{CHECK_TEXT_NULL group_key}} {{CHECK_INT_NULL slot}}
    WHEN slot IS NOT NULL AND claim_id IS NULL
      OR claim_id IS NOT NULL AND (slot IS NOT NULL)<>EXISTS (
        SELECT 1 FROM {{S}}.claimq_limit AS l WHERE l.lane_id=j.lane_id)
    THEN 'slot does not fit the limits of the lane'
    WHEN terminal_at_ms IS NULL AND cap_id>=0 AND group_key IS NOT NULL
      AND EXISTS (
        SELECT 1 FROM {{S}}.claimq_limit AS l
        WHERE l.lane_id=j.lane_id AND l.groups)
      OR terminal_at_ms IS NULL AND cap_id<0 AND NOT EXISTS (
        SELECT 1 FROM {{S}}.claimq_head AS h CROSS JOIN {{S}}.claimq_group AS g
          ON g.group_id=h.group_id
        WHERE h.head_id=-j.cap_id AND h.lane_id=j.lane_id
          AND h.partition_key=j.partition_key AND g.lane_id=j.lane_id
          AND g.group_key=j.group_key AND h.cap_id=ifnull((
            SELECT s.cap_id FROM {{S}}.claimq_capset AS s
            WHERE s.lane_id=j.lane_id AND s.partition_key=j.partition_key
              AND s.required=j.required_capabilities),
            iif({{LANE_REQUIRES_NOTHING}}, 0, NULL)))
    THEN 'cap_id is not of group_key'
    WHEN slot IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_slot AS s WHERE s.job_id=j.job_id)
    THEN 'has a slot that is not in claimq_slot'
    WHEN NOT claimq_sound(group_key) {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_job AS j NOT INDEXED)
WHERE problem IS NOT NULL

-- name: LIMIT_CHECK_GROUPS like CHECK
-- opens_at_ms 0: a claim looks first.
SELECT 'claimq_group' AS table_name, g.group_id AS row_key,
  CASE WHEN o.group_id IS NULL THEN 'its lane keeps no groups'
       ELSE 'opens_at_ms is not when it opens' END AS problem
FROM {{S}}.claimq_group AS g LEFT JOIN {{S}}.claimq_group_opens AS o
  ON o.group_id=g.group_id
WHERE o.opens_at_ms IS NOT g.opens_at_ms
  AND (g.opens_at_ms<>0 OR o.group_id IS NULL)

-- name: LIMIT_CHECK_HEADS like CHECK
-- place may be -1 although the group has opened only since.
SELECT 'claimq_head' AS table_name, head_id AS row_key, problem
FROM (SELECT h.head_id, CASE
    WHEN g.group_id IS NULL OR g.lane_id<>h.lane_id
    THEN 'its group is not there'
    WHEN h.job_id IS NOT (
      SELECT j.job_id FROM {{S}}.claimq_job AS j INDEXED BY claimq_job_by_due
      WHERE j.lane_id=h.lane_id AND j.partition_key=h.partition_key
        AND j.cap_id=-h.head_id AND j.due=-1 AND j.terminal_at_ms IS NULL
      ORDER BY j.priority DESC, j.created_at_ms, j.job_id LIMIT 1)
    THEN 'job_id is not its first job'
    WHEN h.place IS NULL AND (h.job_id IS NOT NULL OR w.due IS NOT NULL)
      OR h.place>iif(h.job_id IS NULL, max(w.due, g.opens_at_ms),
                     g.opens_at_ms)
      OR h.place=-1 AND (h.job_id IS NULL OR h.due IS NOT w.due)
    THEN 'place is not when it can be taken from'
    WHEN h.turn<>(l.fair<>0)*g.turn THEN 'turn is not that of its group'
    WHEN h.priority IS NOT f.priority OR h.created_at_ms IS NOT f.created_at_ms
    THEN 'priority and created_at_ms are not those of its first job'
  END AS problem
  FROM {{S}}.claimq_head AS h LEFT JOIN {{S}}.claimq_group AS g
    ON g.group_id=h.group_id
  LEFT JOIN {{S}}.claimq_limit AS l ON l.lane_id=g.lane_id
  LEFT JOIN {{S}}.claimq_job AS f ON f.job_id=h.job_id
  LEFT JOIN (
    SELECT j.cap_id, min(j.due) AS due FROM {{S}}.claimq_job AS j NOT INDEXED
    WHERE j.cap_id<0 AND j.due>=0 AND j.terminal_at_ms IS NULL
    GROUP BY j.cap_id) AS w
    ON w.cap_id=-h.head_id)
WHERE problem IS NOT NULL
