-- outbox.sql: the statements of ext/outbox/outbox.c.

-- fragment: OUTBOX_COLS
-- What a claim looks at in a partition.
partition_id, partition, waiting_since_ms, due, available_at_ms, claim_id,
expires_at_ms, processed_seq, last_seq, fencing_token, attempts, degrade,
lease_ms, max

-- fragment: OUTBOX_NEW
-- Messages that have no number yet.
{{S}}.claimq_message INDEXED BY claimq_message_new
WHERE queue=:queue AND seq IS NULL

-- fragment: OUTBOX_NEW_OF
-- The same of partition $1 of queue $2.
FROM {{S}}.claimq_message AS m INDEXED BY claimq_message_new
WHERE m.queue=$2 AND m.partition=$1 AND m.seq IS NULL

-- name: OUTBOX_READY
-- Partitions of a queue that have messages: those that are ready, or were when
-- somebody last looked, longest waiting first; then those of OUTBOX_DUE in
-- another order: if there is no row, there are none.  fresh: has the queue
-- messages without a number?
SELECT {{OUTBOX_COLS}}, EXISTS (SELECT 1 FROM {{OUTBOX_NEW}}) AS fresh
FROM {{S}}.claimq_partition INDEXED BY claimq_partition_by_wait
WHERE queue=:queue AND due<=:now AND waiting_since_ms IS NOT NULL
ORDER BY due, waiting_since_ms, partition

-- name: OUTBOX_DUE like OUTBOX_READY
-- The same for those that became free since, and were not promoted yet.
SELECT {{OUTBOX_COLS}}, NULL AS fresh
FROM {{S}}.claimq_partition INDEXED BY claimq_partition_by_wait
WHERE queue=:queue AND due BETWEEN 0 AND :now
  AND waiting_since_ms IS NOT NULL
ORDER BY waiting_since_ms, partition

-- name: OUTBOX_FIND like OUTBOX_READY
-- One partition, free or not.  fresh: has it messages without a number?
SELECT {{OUTBOX_COLS}}, EXISTS (
  SELECT 1 FROM {{OUTBOX_NEW}} AND partition=:partition) AS fresh
FROM {{S}}.claimq_partition WHERE queue=:queue AND partition=:partition

-- name: OUTBOX_FRESH_PART like OUTBOX_READY
-- The first partition from :from on that has; partition_id is NULL if it does
-- not exist.  fresh: when the first of them was made.
SELECT p.partition_id AS partition_id, m.partition AS partition,
  p.waiting_since_ms AS waiting_since_ms, p.due AS due,
  p.available_at_ms AS available_at_ms, p.claim_id AS claim_id,
  p.expires_at_ms AS expires_at_ms, p.processed_seq AS processed_seq,
  p.last_seq AS last_seq, p.fencing_token AS fencing_token,
  p.attempts AS attempts, p.degrade AS degrade, p.lease_ms AS lease_ms,
  p.max AS max, m.created_at_ms AS fresh
FROM {{S}}.claimq_message AS m INDEXED BY claimq_message_new
LEFT JOIN {{S}}.claimq_partition AS p
  ON p.queue=:queue AND p.partition=m.partition
WHERE m.queue=:queue AND m.seq IS NULL AND m.partition>=:from
ORDER BY m.partition, m.message_id LIMIT 1

-- name: OUTBOX_COUNT
-- How many partitions has the queue?  NULL: it is not registered.  And has it
-- messages without a number?
SELECT max(partition)+1 AS n, EXISTS (SELECT 1 FROM {{OUTBOX_NEW}}) AS fresh
FROM {{S}}.claimq_partition WHERE queue=:queue

-- name: OUTBOX_THERE like OUTBOX_COUNT
-- And how many of them are there?
SELECT count(*) AS n, NULL AS fresh
FROM {{S}}.claimq_partition WHERE queue=:queue

-- name: OUTBOX_MESSAGES
-- At most :limit messages of a partition after the cursor: the columns of the
-- result, of which the first two are known.
SELECT NULL AS queue, NULL AS partition, seq, payload, headers, payload_type,
  created_at_ms
FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue=:queue AND partition=:partition AND seq>:cursor AND seq<=:last
ORDER BY seq LIMIT :limit

