-- outbox.sql: the statements of ext/outbox.c.

-- fragment: OUTBOX_COLS
-- What a claim looks at in a partition.
partition_id, partition, waiting_since_ms, due, available_at_ms, claim_id,
expires_at_ms, processed_seq, last_seq, fencing_token, attempts, degrade

-- name: OUTBOX_READY
-- Partitions of a queue that have messages: those that are ready, or were when
-- somebody last looked, longest waiting first; then those of OUTBOX_DUE in
-- another order: if there is no row, there are none.
SELECT {{OUTBOX_COLS}}
FROM {{S}}.claimq_partition INDEXED BY claimq_partition_by_wait
WHERE queue_name=:queue AND due<=:now AND waiting_since_ms IS NOT NULL
ORDER BY due, waiting_since_ms, partition

-- name: OUTBOX_DUE like OUTBOX_READY
-- The same for those that became free since, and were not promoted yet.
SELECT {{OUTBOX_COLS}}
FROM {{S}}.claimq_partition INDEXED BY claimq_partition_by_wait
WHERE queue_name=:queue AND due BETWEEN 0 AND :now
  AND waiting_since_ms IS NOT NULL
ORDER BY waiting_since_ms, partition

-- name: OUTBOX_FIND like OUTBOX_READY
-- One partition, free or not.
SELECT {{OUTBOX_COLS}}
FROM {{S}}.claimq_partition WHERE queue_name=:queue AND partition=:partition

-- name: OUTBOX_COUNT
-- How many partitions has the queue?  NULL: it is not registered.
SELECT max(partition)+1 AS n
FROM {{S}}.claimq_partition WHERE queue_name=:queue

-- name: OUTBOX_THERE like OUTBOX_COUNT
-- And how many of them are there?
SELECT count(*) AS n
FROM {{S}}.claimq_partition WHERE queue_name=:queue

-- name: OUTBOX_MESSAGES
-- At most :limit messages of a partition after the cursor: the columns of the
-- result.
SELECT queue_name, partition, seq, payload, payload_type, created_at_ms
FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue_name=:queue AND partition=:partition AND seq>:cursor AND seq<=:last
ORDER BY seq LIMIT :limit

-- name: OUTBOX_ROWS
-- The messages of a claim that holds its partition, with its lease.
SELECT m.queue_name, m.partition, m.seq, m.payload, m.payload_type,
  m.created_at_ms, p.claim_id, p.lease_token, p.owner_id, p.incarnation_id,
  p.claimed_at_ms, p.expires_at_ms, p.attempts
FROM {{S}}.claimq_partition AS p
CROSS JOIN {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
WHERE p.partition_id=:head AND p.claim_id=:claim
  AND m.queue_name=p.queue_name AND m.partition=p.partition
  AND m.seq>p.processed_seq AND m.seq<=p.delivered_seq
ORDER BY m.seq

-- name: OUTBOX_STAMP
-- The partition must still be as it was when its messages were read.
UPDATE {{S}}.claimq_partition SET {{STAMP}}, claim_size=:size,
  delivered_seq=:delivered, fencing_token={{FENCE}}, attempts=attempts+1,
  promoted=0
WHERE partition_id=:head AND available_at_ms<=:now
  AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=:now)
  AND fencing_token=:fence AND processed_seq=:cursor

-- name: OUTBOX_PROMOTE
-- Upkeep: partitions of a queue that are free take their place in line.
UPDATE {{S}}.claimq_partition INDEXED BY claimq_partition_by_wait
SET promoted=1
WHERE queue_name=:queue AND due BETWEEN 0 AND :now
  AND waiting_since_ms IS NOT NULL

-- name: OUTBOX_REPAIR
-- Upkeep: what was found in these partitions is not what waiting_since_ms says:
-- a message was replaced, for which no trigger fires.
UPDATE {{S}}.claimq_partition
SET waiting_since_ms={{OUTBOX_SINCE claimq_partition.processed_seq}}
WHERE queue_name=:queue AND partition_id IN (SELECT id FROM claimq_ids(:ids))

