-- letter.sql: the statements of ext/letter/letter.c.

-- fragment: LETTER_NOW
-- Claimable: what an index cannot know, because time may go back.
ifnull(available_at_ms,0)<=:now
AND (claim_id IS NULL OR ifnull(expires_at_ms,0)<=:now)

-- fragment: LETTER_ALL
-- Claimable letters of source $1, unless another one was asked for: those that
-- are ready, then those that became due.
SELECT letter_id FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='$1' AND due=-1 AND ifnull(:source,'$1')='$1' AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_source
WHERE source='$1' AND due BETWEEN 0 AND :now AND ifnull(:source,'$1')='$1'

-- fragment: LETTER_ALL_IN
-- The same within a scope.
SELECT letter_id FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='$1' AND scope=:scope AND due=-1
  AND ifnull(:source,'$1')='$1' AND {{LETTER_NOW}}
UNION ALL
SELECT letter_id FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_scope
WHERE source='$1' AND scope=:scope AND due BETWEEN 0 AND :now
  AND ifnull(:source,'$1')='$1'

-- name: LETTER_ANY
-- Claimable letters of :source (NULL: all), oldest first, at most :limit.  Six
-- ordered ranges are merged; those of another source end before they begin.
{{LETTER_ALL session}}
UNION ALL {{LETTER_ALL lane}}
UNION ALL {{LETTER_ALL outbox}}
ORDER BY letter_id LIMIT :limit

-- name: LETTER_ANY_IN like LETTER_ANY
{{LETTER_ALL_IN session}}
UNION ALL {{LETTER_ALL_IN lane}}
UNION ALL {{LETTER_ALL_IN outbox}}
ORDER BY letter_id LIMIT :limit

-- name: LETTER_ROW
-- The columns of the result, then what the claim needs.
SELECT letter_id, source, scope, ref, payload, headers, payload_type,
  created_at_ms, failed_at_ms, reason, attempts, fencing_token, claim_id,
  lease_token, owner, incarnation, claimed_at_ms, expires_at_ms
FROM {{S}}.claimq_letter WHERE letter_id=:id

-- name: LETTER_STAMP
-- A join, and due without any words that an index has: with letter_id IN (...)
-- SQLite would look at all letters after an ANALYZE of few.
UPDATE {{S}}.claimq_letter SET {{STAMP}}, claim_size=:size, claim_head=:head,
  fencing_token={{FENCE}}, status='reprocessing', promoted=0
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE letter_id=l.id AND {{LETTER_NOW}} AND ifnull(due, -2)>-2

-- fragment: LETTER_LATE_ROWS
-- Letters that have become due and are not promoted yet, at most :limit.
{{S}}.claimq_letter INDEXED BY $1
WHERE source=:source AND due BETWEEN 0 AND :now

-- name: LETTER_LATE
-- How many letters have become due and are not promoted yet?  At most :limit.
SELECT count(*) AS n FROM (
  SELECT 1 FROM {{LETTER_LATE_ROWS claimq_letter_by_source}} LIMIT :limit)

-- name: LETTER_LATE_IN like LETTER_LATE
SELECT count(*) AS n FROM (
  SELECT 1 FROM {{LETTER_LATE_ROWS claimq_letter_by_scope}} AND scope=:scope
  LIMIT :limit)

-- name: LETTER_PROMOTE like LETTER_LATE
-- Upkeep: the first :limit of them take their place among the ready ones.
UPDATE {{S}}.claimq_letter SET promoted=1 WHERE letter_id IN (
  SELECT letter_id FROM {{LETTER_LATE_ROWS claimq_letter_by_source}}
  ORDER BY due, letter_id LIMIT :limit)

-- name: LETTER_PROMOTE_IN like LETTER_LATE
UPDATE {{S}}.claimq_letter SET promoted=1 WHERE letter_id IN (
  SELECT letter_id FROM {{LETTER_LATE_ROWS claimq_letter_by_scope}}
    AND scope=:scope
  ORDER BY due, letter_id LIMIT :limit)