-- name: OUTBOX_NEW_MESSAGES like OUTBOX_MESSAGES
-- And those that come after them, which have no numbers yet.
SELECT NULL AS queue, NULL AS partition, seq, payload, headers, payload_type,
  created_at_ms
FROM {{OUTBOX_NEW}} AND partition=:partition
ORDER BY message_id LIMIT :limit

-- name: OUTBOX_UNNUMBERED
-- The first of them, and the last number that was given.
SELECT message_id, (
  SELECT last_seq FROM {{S}}.claimq_partition
  WHERE queue=:queue AND partition=:partition) AS last_seq
FROM {{OUTBOX_NEW}} AND partition=:partition
ORDER BY message_id LIMIT :limit

-- name: OUTBOX_NUMBER
-- They get their numbers, the turns of the list.
UPDATE {{S}}.claimq_message SET seq=i.turn, numbered=1
FROM (SELECT id, turn FROM claimq__ids(:ids)) AS i WHERE message_id=i.id

-- name: OUTBOX_NUMBERED like OUTBOX_UNNUMBERED
-- What the partition knows of its messages, when they have.
UPDATE {{S}}.claimq_partition SET
  last_seq=claimq__note(:wrote, max(last_seq, ifnull((
    SELECT max(seq) FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
    WHERE queue=:queue AND partition=:partition AND seq IS NOT NULL), 0))),
  waiting_since_ms={{OUTBOX_SINCE claimq_partition.processed_seq}}
WHERE queue=:queue AND partition=:partition

-- name: OUTBOX_BAD
-- Messages without a number for partitions that the queue does not have: those
-- from :from to :to.
SELECT message_id FROM {{OUTBOX_NEW}} AND partition BETWEEN :from AND :to
LIMIT :limit

-- name: OUTBOX_BURY_BAD
-- They become dead letters.
INSERT INTO {{S}}.claimq_letter({{LETTER_INTO}})
SELECT 'outbox', m.queue||'/'||m.partition, m.message_id, m.payload,
  m.headers, m.payload_type, m.created_at_ms, :now,
  'partition must be an integer from 0 to '||(:partitions-1)||
    ' for this queue, got '||m.partition, 'bad_argument', 0,
  claimq__origin('queue', m.queue, 'partition', m.partition,
    'source_key', m.source_key)
FROM claimq__ids(:ids) CROSS JOIN {{S}}.claimq_message AS m
WHERE m.message_id=id

-- name: OUTBOX_DROP_BAD
-- And are gone, one by one: after ANALYZE of a small table SQLite 3.53 would
-- scan it for a list.
DELETE FROM {{S}}.claimq_message WHERE message_id=:message

-- name: OUTBOX_ROWS
-- The messages of a claim that holds its partition, with its lease.
SELECT m.queue, m.partition, m.seq, m.payload, m.headers, m.payload_type,
  m.created_at_ms, p.claim_id, p.lease_token, p.owner, p.incarnation,
  p.claimed_at_ms, p.expires_at_ms, p.attempts
FROM {{S}}.claimq_partition AS p
CROSS JOIN {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
WHERE p.partition_id=:head AND p.claim_id=:claim
  AND m.queue=p.queue AND m.partition=p.partition
  AND m.seq>p.processed_seq AND m.seq<=p.delivered_seq
ORDER BY m.seq

-- name: OUTBOX_STAMP
-- The partition must still be as it was when its messages were read.
UPDATE {{S}}.claimq_partition SET {{STAMP}}, claim_size=:size,
  delivered_seq=:delivered, fencing_token={{FENCE}}, attempts=attempts+1,
  promoted=0, previous_claim_id=ifnull(claim_id, previous_claim_id)
WHERE partition_id=:head AND available_at_ms<=:now
  AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=:now)
  AND fencing_token=:fence AND processed_seq=:cursor

-- name: OUTBOX_PROMOTE
-- Upkeep: partitions of a queue that are free take their place in line.
UPDATE {{S}}.claimq_partition INDEXED BY claimq_partition_by_wait
SET promoted=1
WHERE queue=:queue AND due BETWEEN 0 AND :now
  AND waiting_since_ms IS NOT NULL

-- name: OUTBOX_REPAIR
-- Upkeep: what was found in these partitions is not what waiting_since_ms says:
-- a message was replaced, which fires no trigger.
UPDATE {{S}}.claimq_partition
SET waiting_since_ms={{OUTBOX_SINCE claimq_partition.processed_seq}}
WHERE queue=:queue AND partition_id IN (SELECT id FROM claimq__ids(:ids))

