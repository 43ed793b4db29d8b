-- schedule.sql: schedules, and the statements of ext/lane_schedule.c.

-- schema:
-- A schedule puts a job into a lane at each of its times.  Nobody watches the
-- clock: the claims of the lane look whether next_at_ms has come, and put what
-- is due, in their own transaction.
--
-- next_at_ms follows from the other columns: it is the first time of spec, with
-- offset_minutes, after last_at_ms; or, if none of its times has come yet,
-- after created_at_ms.  A claim writes last_at_ms, claimq_schedule() all of the
-- rest, and so may plain SQL: the triggers see to next_at_ms.
CREATE TABLE {{S}}.claimq_schedule(
  name           TEXT NOT NULL PRIMARY KEY,
  spec           TEXT NOT NULL,         -- as for claimq_cron_next()
  lane_id        TEXT NOT NULL,
  next_at_ms     INTEGER,               -- NULL: never; by trigger
  last_at_ms     INTEGER,               -- the last time that came
  created_at_ms  INTEGER,               -- it begins after this; NULL: now
  offset_minutes INTEGER NOT NULL DEFAULT 0
                 CONSTRAINT "claimq: bad_argument: offset_minutes must be within -1439..1439"
                 CHECK(offset_minutes BETWEEN -1439 AND 1439),
  catch_up       TEXT NOT NULL DEFAULT 'one'
                 CONSTRAINT
                   "claimq: bad_argument: catch_up must be one, all or none"
                 CHECK(catch_up='one' OR catch_up='all' OR catch_up='none'),
  until_at_ms    INTEGER,               -- no job after this; NULL: for ever
  enabled        INTEGER NOT NULL DEFAULT 1
                 CONSTRAINT "claimq: bad_argument: enabled must be 0 or 1"
                 CHECK(enabled BETWEEN 0 AND 1),
  options        TEXT NOT NULL DEFAULT '{}',     -- of claimq_submit(), as JSON
  payload        ANY
) STRICT;

CREATE INDEX {{S}}.claimq_schedule_by_lane
  ON claimq_schedule(lane_id, next_at_ms) WHERE next_at_ms IS NOT NULL;

CREATE TRIGGER {{S}}.claimq_schedule_insert AFTER INSERT ON claimq_schedule
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: claims of this database do not look for schedules yet: make the first one with claimq_schedule()')
  WHERE NOT (SELECT value FROM claimq_meta WHERE name='settings') & 16;
  SELECT RAISE(ABORT, 'claimq: clock_required: this database takes the time from its callers: give created_at_ms')
  WHERE new.created_at_ms IS NULL
    AND (SELECT value FROM claimq_meta WHERE name='settings') & 4;
  UPDATE claimq_schedule SET created_at_ms=(SELECT at_ms FROM claimq_now)
  WHERE name=new.name AND created_at_ms IS NULL;
  UPDATE claimq_schedule SET next_at_ms={{SCHEDULE_NEXT}}
  WHERE name=new.name AND next_at_ms IS NULL;
  INSERT INTO claimq_schedule_look VALUES(new.name);
END;

-- What must hold of a schedule, whoever wrote it: INSERT INTO this view.
CREATE VIEW {{S}}.claimq_schedule_look(name) AS SELECT NULL;

CREATE TRIGGER {{S}}.claimq_schedule_look_insert INSTEAD OF INSERT
ON claimq_schedule_look
BEGIN
  SELECT RAISE(ABORT, 'claimq: bad_argument: next_at_ms follows from the other columns: leave it out')
  FROM claimq_schedule
  WHERE name=new.name AND next_at_ms IS NOT {{SCHEDULE_NEXT}};
  SELECT RAISE(ABORT, 'claimq: bad_argument: options must be a JSON object of options that claimq_submit() and claimq_schedule() both have')
  FROM claimq_schedule
  WHERE name=new.name AND NOT claimq_schedule_sound(spec, options);
END;

-- A plain UPDATE.  A schedule with another spec or offset, and one that had
-- ended or was not enabled, begins after now.
CREATE TRIGGER {{S}}.claimq_schedule_begin
AFTER UPDATE OF spec, offset_minutes, enabled, until_at_ms ON claimq_schedule
WHEN new.spec IS NOT old.spec OR new.offset_minutes IS NOT old.offset_minutes
  OR old.next_at_ms IS NULL
BEGIN
  SELECT RAISE(ABORT, 'claimq: clock_required: this database takes the time from its callers: set created_at_ms')
  WHERE new.created_at_ms IS old.created_at_ms
    AND (SELECT value FROM claimq_meta WHERE name='settings') & 4;
  UPDATE claimq_schedule SET last_at_ms=NULL,
    created_at_ms=iif(new.created_at_ms IS old.created_at_ms,
      (SELECT at_ms FROM claimq_now), new.created_at_ms)
  WHERE name=new.name;
END;

-- What next_at_ms follows from has changed, or somebody wrote next_at_ms: then
-- it must be right.
CREATE TRIGGER {{S}}.claimq_schedule_next
AFTER UPDATE OF name, spec, offset_minutes, enabled, until_at_ms, created_at_ms,
  last_at_ms, options, next_at_ms ON claimq_schedule
