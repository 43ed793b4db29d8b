-- contest.sql: the statements of ext/contest.c.

-- name: CONTEST_HOLDER
-- Who holds subject ?1, ?2?  After the two keys the claim columns in order; of
-- a subject that is kept back only expires_at_ms is there.
SELECT holder_id, claim_id, lease_token,
  CASE WHEN claim_id IS NOT NULL THEN fencing_token END,
  owner_id, incarnation_id, claimed_at_ms, expires_at_ms, previous_claim_id,
  CASE WHEN claim_id IS NOT NULL THEN attempts-1 END, attempts
FROM main.claimq_holder WHERE subject_kind=?1 AND subject_label=?2

-- name: CONTEST_COUNTER
-- The last fencing token, and the id for the row of a new subject: the token
-- it will get.  Once the counter stands at its end that id may be taken; then
-- ids are counted from below.
SELECT value,
  CASE WHEN value<9223372036854775807 THEN value+1
       ELSE (SELECT ifnull(max(holder_id),0)+1 FROM main.claimq_holder
             WHERE holder_id<4611686018427387904)
  END
FROM main.claimq_meta WHERE name='contest_fence'

-- name: CONTEST_ENTER
-- A new subject: ?8, ?9 with id ?1 and fencing token ?10.
INSERT INTO main.claimq_holder(holder_id, claim_id, lease_token, owner_id,
  incarnation_id, claimed_at_ms, expires_at_ms, subject_kind, subject_label,
  fencing_token)
VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)

-- name: CONTEST_TAKE
-- The row ?1 is there, its claim is not live.  On the right of = are the old
-- values.
UPDATE main.claimq_holder SET previous_claim_id=claim_id,
  claim_id=?2, lease_token=?3, owner_id=?4, incarnation_id=?5,
  claimed_at_ms=?6, expires_at_ms=?7, fencing_token=?8, attempts=attempts+1
WHERE holder_id=?1

-- name: CONTEST_BY_ID
SELECT claim_id, lease_token FROM main.claimq_holder WHERE holder_id=?1

-- name: CONTEST_RENEW
UPDATE main.claimq_holder SET expires_at_ms=?2 WHERE holder_id=?1

-- name: CONTEST_RELEASE
DELETE FROM main.claimq_holder WHERE holder_id=?1

-- name: CONTEST_KEEP_BACK
-- Released, but nobody gets it before ?2.
UPDATE main.claimq_holder SET claim_id=NULL, lease_token=NULL, owner_id=NULL,
  incarnation_id=NULL, claimed_at_ms=NULL, expires_at_ms=?2,
  previous_claim_id=NULL, attempts=0
WHERE holder_id=?1

-- name: FENCE_TOKEN
-- The highest token that resource ?1 has seen.
SELECT token FROM main.claimq_fence WHERE resource=?1

-- name: FENCE_RAISE
INSERT INTO main.claimq_fence(resource, token) VALUES(?1,?2)
ON CONFLICT(resource) DO UPDATE SET token=max(token, excluded.token)
