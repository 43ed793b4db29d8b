-- vacuum.sql: the statements of ext/vacuum.c.

-- name: VACUUM_PARTITION
-- A partition with processed messages that can go, and the first that is there.
SELECT partition_id, queue_name, partition, vacuumed_seq, processed_seq, (
  SELECT m.seq FROM main.claimq_message AS m INDEXED BY claimq_message_by_seq
  WHERE m.queue_name=p.queue_name AND m.partition=p.partition
    AND m.seq>p.vacuumed_seq
  ORDER BY m.seq LIMIT 1)
FROM main.claimq_partition AS p INDEXED BY claimq_partition_by_done
WHERE processed_seq>vacuumed_seq LIMIT 1

-- name: VACUUM_MESSAGES
DELETE FROM main.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue_name=?1 AND partition=?2 AND seq>?3 AND seq<=?4

-- name: VACUUM_CURSOR
UPDATE main.claimq_partition SET vacuumed_seq=?2 WHERE partition_id=?1

-- name: VACUUM_LETTERS
-- At most ?1 letters that are resolved or discarded.
SELECT letter_id, 0
FROM main.claimq_letter INDEXED BY claimq_letter_done
WHERE status IN ('resolved','discarded') LIMIT ?1

-- name: VACUUM_LETTERS_DELETE
DELETE FROM main.claimq_letter
WHERE letter_id IN (SELECT id FROM claimq_ids(?1) LIMIT ?2)

-- name: VACUUM_GRANTS
SELECT grant_id, expires_at_ms
FROM main.claimq_grant INDEXED BY claimq_grant_by_expiry
ORDER BY expires_at_ms LIMIT ?1

-- name: VACUUM_GRANTS_DELETE
DELETE FROM main.claimq_grant
WHERE grant_id IN (SELECT id FROM claimq_ids(?1) LIMIT ?2)

-- name: VACUUM_JOBS
-- Uses the index that VACUUM_MAKE_BY_END makes when it was first missed.
SELECT job_id, terminal_at_ms
FROM main.claimq_job
WHERE terminal_at_ms IS NOT NULL
  AND state IN ('completed','failed','cancelled')
ORDER BY terminal_at_ms LIMIT ?1

-- name: VACUUM_MAKE_BY_END
CREATE INDEX IF NOT EXISTS main.claimq_job_by_end ON claimq_job(terminal_at_ms)
WHERE terminal_at_ms IS NOT NULL

-- name: VACUUM_PAST_DELETE
-- Attempts of jobs that go.
DELETE FROM main.claimq_past
WHERE (job_id, attempt_index) IN (
  SELECT job_id, attempt_index FROM main.claimq_past
  WHERE job_id IN (SELECT id FROM claimq_ids(?1)) LIMIT ?2)

-- name: VACUUM_ATTEMPTS_DELETE
-- The same for those that the job itself tells.
UPDATE main.claimq_job SET settled_owner_id=NULL
WHERE settled_owner_id IS NOT NULL AND job_id IN (
  SELECT l.id FROM claimq_ids(?1) AS l
  WHERE (SELECT settled_owner_id FROM main.claimq_job AS j
         WHERE j.job_id=l.id) IS NOT NULL
  LIMIT ?2)

-- name: VACUUM_JOBS_DELETE
-- A job goes after its last attempt.
DELETE FROM main.claimq_job
WHERE settled_owner_id IS NULL AND job_id IN (
  SELECT l.id FROM claimq_ids(?1) AS l
  WHERE NOT EXISTS (
    SELECT 1 FROM main.claimq_past AS a WHERE a.job_id=l.id)
  LIMIT ?2)

-- name: VACUUM_EVENTS
-- In the order of their ids, which readers go by: an event goes when all
-- before it have gone.
SELECT event_id, occurred_at_ms FROM main.claimq_event
ORDER BY event_id LIMIT ?1

-- name: VACUUM_EVENTS_DELETE
DELETE FROM main.claimq_event
WHERE event_id IN (SELECT id FROM claimq_ids(?1) LIMIT ?2)
