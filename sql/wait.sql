-- wait.sql: the statements of ext/engine/wait.c.  Those whose names begin with
-- TXN_ need none of claimq's tables.

-- name: TXN_WAIT_VERSION
-- Another number than before if another connection has committed anything.
PRAGMA {{S}}.data_version

-- name: TXN_WAIT_PULSE
-- A little more than 1,000 steps of SQLite's machine, and no row: so a progress
-- handler of up to 1,000 steps is called each time.  It reads no table and
-- makes none, not even one of its own: of the ways to make steps this takes
-- least time when nothing of it is in the processor's caches.
SELECT 1 AS one FROM (VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) AS a
WHERE EXISTS(
  SELECT 1
  FROM (VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11)) AS b
  WHERE b.column1<-a.column1)

-- name: WAIT_EVENT
SELECT 1 AS one FROM {{S}}.claimq_event WHERE event_id>:event LIMIT 1

-- name: WAIT_JOB
-- Has the job ended, or is it gone?  NULL: there never was one.
SELECT ifnull(
  (SELECT terminal_at_ms IS NOT NULL FROM {{S}}.claimq_job WHERE job_id=:job),
  (SELECT iif(:job BETWEEN 1 AND seq, 1, NULL) FROM {{S}}.sqlite_sequence
   WHERE name='claimq_job')) AS ended

-- name: WAIT_STRICT
-- When does the claim of a job end by itself?  No row: not before another
-- claim takes the job, because its lane is not strict.
SELECT max(0, ifnull(j.expires_at_ms, 0)) AS expires_at_ms
FROM {{S}}.claimq_job AS j
  LEFT JOIN {{S}}.claimq_policy AS o ON o.lane=j.lane
  LEFT JOIN {{S}}.claimq_policy AS d ON d.lane IS NULL
WHERE j.job_id=:head AND j.claim_id=:claim AND ifnull(o.strict, d.strict)=1

-- Each discipline may have a statement that says when something can be taken
-- later.  n: how many rows among the ready ones were looked at, at most :limit;
-- at_ms: when the first of those is free; due: when the first of those that
-- wait falls due.
--
-- columns: LATER n at_ms due
