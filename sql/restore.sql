-- restore.sql: the statements of ext/engine/restore.c.  Each makes counters
-- jump by :jump, which is more than can have been used up since any backup.

-- fragment: RESTORE_OWN
-- claimq's tables that have AUTOINCREMENT.
VALUES('claimq_batch'), ('claimq_grant'), ('claimq_job'),
  ('claimq_letter'), ('claimq_partition')

-- name: RESTORE_KEYS
-- Keys that AUTOINCREMENT gives, of tables that have given some ...
UPDATE {{S}}.sqlite_sequence SET seq=min(seq, 9223372036854775807-:jump)+:jump
WHERE name IN ({{RESTORE_OWN}})

-- name: RESTORE_NEW_KEYS like RESTORE_KEYS
-- ... and of those that have given none yet, or are not there: when a feature
-- comes, its table begins behind the jump.
WITH t(name) AS ({{RESTORE_OWN}})
INSERT INTO {{S}}.sqlite_sequence(name, seq)
SELECT name, :jump FROM t
WHERE NOT EXISTS (SELECT 1 FROM {{S}}.sqlite_sequence AS s WHERE s.name=t.name)
ORDER BY name

-- name: RESTORE_EVENT like RESTORE_BATCHES
-- Ids of events: an event of its own, of no job, takes the one behind the jump.
INSERT INTO {{S}}.claimq_event(event_id, job_id, lane, partition, outcome,
  occurred_at_ms)
VALUES((SELECT min(ifnull(max(event_id), 0), 9223372036854775805-:jump)+:jump+1
        FROM {{S}}.claimq_event),
  {{WROTE 0}}, '', 0, 'restored', :now)

-- name: RESTORE_FENCE like RESTORE_KEYS
-- Tokens of contests.
UPDATE {{S}}.claimq_meta
SET value=claimq__note(:wrote, min(value, 9223372036854775807-:jump)+:jump)
WHERE name='contest_fence'

-- name: RESTORE_SEQUENCES like RESTORE_KEYS
-- Numbers of messages, the only gap there is; and the tokens of partitions.
UPDATE {{S}}.claimq_partition
SET last_seq=claimq__note(:wrote,
    min(last_seq, 9223372036854775807-:jump)+:jump),
  fencing_token=min(fencing_token, 9223372036854775807-:jump)+:jump

-- The tokens of work that can still be claimed.  A row that is held keeps its
-- claim, and the next one has a greater token than any that is known elsewhere.

-- name: RESTORE_JOBS like RESTORE_KEYS
UPDATE {{S}}.claimq_job SET fencing_token=claimq__note(:wrote,
  min(fencing_token, 9223372036854775807-:jump)+:jump)
WHERE terminal_at_ms IS NULL

-- name: RESTORE_LETTERS like RESTORE_KEYS
UPDATE {{S}}.claimq_letter SET fencing_token=claimq__note(:wrote,
  min(fencing_token, 9223372036854775807-:jump)+:jump)
WHERE status IN ('pending','reprocessing')

-- name: RESTORE_BATCHES
-- A token of 0 tells serial claims that the batch was never claimed.  One that
-- is not yet available cannot have been.
UPDATE {{S}}.claimq_batch SET fencing_token=claimq__note(:wrote,
  min(fencing_token, 9223372036854775807-:jump)+:jump)
WHERE fencing_token>0 OR ifnull(available_at_ms, enqueued_at_ms)<=:now

-- name: RESTORE_SESSIONS
-- What is known of sessions, where the database keeps that.
INSERT {{SESSION_LOOK_SET SESSION_ALL}}