WHEN old.created_at_ms IS NOT NULL      -- not by the trigger of an INSERT
BEGIN
  SELECT RAISE(ABORT,
    'claimq: bad_argument: created_at_ms may not be NULL')
  WHERE new.created_at_ms IS NULL;
  UPDATE claimq_schedule SET next_at_ms={{SCHEDULE_NEXT}}
  WHERE name=new.name AND new.next_at_ms IS old.next_at_ms
    AND next_at_ms IS NOT {{SCHEDULE_NEXT}};
  INSERT INTO claimq_schedule_look VALUES(new.name);
END;

-- fragment: SCHEDULE_NEXT
-- When a schedule is due next.
CASE WHEN enabled AND claimq_cron_next(spec,
    ifnull(last_at_ms, created_at_ms), offset_minutes)
    <=ifnull(until_at_ms, 9223372036854775807)
  THEN claimq_cron_next(spec, ifnull(last_at_ms, created_at_ms),
    offset_minutes) END

--------------------------------------------------------------------------
-- claimq_schedule(), claimq_unschedule().

-- name: SCHEDULE_OLD
-- What there is under a name, as far as it matters to what replaces it.
SELECT spec, offset_minutes, next_at_ms, created_at_ms, last_at_ms
FROM {{S}}.claimq_schedule WHERE name=:name

-- name: SCHEDULE_SET
-- The trigger adds next_at_ms.
INSERT OR REPLACE INTO {{S}}.claimq_schedule(name, spec, lane_id, last_at_ms,
  created_at_ms, offset_minutes, catch_up, until_at_ms, enabled, options,
  payload)
VALUES(:name, :spec, :lane, :last, :created, :offset, :catch_up, :until_at,
  :enabled, :options, :payload)

-- name: SCHEDULE_DELETE
DELETE FROM {{S}}.claimq_schedule WHERE name=:name

--------------------------------------------------------------------------
-- The claims of a lane.

-- fragment: SCHEDULE_DUE
{{S}}.claimq_schedule INDEXED BY claimq_schedule_by_lane
WHERE lane_id=:lane AND next_at_ms<=:now

-- name: SCHEDULE_ANY
-- Is anything due?
SELECT 1 AS one FROM {{SCHEDULE_DUE}} LIMIT 1

-- name: SCHEDULE_FIRST
-- What is due, the earliest first.
SELECT name, spec, next_at_ms, offset_minutes, catch_up, until_at_ms, options,
  payload
FROM {{SCHEDULE_DUE}} ORDER BY next_at_ms LIMIT 1

-- name: SCHEDULE_CAME
-- The times up to :last have come.
UPDATE {{S}}.claimq_schedule SET last_at_ms=:last
WHERE name=:name AND next_at_ms=:next

-- name: SCHEDULE_COMING
-- When is the next of a lane due?
SELECT min(next_at_ms) AS at_ms
FROM {{S}}.claimq_schedule INDEXED BY claimq_schedule_by_lane
WHERE lane_id=:lane AND next_at_ms IS NOT NULL

--------------------------------------------------------------------------
-- Seeing.

-- fragment: SCHEDULE_STATS
-- For the statistics of lanes.
SELECT lane_id AS scope, {{STATS_COMING}} AS w, 0 AS n, 0 AS d, NULL AS since,
  next_at_ms AS at
FROM {{S}}.claimq_schedule NOT INDEXED WHERE next_at_ms IS NOT NULL

-- name: SCHEDULE_WHY
SELECT 'schedule:'||name||':'||next_at_ms AS source_key, next_at_ms
FROM {{S}}.claimq_schedule INDEXED BY claimq_schedule_by_lane
WHERE lane_id=:lane AND next_at_ms IS NOT NULL ORDER BY next_at_ms

-- name: SCHEDULE_CHECK like CHECK
SELECT 'claimq_schedule' AS table_name, name AS row_key, problem
FROM (SELECT name, CASE
    {{CHECK_TEXT name}} {{CHECK_TEXT spec}} {{CHECK_TEXT lane_id}}
    {{CHECK_INT_NULL next_at_ms}} {{CHECK_INT_NULL last_at_ms}}
    {{CHECK_INT created_at_ms}} {{CHECK_INT_NULL until_at_ms}}
    WHEN typeof(offset_minutes)<>'integer'
      OR offset_minutes NOT BETWEEN -1439 AND 1439 THEN 'bad offset_minutes'
    WHEN ifnull(catch_up,'') NOT IN ('one','all','none') THEN 'bad catch_up'
    {{CHECK_BOOL enabled}} {{CHECK_TEXT options}}
    WHEN NOT claimq_sound(name, spec, lane_id, options) {{CHECK_UNSOUND}}
    WHEN NOT claimq_schedule_sound(spec, '{}') THEN 'bad spec'
    WHEN NOT claimq_schedule_sound(spec, options) THEN 'bad options'
    WHEN next_at_ms IS NOT {{SCHEDULE_NEXT}}
    THEN 'next_at_ms is not the next time of the schedule'
    WHEN NOT (SELECT value FROM {{S}}.claimq_meta WHERE name='settings') & 16
    THEN 'claims do not look for schedules: call claimq_schedule()'
  END AS problem FROM {{S}}.claimq_schedule NOT INDEXED)
WHERE problem IS NOT NULL