-- fragment: LETTER_FIRST_AT
-- When can the first letter of a source be had?  One that is ready is enough;
-- else it is the first that falls due, or, if time went back, one that stands
-- among the ready ones too early.  $1: the index, $2: a condition.
SELECT CASE WHEN EXISTS(SELECT 1 FROM {{S}}.claimq_letter INDEXED BY $1
    WHERE source=:source AND {{$2}} AND due=-1 AND {{LETTER_NOW}})
  THEN :now ELSE (
    SELECT min(at) FROM (
      SELECT * FROM (
        SELECT due AS at FROM {{S}}.claimq_letter INDEXED BY $1
        WHERE source=:source AND {{$2}} AND due>=0 ORDER BY due LIMIT 1)
      UNION ALL
      SELECT max(ifnull(available_at_ms,0), ifnull(expires_at_ms,0))
      FROM {{S}}.claimq_letter INDEXED BY $1
      WHERE source=:source AND {{$2}} AND due=-1))
  END AS n

-- fragment: LETTER_EVERYWHERE
source=:source

-- fragment: LETTER_THERE
scope=:scope

-- name: LETTER_FIRST like LETTER_LATE
{{LETTER_FIRST_AT claimq_letter_by_source LETTER_EVERYWHERE}}

-- name: LETTER_FIRST_IN like LETTER_LATE
{{LETTER_FIRST_AT claimq_letter_by_scope LETTER_THERE}}

-- fragment: LETTER_MINE
-- The letters of a claim.
claim_head=:head AND claim_id=:claim

-- name: LETTER_HOLD
-- A letter of the claim, if it has any; then its head, whoever has that now.
SELECT claim_id, lease_token, claim_size, fencing_token, expires_at_ms FROM (
  SELECT claim_id, lease_token, claim_size, fencing_token, expires_at_ms
  FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
  WHERE {{LETTER_MINE}} LIMIT 1)
UNION ALL
SELECT claim_id, lease_token, ifnull(claim_size, 1), fencing_token,
  expires_at_ms
FROM {{S}}.claimq_letter WHERE letter_id=:head

-- name: LETTER_COUNT
-- How many letters has the claim, and how many of them with this token?
SELECT count(*) AS n, total(lease_token=:token) AS n_token
FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
WHERE {{LETTER_MINE}}

-- name: LETTER_MEMBERS
SELECT letter_id, claim_size
FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
WHERE {{LETTER_MINE}} ORDER BY letter_id

-- fragment: LETTER_FREE
{{CLAIM_NONE}}, claim_size=NULL, claim_head=NULL

-- fragment: LETTER_SETTLED
WHERE {{LETTER_MINE}} AND lease_token=:token

