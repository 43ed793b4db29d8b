-- ticket.sql: the statements of ticket.c.

-- schema:
-- One row for each ticket of a booth; whoever claims it may sell it.
CREATE TABLE {{S}}.claimq_ticket(
  ticket_id      INTEGER PRIMARY KEY,
  booth          TEXT NOT NULL,
  fencing_token  INTEGER NOT NULL DEFAULT 0,
  claim_id       TEXT,
  lease_token    TEXT,
  owner          TEXT,
  incarnation    TEXT,
  claimed_at_ms  INTEGER,
  expires_at_ms  INTEGER
) STRICT;
CREATE INDEX {{S}}.claimq_ticket_by_booth ON claimq_ticket(booth);

-- name: TICKET_NEXT
-- The first ticket of a booth that nobody holds.
SELECT ticket_id, booth, fencing_token, claim_id
FROM {{S}}.claimq_ticket INDEXED BY claimq_ticket_by_booth
WHERE booth=:booth AND (claim_id IS NULL OR expires_at_ms<=:now)
ORDER BY ticket_id LIMIT 1

-- name: TICKET_STAMP
UPDATE {{S}}.claimq_ticket SET {{STAMP}}, fencing_token={{FENCE}}
WHERE ticket_id=:head AND (claim_id IS NULL OR expires_at_ms<=:now)

-- name: TICKET_HOLD
SELECT claim_id, lease_token, 1 AS claim_size, fencing_token, expires_at_ms
FROM {{S}}.claimq_ticket WHERE ticket_id=:head

-- fragment: TICKET_MINE
WHERE ticket_id=:head AND claim_id=:claim AND lease_token=:token

-- name: TICKET_RENEW
UPDATE {{S}}.claimq_ticket SET expires_at_ms=:until {{TICKET_MINE}}

-- name: TICKET_SELL
DELETE FROM {{S}}.claimq_ticket {{TICKET_MINE}}

-- name: TICKET_BACK
UPDATE {{S}}.claimq_ticket SET {{CLAIM_NONE}} {{TICKET_MINE}}

-- name: TICKET_PRINT
INSERT INTO {{S}}.claimq_ticket(booth) VALUES(:booth)
