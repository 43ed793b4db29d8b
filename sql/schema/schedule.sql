-- schedule.sql: the table of schedules.
--
-- feature: schedules

-- A schedule puts a job into a lane at each of its times.  Nobody watches the
-- clock: the claims of the lane look whether next_at_ms has come, and put what
-- is due, in their own transaction.
--
-- next_at_ms follows from the other columns: it is the first time of spec, with
-- offset_minutes or timezone, after created_at_ms and after last_at_ms.  A
-- claim writes these two, claimq_schedule() all of the rest; nobody else does.
CREATE TABLE {{S}}.claimq_schedule(
  name           TEXT NOT NULL PRIMARY KEY,
  spec           TEXT NOT NULL,         -- as for claimq_cron_next()
  lane           TEXT NOT NULL,
  next_at_ms     INTEGER,               -- NULL: never
  last_at_ms     INTEGER,               -- the last time that came; NULL: none
  created_at_ms  INTEGER NOT NULL,      -- it begins after this
  offset_minutes INTEGER NOT NULL DEFAULT 0
                 CONSTRAINT "claimq: bad_argument: offset_minutes must be within -1439..1439"
                 CHECK(offset_minutes BETWEEN -1439 AND 1439),
  timezone       TEXT                   -- whose clocks it goes by; NULL: none
                 CONSTRAINT "claimq: bad_argument: give timezone or offset_minutes, not both"
                 CHECK(timezone IS NULL OR offset_minutes=0),
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
  ON claimq_schedule(lane, next_at_ms) WHERE next_at_ms IS NOT NULL;

CREATE TRIGGER {{S}}.claimq_schedule_insert AFTER INSERT ON claimq_schedule
WHEN "claimq: load the extension and use claimq_schedule()"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: a schedule is made by claimq_schedule()'); END;

CREATE TRIGGER {{S}}.claimq_schedule_guard AFTER UPDATE ON claimq_schedule
WHEN "claimq: load the extension and use claimq_schedule()"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: a schedule is changed by claimq_schedule()'); END;