-- name: LETTER_RENEW
UPDATE {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
SET expires_at_ms=:until, promoted=0 {{LETTER_SETTLED}}

-- name: LETTER_RESOLVE
UPDATE {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
SET {{LETTER_FREE}}, status='resolved', available_at_ms=:now
{{LETTER_SETTLED}}

-- name: LETTER_RELEASE
UPDATE {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
SET {{LETTER_FREE}}, status='pending', available_at_ms=:until, promoted=0
{{LETTER_SETTLED}}

-- name: LETTER_RETRY
UPDATE {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
SET {{LETTER_FREE}}, status='pending', available_at_ms=:until, promoted=0,
  attempts=attempts+(attempts<9223372036854775807), reason=:reason
{{LETTER_SETTLED}}

-- name: LETTER_DISCARD
UPDATE {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
SET {{LETTER_FREE}}, status='discarded', available_at_ms=:now,
  reason=:reason
{{LETTER_SETTLED}}

--------------------------------------------------------------------------
-- claimq_requeue()

-- name: LETTER_STATE
-- What requeue looks at; held: by a live claim.
SELECT source, status, origin, claim_id, payload, headers, scope,
  payload_type,
  claim_id IS NOT NULL AND ifnull(expires_at_ms,0)>:now AS held,
  ifnull(expires_at_ms,0) AS expires_at_ms, claim_head
FROM {{S}}.claimq_letter WHERE letter_id=:id

-- name: LETTER_REQUEUED
-- The letter has become the work :key.
UPDATE {{S}}.claimq_letter SET {{LETTER_FREE}}, status='resolved',
  available_at_ms=:now, requeued_as={{WROTE :key}}
WHERE letter_id=:id

-- name: LETTER_SHRINK
-- The rest of a claim, now that one letter has left it.
UPDATE {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
SET claim_size=claim_size-1 WHERE {{LETTER_MINE}}

--------------------------------------------------------------------------
-- Letters that are resolved or discarded.  (One that does not say since when
-- was not settled by claimq's functions: it goes first.)

-- name: LETTER_VACUUM like VACUUM_ROWS
SELECT letter_id AS id,
  ifnull(available_at_ms, -9223372036854775807) AS at_ms
FROM {{S}}.claimq_letter INDEXED BY claimq_letter_done
WHERE status IN ('resolved','discarded')
ORDER BY available_at_ms, letter_id LIMIT :limit

-- name: LETTER_VACUUM_DELETE like VACUUM_DELETE
DELETE FROM {{S}}.claimq_letter
WHERE letter_id IN (SELECT id FROM claimq__ids(:ids) LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_stats: open letters of all sources.

-- fragment: LETTER_FROM
ifnull(available_at_ms, 0)

-- fragment: LETTER_STATS_ROWS
-- A letter can be taken as soon as it is there, also if the clock has gone back
-- since.
SELECT scope, w, n, status='pending' AS d, max(since, failed_at_ms) AS since, at
FROM (SELECT *, {{STATS_STATE STATS_CLAIMED LETTER_FROM}}
      FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_scope
      WHERE due IS NOT NULL

-- name: LETTER_STATS like STATS
SELECT 'dead_letter' AS discipline, scope, NULL AS partition,
  {{STATS_SUMS}} FROM (
  {{LETTER_STATS_ROWS}}))
GROUP BY scope ORDER BY scope

-- name: LETTER_STATS_OF like STATS
SELECT 'dead_letter' AS discipline, scope, NULL AS partition,
  {{STATS_SUMS}} FROM (
  {{LETTER_STATS_ROWS}} AND source IN ('session','lane','outbox')
    AND scope=:scope))
GROUP BY scope

--------------------------------------------------------------------------
-- claimq_leases

-- name: LETTER_LEASES like LEASES
SELECT 'dead_letter' AS discipline, scope, letter_id AS key, {{LEASES_HELD}}
FROM {{S}}.claimq_letter NOT INDEXED WHERE {{LEASES_OF}} ORDER BY letter_id

--------------------------------------------------------------------------
-- claimq_check

-- name: LETTER_CHECK like CHECK
SELECT 'claimq_letter' AS table_name, letter_id AS row_key, problem
FROM (SELECT letter_id, CASE
    WHEN letter_id<=0 THEN 'bad letter_id'
    WHEN ifnull(source,'') NOT IN ('session','lane','outbox') THEN 'bad source'
    WHEN ifnull(status,'') NOT IN ('pending','reprocessing','resolved',
                                   'discarded') THEN 'bad status'
    {{CHECK_TEXT scope}} WHEN typeof(ref)='null' THEN 'bad ref'
    {{CHECK_TEXT_NULL headers}} {{CHECK_TEXT_NULL payload_type}}
    {{CHECK_INT created_at_ms}}
    {{CHECK_INT failed_at_ms}} {{CHECK_TEXT_NULL reason}}
    {{CHECK_TEXT_NULL error_class}} {{CHECK_COUNT attempts}}
    {{CHECK_TEXT_NULL origin}} {{CHECK_INT_NULL available_at_ms}}
    {{CHECK_BOOL promoted}}
    {{CHECK_LEASE}} {{CHECK_EXPIRES}} {{CHECK_SIZE}}
    {{CHECK_INT_NULL claim_head}}
    WHEN (claim_id IS NULL)<>(claim_head IS NULL) THEN 'half a claim'
    WHEN (claim_id IS NOT NULL)<>(status='reprocessing')
    THEN 'the status does not fit the claim'
    WHEN NOT claimq__sound(scope, headers, payload_type, reason, error_class,
        origin, {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_letter NOT INDEXED)
WHERE problem IS NOT NULL

-- name: LETTER_CHECK_CLAIMS like CHECK
SELECT 'claimq_letter' AS table_name, row_key, problem
FROM (SELECT min(letter_id) AS row_key, CASE {{CHECK_ALIKE qdc}}
    WHEN min(claim_head)<>max(claim_head)
      OR min(claim_head)<>CAST(substr(claim_id, 5) AS INTEGER)
    THEN 'bad claim_head'
  END AS problem FROM {{S}}.claimq_letter INDEXED BY claimq_letter_by_claim
  WHERE claim_head IS NOT NULL AND claim_id IS NOT NULL GROUP BY claim_id)
WHERE problem IS NOT NULL

-- name: LETTER_WHY
-- claimq_why: the open letters of a scope and a source, or of all.
SELECT letter_id, ifnull(available_at_ms, 0) AS available_at_ms, claim_id,
  ifnull(expires_at_ms, 0) AS expires_at_ms
FROM {{S}}.claimq_letter
WHERE due IS NOT NULL AND source=ifnull(:source, source)
  AND scope=ifnull(:scope, scope)
ORDER BY letter_id