-- fragment: OUTBOX_SINCE
-- In an UPDATE of claimq_partition: when the first message after $1 was made.
(SELECT m.created_at_ms
 FROM {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
 WHERE m.queue_name=claimq_partition.queue_name
   AND m.partition=claimq_partition.partition AND m.seq>$1
 ORDER BY m.seq LIMIT 1)

-- name: OUTBOX_HOLD
-- A claim holds one row, the partition, however many messages it delivered.
SELECT claim_id, lease_token, 1 AS claim_size, fencing_token, processed_seq,
  attempts, claim_size AS delivered_count, delivered_seq
FROM {{S}}.claimq_partition WHERE partition_id=:head

-- name: OUTBOX_RENEW
UPDATE {{S}}.claimq_partition SET expires_at_ms=:until, promoted=0
WHERE partition_id=:head AND claim_id=:claim AND lease_token=:token
  AND {{NOW}} IS NOT NULL

-- name: OUTBOX_SETTLE
-- The claim ends.  last_error becomes :error, unless :keep.
UPDATE {{S}}.claimq_partition SET {{CLAIM_NONE}}, claim_size=NULL,
  delivered_seq=NULL, promoted=0, processed_seq=max(processed_seq, :cursor),
  attempts=:attempts,
  last_error=CASE WHEN :keep THEN last_error ELSE :error END,
  available_at_ms=ifnull(:until, 0),
  waiting_since_ms={{OUTBOX_SINCE :cursor}}
WHERE partition_id=:head AND claim_id=:claim AND lease_token=:token

-- fragment: OUTBOX_RANGE
-- Messages of a claim's partition after :after, up to :last.
FROM {{S}}.claimq_partition AS p
CROSS JOIN {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
WHERE p.partition_id=:head AND p.claim_id=:claim AND p.lease_token=:token
  AND m.queue_name=p.queue_name AND m.partition=p.partition
  AND m.seq>:after AND m.seq<=:last

-- name: OUTBOX_PRESENT
-- How many of them are there?
SELECT count(*) AS n {{OUTBOX_RANGE}}

-- name: OUTBOX_BACK
-- The number before the last of them but :skip.
SELECT m.seq-1 AS before {{OUTBOX_RANGE}}
ORDER BY m.seq DESC LIMIT 1 OFFSET :skip

-- name: OUTBOX_BURY like OUTBOX_PRESENT
-- These messages become dead letters, with the attempts that their handler saw.
INSERT INTO {{S}}.claimq_letter({{LETTER_INTO}})
SELECT 'outbox', p.queue_name||'/'||p.partition, m.seq, m.payload,
  m.payload_type, m.created_at_ms, :now, :why, NULL,
  max(p.attempts-1, 0),
  claimq_origin('queue_name', p.queue_name, 'partition', p.partition,
    'source_key', m.source_key)
{{OUTBOX_RANGE}}
ORDER BY m.seq

-- name: OUTBOX_DEGRADES
-- Does degrade differ from what is wanted, in any partition?
SELECT 1 AS one FROM {{S}}.claimq_partition
WHERE queue_name=:queue AND degrade<>:degrade LIMIT 1

-- name: OUTBOX_DEGRADE like OUTBOX_DEGRADES
UPDATE {{S}}.claimq_partition SET degrade=:degrade
WHERE queue_name=:queue AND degrade<>:degrade

-- name: OUTBOX_REGISTER
-- The partitions that are missing: all, or those whose rows somebody deleted.
-- One that has messages begins with the first of them: nobody knows which were
-- processed.  :degrade NULL: as the others are, or 1.
INSERT INTO {{S}}.claimq_partition(queue_name, partition, degrade, last_seq,
  processed_seq, vacuumed_seq, waiting_since_ms)
WITH RECURSIVE n(i) AS (
  SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1<:partitions
)
SELECT :queue, i, ifnull(:degrade, ifnull((
    SELECT min(degrade) FROM {{S}}.claimq_partition WHERE queue_name=:queue),
    1)),
  ifnull((SELECT max(seq) {{OUTBOX_LEFT}}), 0),
  ifnull((SELECT min(seq)-1 {{OUTBOX_LEFT}}), 0),
  ifnull((SELECT min(seq)-1 {{OUTBOX_LEFT}}), 0),
  (SELECT created_at_ms {{OUTBOX_LEFT}} ORDER BY seq LIMIT 1)
FROM n WHERE NOT EXISTS (
  SELECT 1 FROM {{S}}.claimq_partition WHERE queue_name=:queue AND partition=i)

-- fragment: OUTBOX_LEFT
FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue_name=:queue AND partition=i AND seq IS NOT NULL

-- name: OUTBOX_STORED
-- The message of a source key, wherever in the queue.
SELECT seq FROM {{S}}.claimq_message INDEXED BY claimq_message_by_key
WHERE queue_name=:queue AND source_key=:source_key

-- name: OUTBOX_PUBLISH
-- :seq gets the number of the message.  It is NULL if there is no such
-- partition; then a trigger raises.  (RETURNING would take longer than all the
-- rest.)
INSERT INTO {{S}}.claimq_message(queue_name, partition, seq, source_key,
  payload, payload_type, created_at_ms)
VALUES(:queue, :partition, claimq_note(:seq, (
  SELECT last_seq+1 FROM {{S}}.claimq_partition
  WHERE queue_name=:queue AND partition=:partition)), :source_key, :payload,
  :type, {{NOW}})

-- name: VACUUM_PARTITION
-- A partition with processed messages that can go, and the first that is there.
SELECT partition_id, queue_name, partition, vacuumed_seq, processed_seq, (
  SELECT m.seq FROM {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
  WHERE m.queue_name=p.queue_name AND m.partition=p.partition
    AND m.seq>p.vacuumed_seq
  ORDER BY m.seq LIMIT 1) AS first_seq
FROM {{S}}.claimq_partition AS p INDEXED BY claimq_partition_by_done
WHERE processed_seq>vacuumed_seq ORDER BY partition_id LIMIT 1

-- name: VACUUM_MESSAGES
DELETE FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue_name=:queue AND partition=:partition AND seq>:after AND seq<=:last

-- name: VACUUM_CURSOR
UPDATE {{S}}.claimq_partition SET vacuumed_seq=:seq WHERE partition_id=:head

--------------------------------------------------------------------------
-- claimq_stats: messages that wait, by the state of their partition.

-- fragment: OUTBOX_FROM
available_at_ms

-- fragment: OUTBOX_STATS_ROWS
SELECT queue_name AS scope, w, (
    SELECT count(*) FROM {{S}}.claimq_message AS m
      INDEXED BY claimq_message_by_seq
    WHERE m.queue_name=p.queue_name AND m.partition=p.partition
      AND m.seq>p.processed_seq) AS n, d,
  max(since, ifnull((
    SELECT m.created_at_ms FROM {{S}}.claimq_message AS m
      INDEXED BY claimq_message_by_seq
    WHERE m.queue_name=p.queue_name AND m.partition=p.partition
      AND m.seq>p.processed_seq
    ORDER BY m.seq LIMIT 1), 0)) AS since, at
FROM (SELECT *, {{STATS_STATE STATS_CLAIMED OUTBOX_FROM}}
      FROM {{S}}.claimq_partition) AS p

-- fragment: OUTBOX_LETTERS
SELECT substr(scope, 1, instr(scope, '/')-1), w, n, d, since, at
FROM ({{STATS_LETTERS outbox}}

-- name: OUTBOX_STATS like STATS
SELECT 'outbox' AS discipline, scope, {{STATS_SUMS}} FROM (
  {{OUTBOX_STATS_ROWS}} UNION ALL {{OUTBOX_LETTERS}}))
GROUP BY scope ORDER BY scope

-- name: OUTBOX_STATS_OF like STATS
-- A slash is followed by 0 in the order of characters.
SELECT 'outbox' AS discipline, scope, {{STATS_SUMS}} FROM (
  {{OUTBOX_STATS_ROWS}} WHERE queue_name=:scope
  UNION ALL {{OUTBOX_LETTERS}} AND scope>:scope||'/' AND scope<:scope||'0'))
GROUP BY scope

--------------------------------------------------------------------------
-- claimq_check

-- fragment: OUTBOX_WAITING
SELECT 1 FROM {{S}}.claimq_message AS m
WHERE m.queue_name=p.queue_name AND m.partition=p.partition
  AND m.seq>p.processed_seq

-- name: OUTBOX_CHECK like CHECK
SELECT 'claimq_partition' AS table_name, partition_id AS row_key, problem
FROM (SELECT partition_id, CASE
    WHEN partition_id<=0 THEN 'bad partition_id'
    {{CHECK_TEXT queue_name}} {{CHECK_COUNT partition}}
    {{CHECK_COUNT last_seq}} {{CHECK_COUNT processed_seq}}
    {{CHECK_COUNT vacuumed_seq}} {{CHECK_COUNT attempts}}
    {{CHECK_BOOL degrade}} {{CHECK_BOOL promoted}}
    {{CHECK_TEXT_NULL last_error}} {{CHECK_INT_NULL waiting_since_ms}}
    {{CHECK_INT available_at_ms}} {{CHECK_INT_NULL delivered_seq}}
    {{CHECK_LEASE}} {{CHECK_EXPIRES}} {{CHECK_SIZE}}
    {{CHECK_ONE_CLAIM qpc partition_id}}
    WHEN (claim_id IS NULL)<>(delivered_seq IS NULL) THEN 'half a claim'
    WHEN processed_seq>last_seq THEN 'processed_seq is after last_seq'
    WHEN vacuumed_seq>processed_seq THEN 'vacuumed_seq is after processed_seq'
    WHEN delivered_seq NOT BETWEEN processed_seq AND last_seq
    THEN 'bad delivered_seq'
    WHEN claim_size>delivered_seq-processed_seq
    THEN 'claim_size is more than was delivered'
    WHEN claim_size<(
      SELECT count(*) FROM {{S}}.claimq_message AS m
      WHERE m.queue_name=p.queue_name AND m.partition=p.partition
        AND m.seq>p.processed_seq AND m.seq<=p.delivered_seq)
    THEN 'claim_size is less than was delivered'
    WHEN waiting_since_ms IS NULL AND EXISTS ({{OUTBOX_WAITING}})
    THEN 'messages wait, and waiting_since_ms is NULL'
    WHEN waiting_since_ms IS NOT NULL AND NOT EXISTS ({{OUTBOX_WAITING}})
    THEN 'no message waits, and waiting_since_ms is set'
    WHEN waiting_since_ms IS NOT (
      SELECT created_at_ms FROM {{S}}.claimq_message AS m
      WHERE m.queue_name=p.queue_name AND m.partition=p.partition
        AND m.seq>p.processed_seq ORDER BY m.seq LIMIT 1)
    THEN 'waiting_since_ms is not that of the first message that waits'
    WHEN NOT claimq_sound(queue_name, last_error, {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_partition AS p)
WHERE problem IS NOT NULL

-- name: OUTBOX_CHECK_QUEUES like CHECK
SELECT 'claimq_partition' AS table_name, queue_name AS row_key,
  'a partition of the queue is missing' AS problem
FROM {{S}}.claimq_partition
GROUP BY queue_name HAVING count(*)<max(partition)+1

-- name: OUTBOX_CHECK_MESSAGES like CHECK
SELECT 'claimq_message' AS table_name, message_id AS row_key, problem
FROM (SELECT message_id, CASE
    WHEN message_id<=0 THEN 'bad message_id'
    {{CHECK_TEXT queue_name}} {{CHECK_COUNT partition}} {{CHECK_COUNT seq}}
    {{CHECK_TEXT_NULL source_key}} {{CHECK_TEXT payload_type}}
    {{CHECK_INT created_at_ms}}
    WHEN length(payload_type) NOT BETWEEN 1 AND 1024
      OR payload_type GLOB '*[^ -~]*' OR instr(payload_type, char(0))
    THEN 'bad payload_type'
    WHEN NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_partition AS p
      WHERE p.queue_name=m.queue_name AND p.partition=m.partition)
    THEN 'its partition is not there'
    WHEN NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_partition AS p
      WHERE p.queue_name=m.queue_name AND p.partition=m.partition
        AND m.seq>p.vacuumed_seq AND m.seq<=p.last_seq)
    THEN 'seq is not between vacuumed_seq and last_seq'
    WHEN NOT claimq_sound(queue_name, source_key, payload_type)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_message AS m NOT INDEXED)
WHERE problem IS NOT NULL

-- name: OUTBOX_WHY like OUTBOX_READY
-- claimq_why: all partitions of a queue.
SELECT {{OUTBOX_COLS}}
FROM {{S}}.claimq_partition WHERE queue_name=:queue ORDER BY partition
