-- vacuum.sql: the statements of ext/vacuum.c.

-- name: VACUUM_PARTITION
-- A partition with processed messages that can go.
SELECT partition_id, queue_name, partition, vacuumed_seq, processed_seq
FROM main.claimq_partition INDEXED BY claimq_partition_by_done
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
