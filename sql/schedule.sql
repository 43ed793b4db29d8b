-- schedule.sql: the statements of ext/lane/schedule.c.

-- fragment: SCHEDULE_NEXT
-- When a schedule is due next.
CASE WHEN enabled AND claimq_cron_next(spec, {{SCHEDULE_AFTER}},
    ifnull(timezone, offset_minutes))<=ifnull(until_at_ms, 9223372036854775807)
  THEN claimq_cron_next(spec, {{SCHEDULE_AFTER}},
    ifnull(timezone, offset_minutes)) END

-- fragment: SCHEDULE_AFTER
-- A time that has come does not come again, whatever the spec is now.
max(created_at_ms, ifnull(last_at_ms, created_at_ms))

-- fragment: SCHEDULE_FAULT
-- Why its clocks cannot be read here; NULL if they can, or it has none.  Until
-- they can, nobody looks at its times.
iif(timezone IS NULL, NULL, claimq__zone_fault(timezone,
  (SELECT value & 4 FROM {{S}}.claimq_meta WHERE name='settings')))

--------------------------------------------------------------------------
-- claimq_schedule(), claimq_unschedule().

-- name: SCHEDULE_OLD
-- What there is under a name, as far as it matters to what replaces it.
SELECT spec, offset_minutes, timezone, next_at_ms, created_at_ms,
  iif(enabled, last_at_ms, NULL) AS last_at_ms
FROM {{S}}.claimq_schedule WHERE name=:name

-- name: SCHEDULE_SET
INSERT OR REPLACE INTO {{S}}.claimq_schedule(name, spec, lane, next_at_ms,
  last_at_ms, created_at_ms, offset_minutes, timezone, catch_up, until_at_ms,
  enabled, options, payload)
VALUES({{WROTE :name}}, :spec, :lane, :next, :last, :created, :offset,
  :timezone, :catch_up, :until_at, :enabled, :options, :payload)

-- name: SCHEDULE_DELETE
DELETE FROM {{S}}.claimq_schedule WHERE name=:name AND {{WROTE 1}}

--------------------------------------------------------------------------
-- The claims of a lane.

-- fragment: SCHEDULE_DUE
{{S}}.claimq_schedule INDEXED BY claimq_schedule_by_lane
WHERE lane=:lane AND next_at_ms<=:now AND {{SCHEDULE_FAULT}} IS NULL

-- name: SCHEDULE_ANY
-- Is anything due?
SELECT 1 AS one FROM {{SCHEDULE_DUE}} LIMIT 1

-- name: SCHEDULE_FIRST
-- What is due, the earliest first.
SELECT name, spec, next_at_ms, offset_minutes, timezone, catch_up, until_at_ms,
  options, payload, {{SCHEDULE_AFTER}} AS since_ms
FROM {{SCHEDULE_DUE}} ORDER BY next_at_ms LIMIT 1

-- name: SCHEDULE_CAME
-- The times up to :last have come.
UPDATE {{S}}.claimq_schedule SET last_at_ms=:last, next_at_ms=:coming
WHERE name=:name AND next_at_ms=:next

-- name: SCHEDULE_COMING
-- When is the next of a lane due?
SELECT min(next_at_ms) AS at_ms
FROM {{S}}.claimq_schedule INDEXED BY claimq_schedule_by_lane
WHERE lane=:lane AND next_at_ms IS NOT NULL AND {{SCHEDULE_FAULT}} IS NULL

--------------------------------------------------------------------------
-- Seeing.

-- fragment: SCHEDULE_STATS
-- For the statistics of lanes.
SELECT lane AS scope, {{LANE_PARTITION_IN options}}, 0 AS dead, next_at_ms
FROM {{S}}.claimq_schedule NOT INDEXED
WHERE next_at_ms IS NOT NULL AND {{SCHEDULE_FAULT}} IS NULL

-- name: SCHEDULE_WHY
SELECT 'schedule:'||name||':'||next_at_ms AS source_key, next_at_ms,
  {{SCHEDULE_FAULT}} AS fault
FROM {{S}}.claimq_schedule INDEXED BY claimq_schedule_by_lane
WHERE lane=:lane AND next_at_ms IS NOT NULL ORDER BY next_at_ms

-- name: SCHEDULE_CHECK like CHECK
SELECT 'claimq_schedule' AS table_name, name AS row_key, problem
FROM (SELECT name, CASE
    {{CHECK_TEXT name}} {{CHECK_TEXT spec}} {{CHECK_TEXT lane}}
    {{CHECK_INT_NULL next_at_ms}} {{CHECK_INT_NULL last_at_ms}}
    {{CHECK_INT created_at_ms}} {{CHECK_INT_NULL until_at_ms}}
    WHEN typeof(offset_minutes)<>'integer'
      OR offset_minutes NOT BETWEEN -1439 AND 1439 THEN 'bad offset_minutes'
    WHEN ifnull(catch_up,'') NOT IN ('one','all','none') THEN 'bad catch_up'
    {{CHECK_BOOL enabled}} {{CHECK_TEXT options}} {{CHECK_TEXT_NULL timezone}}
    WHEN NOT claimq__sound(name, spec, lane, options, timezone)
    {{CHECK_UNSOUND}}
    WHEN NOT claimq__schedule_sound(spec, '{}') THEN 'bad spec'
    WHEN NOT claimq__schedule_sound(spec, options) THEN 'bad options'
    WHEN timezone IS NOT NULL AND offset_minutes<>0
    THEN 'both timezone and offset_minutes'
    WHEN {{SCHEDULE_FAULT}} IS NOT NULL THEN {{SCHEDULE_FAULT}}
    WHEN next_at_ms IS NOT {{SCHEDULE_NEXT}}
    THEN 'next_at_ms is not the next time of the schedule'
    WHEN NOT (SELECT value FROM {{S}}.claimq_meta WHERE name='settings') & 16
    THEN 'claims do not look for schedules: call claimq_schedule()'
  END AS problem FROM {{S}}.claimq_schedule NOT INDEXED)
WHERE problem IS NOT NULL
