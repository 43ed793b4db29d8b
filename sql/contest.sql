-- contest.sql: the statements of ext/contest/contest.c.

-- name: CONTEST_HOLDER
-- Who holds the subject?  From claim_id on these are the claim's columns in
-- their order; of a subject that is kept back only expires_at_ms is there.
SELECT holder_id, claim_id, lease_token,
  CASE WHEN claim_id IS NOT NULL THEN fencing_token END AS fencing_token,
  owner, incarnation, claimed_at_ms, expires_at_ms, previous_claim_id,
  CASE WHEN claim_id IS NOT NULL THEN attempts-1 END AS earlier_attempts,
  attempts
FROM {{S}}.claimq_holder WHERE kind=:kind AND label=:label

-- name: CONTEST_COUNTER
-- The last fencing token, and the id for the row of a new subject: the token
-- it will get.  Once the counter stands at its end that id may be taken; then
-- ids are counted from below.
SELECT value AS last_token,
  CASE WHEN value<9223372036854775807 THEN value+1
       ELSE (SELECT ifnull(max(holder_id),0)+1 FROM {{S}}.claimq_holder
             WHERE holder_id<4611686018427387904)
  END AS new_id
FROM {{S}}.claimq_meta WHERE name='contest_fence'

-- fragment: CONTEST_NEXT
-- The next token.  It is still :fence if nobody has won since the counter was
-- read.
(SELECT value+(value<9223372036854775807) FROM {{S}}.claimq_meta
 WHERE name='contest_fence')

-- name: CONTEST_ENTER
-- A new subject.  If the next token is not :next, then
-- the row has none, and that is an error.  (For SELECT ... WHERE instead of
-- VALUES, SQLite would make a temporary table, because the table has a trigger:
-- a fifth of a contest and its release.)
INSERT INTO {{S}}.claimq_holder(holder_id, claim_id, lease_token, owner,
  incarnation, claimed_at_ms, expires_at_ms, kind, label,
  fencing_token)
VALUES(:head, :claim, :token, :owner, :incarnation, :now, :expires, :kind,
  :label, iif(claimq__note(:next, {{CONTEST_NEXT}})=:fence, :fence, NULL))
ON CONFLICT(kind, label) DO NOTHING

-- name: CONTEST_TAKE
-- The row is there, and its claim is not live.  On the right of = are the old
-- values.
UPDATE {{S}}.claimq_holder SET previous_claim_id=claim_id, {{STAMP}},
  fencing_token=:fence, attempts=attempts+1
WHERE holder_id=:head AND expires_at_ms<=:now AND {{CONTEST_NEXT}}=:fence

-- name: CONTEST_HOLD
SELECT claim_id, lease_token, 1 AS claim_size, fencing_token, expires_at_ms
FROM {{S}}.claimq_holder WHERE holder_id=:head

-- name: CONTEST_RENEW
UPDATE {{S}}.claimq_holder SET expires_at_ms={{LATER :lease}}
WHERE holder_id=:head AND claim_id=:claim AND lease_token=:token

-- name: CONTEST_RELEASE
DELETE FROM {{S}}.claimq_holder
WHERE holder_id=:head AND claim_id=:claim AND lease_token=:token
  AND {{NOW}} IS NOT NULL

-- name: CONTEST_KEEP_BACK
-- Released, but nobody gets it before :until.
UPDATE {{S}}.claimq_holder SET claim_id=NULL, lease_token=NULL, owner=NULL,
  incarnation=NULL, claimed_at_ms=NULL, expires_at_ms=:until,
  previous_claim_id=NULL, attempts=0
WHERE holder_id=:head AND claim_id=:claim AND lease_token=:token

-- name: FENCE_TOKEN
-- The highest token that the resource has seen.
SELECT token FROM {{S}}.claimq_fence WHERE resource=:resource

-- name: FENCE_RAISE
INSERT INTO {{S}}.claimq_fence(resource, token)
VALUES({{WROTE :resource}}, :seen)
ON CONFLICT(resource) DO UPDATE SET token=max(token, excluded.token)

--------------------------------------------------------------------------
-- claimq_stats

-- fragment: CONTEST_FROM
-- Of a subject that is kept back.
iif(claim_id IS NULL, expires_at_ms, 0)

-- fragment: CONTEST_STATS_ROWS
SELECT kind||'/'||label AS scope,
  {{STATS_STATE STATS_CLAIMED CONTEST_FROM}}
FROM {{S}}.claimq_holder

-- name: CONTEST_STATS like STATS
SELECT 'contest' AS discipline, scope, NULL AS partition,
  {{STATS_SUMS}} FROM (
  {{CONTEST_STATS_ROWS}})
GROUP BY scope ORDER BY scope

-- name: CONTEST_STATS_OF like STATS
-- The number in front of the slash is what CAST finds.
SELECT 'contest' AS discipline, scope, NULL AS partition,
  {{STATS_SUMS}} FROM (
  {{CONTEST_STATS_ROWS}} WHERE kind=CAST(:scope AS INTEGER)
    AND label=substr(:scope, instr(:scope, '/')+1))
WHERE scope=:scope GROUP BY scope

--------------------------------------------------------------------------
-- claimq_leases

-- name: CONTEST_LEASES like LEASES
SELECT 'contest' AS discipline, kind||'/'||label AS scope, label AS key,
  {{LEASES_HELD}}
FROM {{S}}.claimq_holder NOT INDEXED WHERE {{LEASES_OF}} ORDER BY holder_id

--------------------------------------------------------------------------
-- claimq_check

-- name: CONTEST_CHECK like CHECK
SELECT 'claimq_holder' AS table_name, holder_id AS row_key, problem
FROM (SELECT holder_id, CASE
    WHEN holder_id<=0 THEN 'bad holder_id'
    WHEN typeof(kind)<>'integer' OR kind NOT BETWEEN 0 AND 255
    THEN 'bad kind'
    {{CHECK_TEXT label}} {{CHECK_COUNT attempts}}
    {{CHECK_TEXT_NULL previous_claim_id}} {{CHECK_INT expires_at_ms}}
    {{CHECK_LEASE}} {{CHECK_ONE_CLAIM qsc holder_id}}
    WHEN fencing_token>(SELECT value FROM {{S}}.claimq_meta
                        WHERE name='contest_fence')
    THEN 'fencing_token is after contest_fence of claimq_meta'
    WHEN NOT claimq__sound(label, previous_claim_id,
        {{CHECK_LEASE_TEXTS}})
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_holder)
WHERE problem IS NOT NULL

-- name: CONTEST_CHECK_FENCE like CHECK
SELECT 'claimq_fence' AS table_name, resource AS row_key, problem
FROM (SELECT resource, CASE {{CHECK_TEXT resource}} {{CHECK_INT token}}
    WHEN NOT claimq__sound(resource) {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_fence)
WHERE problem IS NOT NULL