-- fragment: OUTBOX_SINCE
-- In an UPDATE of claimq_partition: when the first message after $1 was made.
(SELECT m.created_at_ms
 FROM {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
 WHERE m.queue=claimq_partition.queue
   AND m.partition=claimq_partition.partition AND m.seq>$1
 ORDER BY m.seq LIMIT 1)

-- name: OUTBOX_HOLD
-- A claim holds one row, the partition, however many messages it delivered.
SELECT claim_id, lease_token, 1 AS claim_size, fencing_token, expires_at_ms,
  processed_seq, attempts, claim_size AS delivered_count, delivered_seq,
  max(0, retry_count) AS retry_count, max_attempts,
  max(0, ifnull(backoff_ms, 1000)) AS backoff_ms,
  max(0, ifnull(backoff_factor, 2)) AS backoff_factor,
  max(0, ifnull(backoff_max_ms, 60000)) AS backoff_max_ms
FROM {{S}}.claimq_partition WHERE partition_id=:head

-- name: OUTBOX_RENEW
UPDATE {{S}}.claimq_partition SET expires_at_ms={{LATER :lease}},
  promoted=0
WHERE partition_id=:head AND claim_id=:claim AND lease_token=:token

-- name: OUTBOX_SETTLE
-- The claim ends.  last_error becomes :error, unless :keep; :retried is 1 for a
-- retry.
UPDATE {{S}}.claimq_partition SET {{CLAIM_NONE}}, claim_size=NULL,
  delivered_seq=NULL, promoted=0, processed_seq=max(processed_seq, :cursor),
  attempts=:attempts,
  retry_count=iif(:cursor>processed_seq, 0, retry_count+:retried),
  last_error=CASE WHEN :keep THEN last_error ELSE :error END,
  available_at_ms=ifnull(:until, 0),
  waiting_since_ms={{OUTBOX_SINCE :cursor}}
WHERE partition_id=:head AND claim_id=:claim AND lease_token=:token

-- fragment: OUTBOX_RANGE
-- Messages of a claim's partition after :after, up to :last.
FROM {{S}}.claimq_partition AS p
CROSS JOIN {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
WHERE p.partition_id=:head AND p.claim_id=:claim AND p.lease_token=:token
  AND m.queue=p.queue AND m.partition=p.partition
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
SELECT 'outbox', p.queue||'/'||p.partition, m.seq, m.payload,
  m.headers, m.payload_type, m.created_at_ms, :now, :why, NULL,
  max(p.attempts-1, 0),
  claimq__origin('queue', p.queue, 'partition', p.partition,
    'source_key', m.source_key)
{{OUTBOX_RANGE}}
ORDER BY m.seq

-- fragment: OUTBOX_SETS
-- Option $2, which is bit $1 of :set, is given, and differs.
:set & $1 AND $2 IS NOT :$2

-- name: OUTBOX_DIFFERS
-- Do the options that are given differ from what any partition has?
SELECT 1 AS one FROM {{S}}.claimq_partition
  INDEXED BY sqlite_autoindex_claimq_partition_1
WHERE queue=:queue AND ({{OUTBOX_SETS 1 degrade}}
  OR {{OUTBOX_SETS 2 lease_ms}} OR {{OUTBOX_SETS 4 max}}
  OR {{OUTBOX_SETS 8 backoff_ms}} OR {{OUTBOX_SETS 16 backoff_factor}}
  OR {{OUTBOX_SETS 32 backoff_max_ms}} OR {{OUTBOX_SETS 64 max_attempts}})
LIMIT 1

-- name: OUTBOX_SET like OUTBOX_DIFFERS
UPDATE {{S}}.claimq_partition SET degrade=iif(:set & 1, :degrade, degrade),
  lease_ms=iif(:set & 2, :lease_ms, lease_ms), max=iif(:set & 4, :max, max),
  backoff_ms=iif(:set & 8, :backoff_ms, backoff_ms),
  backoff_factor=iif(:set & 16, :backoff_factor, backoff_factor),
  backoff_max_ms=iif(:set & 32, :backoff_max_ms, backoff_max_ms),
  max_attempts=iif(:set & 64, :max_attempts, max_attempts)
WHERE queue=:queue

-- name: OUTBOX_REGISTER like OUTBOX_DIFFERS
-- The partitions that are missing: all, or those whose rows somebody deleted.
-- One that has messages begins with the first of them: nobody knows which were
-- processed.  Options that are NULL: as another has them, or the default.
INSERT INTO {{S}}.claimq_partition(queue, partition, degrade, lease_ms, max,
  backoff_ms, backoff_factor, backoff_max_ms, max_attempts, last_seq,
  processed_seq, vacuumed_seq, waiting_since_ms)
WITH RECURSIVE n(i) AS (
  SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1<:partitions
)
SELECT {{WROTE :queue}}, i, coalesce(:degrade, q.degrade, 1),
  ifnull(:lease_ms, q.lease_ms), ifnull(:max, q.max),
  ifnull(:backoff_ms, q.backoff_ms), ifnull(:backoff_factor, q.backoff_factor),
  ifnull(:backoff_max_ms, q.backoff_max_ms),
  ifnull(:max_attempts, q.max_attempts),
  ifnull((SELECT max(seq) {{OUTBOX_LEFT}}), 0),
  ifnull((SELECT min(seq)-1 {{OUTBOX_LEFT}}), 0),
  ifnull((SELECT min(seq)-1 {{OUTBOX_LEFT}}), 0),
  (SELECT created_at_ms {{OUTBOX_LEFT}} ORDER BY seq LIMIT 1)
FROM n LEFT JOIN (SELECT * FROM {{S}}.claimq_partition WHERE queue=:queue
                  LIMIT 1) AS q
WHERE NOT EXISTS (
  SELECT 1 FROM {{S}}.claimq_partition WHERE queue=:queue AND partition=i)

-- fragment: OUTBOX_LEFT
FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue=:queue AND partition=i AND seq IS NOT NULL

-- name: OUTBOX_STORED
-- The message of a source key, wherever in the queue.
SELECT seq, partition, message_id
FROM {{S}}.claimq_message INDEXED BY claimq_message_by_key
WHERE queue=:queue AND source_key=:source_key

-- name: OUTBOX_NEXT
-- The next number of a partition, which :seq gets, if all messages that are
-- there have theirs.  (RETURNING would take longer than all the rest.)
UPDATE {{S}}.claimq_partition SET last_seq=claimq__note(:seq, last_seq+1),
  waiting_since_ms=ifnull(waiting_since_ms, :now)
WHERE queue=:queue AND partition=:partition
  AND NOT EXISTS (SELECT 1 FROM {{OUTBOX_NEW}} AND partition=:partition)

-- name: OUTBOX_PUBLISH
INSERT INTO {{S}}.claimq_message(queue, partition, seq, numbered,
  source_key, payload, headers, payload_type, created_at_ms)
VALUES(:queue, :partition, :seq, iif(:seq IS NULL, NULL, 1), :source_key,
  :payload, :headers, :type, {{NOW}})

-- name: OUTBOX_WILL_BE
-- The number that a message without one will get.
SELECT p.last_seq+(SELECT count(*) FROM {{OUTBOX_NEW}} AND partition=:partition
  AND message_id<=:message) AS seq
FROM {{S}}.claimq_partition AS p WHERE p.queue=:queue AND p.partition=:partition

-- name: OUTBOX_UNDELETED
-- Is the message in main?
SELECT 1 AS one FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue=:queue AND partition=:partition AND seq=:seq

-- name: OUTBOX_HELD
-- A message was deleted by hand: was it to be done?  And the claim that has
-- delivered it, if somebody holds it.
SELECT :seq>processed_seq AS todo,
  iif(:seq>processed_seq AND :seq<=delivered_seq, claim_id, NULL) AS claim_id
FROM {{S}}.claimq_partition WHERE queue=:queue AND partition=:partition

-- fragment: VACUUM_PARTITION_COLS
-- A partition with processed messages, and the first that is there.
SELECT partition_id, queue, partition, vacuumed_seq, processed_seq, (
  SELECT m.seq FROM {{S}}.claimq_message AS m INDEXED BY claimq_message_by_seq
  WHERE m.queue=p.queue AND m.partition=p.partition
    AND m.seq>p.vacuumed_seq
  ORDER BY m.seq LIMIT 1) AS first_seq
FROM {{S}}.claimq_partition AS p

-- name: VACUUM_PARTITION
-- The next one after :id.
{{VACUUM_PARTITION_COLS}} INDEXED BY claimq_partition_by_done
WHERE processed_seq>vacuumed_seq AND partition_id>:id
ORDER BY partition_id LIMIT 1

-- name: VACUUM_PARTITION_OF like VACUUM_PARTITION
{{VACUUM_PARTITION_COLS}}
WHERE processed_seq>vacuumed_seq AND partition_id=:id

-- fragment: VACUUM_RANGE
FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue=:queue AND partition=:partition AND seq>:after AND seq<=:last

-- name: VACUUM_OLD
-- The last of some messages that goes: it is old enough, and none before it is
-- too young.  (One from the future goes with those behind it: somebody has
-- given it a time of his own, or the clock has gone back.)
SELECT seq {{VACUUM_RANGE}} AND created_at_ms<=:until
  AND seq<ifnull((SELECT seq {{VACUUM_RANGE}}
      AND created_at_ms>:until AND created_at_ms<=:now
    ORDER BY seq LIMIT 1), 9223372036854775807)
ORDER BY seq DESC LIMIT 1

-- name: VACUUM_MESSAGES like VACUUM_OLD
DELETE FROM {{S}}.claimq_message INDEXED BY claimq_message_by_seq
WHERE queue=:queue AND partition=:partition AND seq>:after AND seq<=:last

-- name: VACUUM_CURSOR
UPDATE {{S}}.claimq_partition SET vacuumed_seq=:seq WHERE partition_id=:head

--------------------------------------------------------------------------
-- claimq_stats: messages that wait, by the state of their partition.

-- fragment: OUTBOX_FROM
available_at_ms

-- fragment: OUTBOX_STATS_ROWS
SELECT queue AS scope, partition, w, (
    SELECT count(*) FROM {{S}}.claimq_message AS m
      INDEXED BY claimq_message_by_seq
    WHERE m.queue=p.queue AND m.partition=p.partition
      AND m.seq>p.processed_seq)
    + (SELECT count(*) {{OUTBOX_NEW_OF p.partition p.queue}}) AS n, d,
  max(since, ifnull(ifnull((
    SELECT m.created_at_ms FROM {{S}}.claimq_message AS m
      INDEXED BY claimq_message_by_seq
    WHERE m.queue=p.queue AND m.partition=p.partition
      AND m.seq>p.processed_seq
    ORDER BY m.seq LIMIT 1), (
    SELECT m.created_at_ms {{OUTBOX_NEW_OF p.partition p.queue}}
    ORDER BY m.message_id LIMIT 1)), 0)) AS since, at
FROM (SELECT *, {{STATS_STATE STATS_CLAIMED OUTBOX_FROM}}
      FROM {{S}}.claimq_partition) AS p

-- fragment: OUTBOX_LETTERS
SELECT substr(scope, 1, instr(scope, '/')-1),
  CAST(substr(scope, instr(scope, '/')+1) AS INTEGER), w, n, d, since, at
FROM ({{STATS_LETTERS outbox}}

-- name: OUTBOX_STATS like STATS
SELECT 'outbox' AS discipline, scope, partition, {{STATS_SUMS}} FROM (
  {{OUTBOX_STATS_ROWS}} UNION ALL {{OUTBOX_LETTERS}}))
GROUP BY scope, partition ORDER BY scope, partition

-- name: OUTBOX_STATS_OF like STATS
-- A slash is followed by 0 in the order of characters.
SELECT 'outbox' AS discipline, scope, partition, {{STATS_SUMS}} FROM (
  {{OUTBOX_STATS_ROWS}} WHERE queue=:scope
  UNION ALL {{OUTBOX_LETTERS}} AND scope>:scope||'/' AND scope<:scope||'0'))
GROUP BY scope, partition ORDER BY partition

--------------------------------------------------------------------------
-- claimq_leases

-- name: OUTBOX_LEASES like LEASES
SELECT 'outbox' AS discipline, queue AS scope, partition AS key,
  {{LEASES_HELD}}
FROM {{S}}.claimq_partition NOT INDEXED WHERE {{LEASES_OF}}
ORDER BY partition_id

--------------------------------------------------------------------------
-- claimq_check

-- fragment: OUTBOX_WAITING
SELECT 1 FROM {{S}}.claimq_message AS m
WHERE m.queue=p.queue AND m.partition=p.partition
  AND m.seq>p.processed_seq

-- name: OUTBOX_CHECK like CHECK
SELECT 'claimq_partition' AS table_name, partition_id AS row_key, problem
FROM (SELECT partition_id, CASE
    WHEN partition_id<=0 THEN 'bad partition_id'
    {{CHECK_TEXT queue}} {{CHECK_COUNT partition}}
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
      WHERE m.queue=p.queue AND m.partition=p.partition
        AND m.seq>p.processed_seq AND m.seq<=p.delivered_seq)
    THEN 'claim_size is less than was delivered'
    WHEN waiting_since_ms IS NULL AND EXISTS ({{OUTBOX_WAITING}})
    THEN 'messages wait, and waiting_since_ms is NULL'
    WHEN waiting_since_ms IS NOT NULL AND NOT EXISTS ({{OUTBOX_WAITING}})
    THEN 'no message waits, and waiting_since_ms is set'
    WHEN waiting_since_ms IS NOT (
      SELECT created_at_ms FROM {{S}}.claimq_message AS m
      WHERE m.queue=p.queue AND m.partition=p.partition
        AND m.seq>p.processed_seq ORDER BY m.seq LIMIT 1)
    THEN 'waiting_since_ms is not that of the first message that waits'
    WHEN NOT claimq__sound(queue, last_error, {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_partition AS p)
WHERE problem IS NOT NULL

-- name: OUTBOX_CHECK_OPTIONS like CHECK
-- What the queue was registered with, and what the partition remembers.
SELECT 'claimq_partition' AS table_name, partition_id AS row_key, problem
FROM (SELECT partition_id, CASE
    {{CHECK_COUNT retry_count}} {{CHECK_INT_NULL lease_ms}}
    {{CHECK_INT_NULL max}} {{CHECK_INT_NULL backoff_ms}}
    {{CHECK_INT_NULL backoff_factor}} {{CHECK_INT_NULL backoff_max_ms}}
    {{CHECK_INT_NULL max_attempts}} {{CHECK_TEXT_NULL previous_claim_id}}
    WHEN NOT claimq__sound(previous_claim_id) {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_partition)
WHERE problem IS NOT NULL

-- name: OUTBOX_CHECK_QUEUES like CHECK
SELECT 'claimq_partition' AS table_name, queue AS row_key,
  'a partition of the queue is missing' AS problem
FROM {{S}}.claimq_partition
GROUP BY queue HAVING count(*)<max(partition)+1

-- name: OUTBOX_CHECK_MESSAGES like CHECK
SELECT 'claimq_message' AS table_name, message_id AS row_key, problem
FROM (SELECT message_id, CASE
    WHEN message_id<=0 THEN 'bad message_id'
    {{CHECK_TEXT queue}} {{CHECK_INT partition}} {{CHECK_INT_NULL seq}}
    WHEN seq<0 THEN 'bad seq'
    WHEN (seq IS NULL)<>(numbered IS NULL) OR numbered<>1 THEN 'bad numbered'
    {{CHECK_TEXT_NULL source_key}} {{CHECK_TEXT payload_type}}
    {{CHECK_HEADERS}}
    {{CHECK_INT created_at_ms}}
    WHEN length(payload_type) NOT BETWEEN 1 AND 1024
      OR payload_type GLOB '*[^ -~]*' OR instr(payload_type, char(0))
    THEN 'bad payload_type'
    WHEN NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_partition AS p
      WHERE p.queue=m.queue AND p.partition=m.partition)
    THEN 'its partition is not there'
    WHEN seq IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_partition AS p
      WHERE p.queue=m.queue AND p.partition=m.partition
        AND m.seq>p.vacuumed_seq AND m.seq<=p.last_seq)
    THEN 'seq is not between vacuumed_seq and last_seq'
    WHEN NOT claimq__sound(queue, source_key, payload_type)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_message AS m NOT INDEXED)
WHERE problem IS NOT NULL

-- name: OUTBOX_WHY like OUTBOX_READY
-- claimq_why: all partitions of a queue.
SELECT {{OUTBOX_COLS}}, EXISTS (
  SELECT 1 {{OUTBOX_NEW_OF claimq_partition.partition :queue}}) AS fresh
FROM {{S}}.claimq_partition WHERE queue=:queue ORDER BY partition
