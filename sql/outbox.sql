-- outbox.sql: the statements of ext/outbox.c.

-- fragment: OUTBOX_FREE_AT
-- Free at ?2: what an index cannot know, because time may go back.
available_at_ms<=?2 AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=?2)

-- name: OUTBOX_READY
-- Free partitions of queue ?1 that have messages, longest waiting first; then
-- those of OUTBOX_DUE in another order: if there is no row, there are none.
SELECT partition_id, waiting_since_ms, partition, due
FROM main.claimq_partition INDEXED BY claimq_partition_by_wait
WHERE queue_name=?1 AND due<=?2 AND waiting_since_ms IS NOT NULL
  AND {{OUTBOX_FREE_AT}}
ORDER BY due, waiting_since_ms, partition

-- name: OUTBOX_DUE
-- The same for those that became free by ?2 and were not promoted yet.
SELECT partition_id, waiting_since_ms, partition
FROM main.claimq_partition INDEXED BY claimq_partition_by_wait
WHERE queue_name=?1 AND due BETWEEN 0 AND ?2 AND waiting_since_ms IS NOT NULL
ORDER BY waiting_since_ms, partition

-- name: OUTBOX_FIND
-- Partition ?3 of queue ?1; is it free at ?2?
SELECT partition_id, {{OUTBOX_FREE_AT}}
FROM main.claimq_partition WHERE queue_name=?1 AND partition=?3

-- name: OUTBOX_COUNT
-- How many partitions has queue ?1?  NULL: it is not registered.
SELECT max(partition)+1 FROM main.claimq_partition WHERE queue_name=?1

-- name: OUTBOX_PARTITION
-- All of a partition that claim and verbs look at, as CQ_P_* in outbox.c.
SELECT queue_name, partition, processed_seq, last_seq, fencing_token, attempts,
  claim_id, lease_token, claim_size, delivered_seq
FROM main.claimq_partition WHERE partition_id=?1

-- name: OUTBOX_MESSAGES
-- At most ?5 messages of a partition after ?3, up to ?4.
SELECT queue_name, partition, seq, payload, payload_type, created_at_ms
FROM main.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue_name=?1 AND partition=?2 AND seq>?3 AND seq<=?4
ORDER BY seq LIMIT ?5

-- name: OUTBOX_TAIL
-- How many messages of a partition after ?3, up to ?4?
SELECT count(*)
FROM main.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue_name=?1 AND partition=?2 AND seq>?3 AND seq<=?4

-- name: OUTBOX_STAMP
UPDATE main.claimq_partition SET
  claim_id=?2, lease_token=?3, owner_id=?4, incarnation_id=?5,
  claimed_at_ms=?6, expires_at_ms=?7, claim_size=?8, delivered_seq=?9,
  fencing_token=fencing_token+(fencing_token<9223372036854775807),
  attempts=attempts+1, promoted=0
WHERE partition_id=?1

-- name: OUTBOX_PROMOTE
-- Upkeep: partitions of queue ?1 that are free at ?2 take their place in line.
UPDATE main.claimq_partition INDEXED BY claimq_partition_by_wait
SET promoted=1
WHERE queue_name=?1 AND due BETWEEN 0 AND ?2 AND waiting_since_ms IS NOT NULL

-- name: OUTBOX_RENEW
UPDATE main.claimq_partition SET expires_at_ms=?2, promoted=0
WHERE partition_id=?1

-- name: OUTBOX_SETTLE
-- The claim of partition ?1 ends.  ?2: the cursor, ?3: attempts, ?4: the error
-- (kept if ?5), ?6: when it may be claimed again (0: now).  ?7..?10 write dead
-- letters, by the trigger claimq_partition_reject.
UPDATE main.claimq_partition SET
  claim_id=NULL, lease_token=NULL, owner_id=NULL, incarnation_id=NULL,
  claimed_at_ms=NULL, expires_at_ms=NULL, claim_size=NULL, delivered_seq=NULL,
  promoted=0, processed_seq=max(processed_seq,?2), attempts=?3,
  last_error=CASE WHEN ?5 THEN last_error ELSE ?4 END, available_at_ms=?6,
  waiting_since_ms=(
    SELECT created_at_ms
    FROM main.claimq_message AS m INDEXED BY claimq_message_by_seq
    WHERE m.queue_name=claimq_partition.queue_name
      AND m.partition=claimq_partition.partition AND m.seq>?2
    ORDER BY m.seq LIMIT 1),
  rejected_at_ms=?7, reject_after=?8, reject_reason=?9, reject_list=?10
WHERE partition_id=?1

-- name: OUTBOX_REGISTER
INSERT INTO main.claimq_partition(queue_name, partition)
WITH RECURSIVE n(i) AS (
  SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1<?2
)
SELECT ?1, i FROM n

-- name: OUTBOX_PUBLISH
-- ?6 gets the number of the message.  It is NULL if there is no such partition;
-- then a trigger raises.  (RETURNING would take longer than all the rest.)
INSERT INTO main.claimq_message(queue_name, partition, seq, payload,
  payload_type, created_at_ms)
VALUES(?1, ?2, claimq_note(?6, (
  SELECT last_seq+1 FROM main.claimq_partition
  WHERE queue_name=?1 AND partition=?2)), ?3, ?4, ?5)
