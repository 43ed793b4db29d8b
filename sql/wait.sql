-- wait.sql: the statements of ext/wait.c and ext/next_at.c.

-- name: WAIT_VERSION
-- Another number than before if another connection has committed anything.
PRAGMA main.data_version

-- name: WAIT_PULSE
-- A little more than 1,000 steps of SQLite's machine, and no row: so a progress
-- handler of up to 1,000 steps is called each time.  It reads no table and
-- makes none, not even one of its own: of the ways to make steps this takes
-- least time when nothing of it is in the processor's caches.
SELECT 1 FROM (VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) AS a
WHERE EXISTS(
  SELECT 1
  FROM (VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11)) AS b
  WHERE b.column1<-a.column1)

-- name: WAIT_BUSY_TIMEOUT
-- Not to be kept: the answer is found when it is prepared.
PRAGMA busy_timeout

-- name: WAIT_EVENT
SELECT 1 FROM main.claimq_event WHERE event_id>?1 LIMIT 1

-- fragment: NEXT_SESSION_FROM
main.claimq_batch INDEXED BY claimq_batch_by_session WHERE session_id=?1

-- name: NEXT_SESSION_HEAD
-- The first candidate of session ?1 at ?2: what must be known of it.  It is
-- the first of those that are ready, or of those that waited.
SELECT work_class, delivery_policy FROM (
  SELECT * FROM (
    SELECT enqueue_seq, work_class, delivery_policy
    FROM {{NEXT_SESSION_FROM}} AND due=-1 AND {{SESSION_NOW}}
    ORDER BY enqueue_seq LIMIT 1)
  UNION ALL
  SELECT * FROM (
    SELECT enqueue_seq, work_class, delivery_policy
    FROM {{NEXT_SESSION_FROM}} AND due BETWEEN 0 AND ?2 AND {{SESSION_NOW}}
    ORDER BY enqueue_seq LIMIT 1))
ORDER BY enqueue_seq LIMIT 1

-- name: NEXT_SESSION_LATER
-- Rows of session ?1 that stand where the ready ones stand and are not
-- claimable at ?2: when will the first be?  How many rows had to be read, of ?3
-- at most?  And the first of those that wait.
SELECT min(iif(t>?2, t, NULL)), count(*),
  (SELECT min(due) FROM {{NEXT_SESSION_FROM}} AND due>?2)
FROM (
  SELECT max(ifnull(available_at_ms, enqueued_at_ms),
             iif(claim_id IS NULL, 0, ifnull(expires_at_ms, 0))) AS t
  FROM {{NEXT_SESSION_FROM}} AND due<=?2 LIMIT ?3)

-- fragment: NEXT_LANE_FROM
-- The sets of lane ?1, partition ?2 that capabilities ?5 satisfy.
(SELECT 0 AS cap UNION ALL
 SELECT cap_id FROM main.claimq_capset
 WHERE lane_id=?1 AND partition_key=?2 AND claimq_capable(required, ?5))

-- fragment: NEXT_LANE_SET
main.claimq_job INDEXED BY claimq_job_by_due
WHERE lane_id=?1 AND partition_key=?2 AND cap_id=cap

-- name: NEXT_LANE_NOW
-- Is there a job to be had at ?4?
SELECT 1 FROM {{NEXT_LANE_FROM}} WHERE EXISTS(
  SELECT 1 FROM {{NEXT_LANE_SET}} AND due<=?4 AND {{LANE_NOW}}
    AND NOT ({{LANE_SPENT}}))

-- name: NEXT_LANE_LATER
-- As NEXT_SESSION_LATER, for each set: at most ?3 rows are read.
SELECT
  (SELECT min(t) FROM (
    SELECT max(ifnull(available_at_ms, created_at_ms),
               iif(state='active', ifnull(expires_at_ms, 0), 0)) AS t
    FROM {{NEXT_LANE_SET}} AND due<=?4 AND reclaim='auto' LIMIT ?3)
   WHERE t>?4),
  (SELECT count(*) FROM (SELECT 1 FROM {{NEXT_LANE_SET}} AND due<=?4
                         LIMIT ?3)),
  (SELECT min(due) FROM {{NEXT_LANE_SET}} AND due>?4)
FROM {{NEXT_LANE_FROM}}
