-- contest.sql: the statements of ext/contest.c.

-- name: CONTEST_HOLDER
-- Who holds the subject?  From claim_id on these are the claim's columns in
-- their order; of a subject that is kept back only expires_at_ms is there.
SELECT holder_id, claim_id, lease_token,
  CASE WHEN claim_id IS NOT NULL THEN fencing_token END AS fencing_token,
  owner_id, incarnation_id, claimed_at_ms, expires_at_ms, previous_claim_id,
  CASE WHEN claim_id IS NOT NULL THEN attempts-1 END AS earlier_attempts,
  attempts
FROM {{S}}.claimq_holder WHERE subject_kind=:kind AND subject_label=:label

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

-- name: CONTEST_ENTER
-- A new subject.
INSERT INTO {{S}}.claimq_holder(holder_id, claim_id, lease_token, owner_id,
  incarnation_id, claimed_at_ms, expires_at_ms, subject_kind, subject_label,
  fencing_token)
VALUES(:head, :claim, :token, :owner, :incarnation, :now, :expires, :kind,
  :label, :fence)

-- name: CONTEST_TAKE
-- The row is there, and its claim is not live.  On the right of = are the old
-- values.
UPDATE {{S}}.claimq_holder SET previous_claim_id=claim_id, {{STAMP}},
  fencing_token=:fence, attempts=attempts+1
WHERE holder_id=:head AND expires_at_ms<=:now

-- name: CONTEST_HOLD
SELECT claim_id, lease_token, 1 AS claim_size
FROM {{S}}.claimq_holder WHERE holder_id=:head

-- name: CONTEST_RENEW
UPDATE {{S}}.claimq_holder SET expires_at_ms=:until
WHERE holder_id=:head AND claim_id=:claim AND lease_token=:token

-- name: CONTEST_RELEASE
DELETE FROM {{S}}.claimq_holder
WHERE holder_id=:head AND claim_id=:claim AND lease_token=:token

-- name: CONTEST_KEEP_BACK
-- Released, but nobody gets it before :until.
UPDATE {{S}}.claimq_holder SET claim_id=NULL, lease_token=NULL, owner_id=NULL,
  incarnation_id=NULL, claimed_at_ms=NULL, expires_at_ms=:until,
  previous_claim_id=NULL, attempts=0
WHERE holder_id=:head AND claim_id=:claim AND lease_token=:token

-- name: FENCE_TOKEN
-- The highest token that the resource has seen.
SELECT token FROM {{S}}.claimq_fence WHERE resource=:resource

-- name: FENCE_RAISE
INSERT INTO {{S}}.claimq_fence(resource, token) VALUES(:resource, :seen)
ON CONFLICT(resource) DO UPDATE SET token=max(token, excluded.token)
