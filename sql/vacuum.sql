-- vacuum.sql: what is forgotten, by claimq_vacuum() and by ordinary calls.
--
-- Each discipline has, for each kind of row that goes by its key and its time
-- alone, a statement that finds at most :limit of them, the oldest first, with
-- the time from which on they are not needed; and one that deletes at most
-- :limit rows of a list.
--
-- shape: VACUUM_ROWS (limit) id at_ms
-- shape: VACUUM_DELETE (ids limit)

--------------------------------------------------------------------------
-- Jobs and events, whose lanes say how long they are kept, are looked at one
-- after the other, in the order of their keys.  How far that got is kept in
-- claimq_meta, so that nothing is looked at twice before all else was.

-- name: KEEP_CURSORS
SELECT (SELECT value FROM {{S}}.claimq_meta WHERE name='kept_job') AS job,
  (SELECT value FROM {{S}}.claimq_meta WHERE name='kept_event') AS event,
  (SELECT value FROM {{S}}.claimq_meta WHERE name='kept_group') AS grp,
  (SELECT value FROM {{S}}.claimq_meta WHERE name='kept_least') AS least,
  (SELECT created_at_ms FROM {{S}}.claimq_job WHERE job_id>0
   ORDER BY job_id LIMIT 1) AS job_ms,
  (SELECT occurred_at_ms FROM {{S}}.claimq_event WHERE event_id>0
   ORDER BY event_id LIMIT 1) AS event_ms

-- name: KEEP_CURSOR_SET
INSERT INTO {{S}}.claimq_meta(name, value) VALUES(:name, :value)
ON CONFLICT(name) DO UPDATE SET value=excluded.value

-- name: KEEP_LEAST
-- A policy keeps something for no longer than :value.
INSERT INTO {{S}}.claimq_meta(name, value) VALUES('kept_least', :value)
ON CONFLICT(name) DO UPDATE SET value=min(value, excluded.value)

-- name: KEEP_DEFAULT
SELECT keep_ms FROM {{S}}.claimq_policy WHERE lane IS NULL

-- fragment: KEEP_SAYS
-- What the policy of the lane of $1 says of $2.
ifnull((SELECT o.$2 FROM {{S}}.claimq_policy AS o WHERE o.lane=$1.lane),
       (SELECT d.$2 FROM {{S}}.claimq_policy AS d WHERE d.lane IS NULL))

-- name: KEEP_LAST_EVENT
SELECT ifnull(max(event_id), 0) AS event_id FROM {{S}}.claimq_event

-- name: KEEP_NO_EVENTS
-- Events after :event of lanes that want none, or not of jobs that are done.
DELETE FROM {{S}}.claimq_event WHERE event_id>:event AND (
  {{KEEP_SAYS claimq_event events}}=0
  OR outcome='success' AND {{KEEP_SAYS claimq_event keep_ms}}=0)

-- name: KEEP_JOBS
-- more: it has, or may have, rows of other tables.  One that its first holder
-- has completed has no other attempts.
SELECT job_id AS id, created_at_ms AS since_ms, terminal_at_ms AS end_ms,
  state='failed' AS failed, lane, unique_until_ms,
  CASE WHEN terminal_at_ms IS NULL THEN 0
       WHEN on_failure IS NOT NULL THEN 1
       WHEN attempt_index=0 AND settled_by='complete' THEN 0
       ELSE EXISTS (SELECT 1 FROM {{S}}.claimq_past AS a
                    WHERE a.job_id=j.job_id) END AS more
FROM {{S}}.claimq_job AS j WHERE job_id>:from ORDER BY job_id LIMIT :limit

-- name: KEEP_JOBS_DELETE
DELETE FROM {{S}}.claimq_job WHERE job_id BETWEEN :first AND :last

-- fragment: KEEP_OF
-- Rows of a table that are about jobs of a list, at most :limit; the column
-- tells those of one job apart.
{{S}}.$1
WHERE (job_id, $2) IN (
  SELECT t.job_id, t.$2 FROM claimq__ids(:ids) AS l
    CROSS JOIN {{S}}.$1 AS t ON t.job_id=l.id
  LIMIT :limit)

-- name: KEEP_PAST like VACUUM_DELETE
-- Attempts of jobs that go.
DELETE FROM {{KEEP_OF claimq_past attempt_index}}

-- name: KEEP_AFTER like VACUUM_DELETE
-- What they waited for.
DELETE FROM {{KEEP_OF claimq_after after_id}}

-- name: KEEP_REST like VACUUM_DELETE
-- The jobs themselves, those of which nothing else is left.
DELETE FROM {{S}}.claimq_job
WHERE job_id IN (
  SELECT l.id FROM claimq__ids(:ids) AS l
  WHERE NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_past AS a WHERE a.job_id=l.id)
    AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_after AS a WHERE a.job_id=l.id)
  LIMIT :limit)

-- name: KEEP_AWAITED
-- Is any job waited for?
SELECT 1 AS one FROM {{S}}.claimq_after LIMIT 1

-- name: KEEP_STRAY
-- Jobs that others wait for, and that are not there, or are others than these
-- waited for: somebody has removed them so that claimq did not hear of it
-- (INSERT OR REPLACE).
SELECT a.after_id AS id
FROM {{S}}.claimq_after AS a INDEXED BY claimq_after_by_after
  CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=a.job_id AND j.waits_for=a.after_id
  AND NOT EXISTS (
    SELECT 1 FROM {{S}}.claimq_job AS w
    WHERE w.job_id=a.after_id AND w.awaited IS NOT NULL)
ORDER BY a.after_id LIMIT :limit

-- name: KEEP_LETTER
-- Has the job a dead letter that is open?
SELECT 1 AS one FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_ref
WHERE ref=:job AND due IS NOT NULL AND source='lane' LIMIT 1

-- name: KEEP_GROUP_ANY
SELECT 1 AS one FROM {{S}}.claimq_group LIMIT 1

-- name: KEEP_GROUPS
-- Groups in the order of their numbers.  used is NULL of one that was in use
-- after :old, or that has no time and is in use, as far as its heads tell.  Of
-- any other it tells whether its time begins now: it has none, or has a job, or
-- a lease or a start that counts.  (The + is that of LIMIT_SEEN.)
SELECT group_id AS id, CASE
  WHEN at_ms>:old THEN NULL
  WHEN at_ms=0 THEN iif(EXISTS (SELECT 1 FROM {{S}}.claimq_head AS h
    WHERE h.group_id=g.group_id AND h.place IS NOT NULL), NULL, 1)
  ELSE EXISTS (SELECT 1 FROM {{S}}.claimq_policy AS l
      WHERE l.lane=g.lane AND l.group_per_ms>:now-g.at_ms)
    OR EXISTS (SELECT 1 FROM {{S}}.claimq_slot AS s
      WHERE s.lane=g.lane AND s.group_id=g.group_id)
    OR EXISTS (SELECT 1 FROM {{S}}.claimq_head AS h
      WHERE h.group_id=g.group_id AND EXISTS (
        SELECT 1 FROM {{LANE_INDEX}}
        WHERE lane=h.lane AND partition=h.partition
          AND {{JOB_BUCKET}}=+h.head_id AND {{LANE_THERE}})) END AS used
FROM {{S}}.claimq_group AS g WHERE group_id>:from
ORDER BY group_id LIMIT :limit

-- name: KEEP_GROUPS_USED
-- The time of the groups of a list begins at :now.
UPDATE {{S}}.claimq_group SET at_ms=max(at_ms, :now)
WHERE group_id IN (SELECT id FROM claimq__ids(:ids))

-- name: KEEP_GROUPS_HEADS like VACUUM_DELETE
DELETE FROM {{S}}.claimq_head
WHERE (group_id, partition, capabilities) IN (
  SELECT h.group_id, h.partition, h.capabilities FROM claimq__ids(:ids) AS l
    CROSS JOIN {{S}}.claimq_head AS h ON h.group_id=l.id
  LIMIT :limit)

-- name: KEEP_EVENTS like KEEP_JOBS
-- The newest one stays: no id is given twice.
SELECT event_id AS id, occurred_at_ms AS since_ms, occurred_at_ms AS end_ms,
  outcome='failed' AS failed, lane
FROM {{S}}.claimq_event
WHERE event_id>:from AND event_id<(
  SELECT max(n.event_id) FROM {{S}}.claimq_event AS n)
ORDER BY event_id LIMIT :limit

-- name: KEEP_EVENTS_DELETE like KEEP_JOBS_DELETE
DELETE FROM {{S}}.claimq_event WHERE event_id BETWEEN :first AND :last
