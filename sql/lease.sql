-- lease.sql: what the statements of all disciplines share.
--
-- These parameters mean the same wherever they stand, and are bound by
-- claimq's engine (claimqLeaseBind(), claimqVerbBind()):
--
--   :head         the key of the claim's first row, which the claim id names
--   :claim        the claim id
--   :token        the lease token
--   :owner, :incarnation, :expires    of the lease that is given
--   :now          the time of the call
--   :until        of a verb: the new expiry, or the time at which the work is
--                 due again; NULL: as it was
--   :reason       of a verb: why it failed
--
-- Every discipline has a statement *_HOLD, which finds the head row of a claim,
-- :head, and says whose it is, and which fencing token was its last.
--
-- columns: HOLD claim_id lease_token claim_size fencing_token
-- common: head claim token owner incarnation now expires until reason

-- fragment: STAMP
-- What every claim writes to its rows.
claim_id=:claim, lease_token=:token, owner_id=:owner,
incarnation_id=:incarnation, claimed_at_ms=:now, expires_at_ms=:expires

-- fragment: CLAIM_NONE
-- No claim holds the row.
claim_id=NULL, lease_token=NULL, owner_id=NULL, incarnation_id=NULL,
claimed_at_ms=NULL, expires_at_ms=NULL

-- fragment: FENCE
-- The fencing token after this one.
fencing_token+(fencing_token<9223372036854775807)

-- fragment: LETTER_INTO
-- What a discipline writes into a new dead letter.
source, scope, ref, payload, payload_type, created_at_ms, failed_at_ms, reason,
error_class, attempts, origin

-- fragment: NOW
-- The time of the call, in a statement that writes without having read anything
-- before: it must see for itself whether the clock may be used, and whether
-- the format and the connection are still as they should be.
claimq_clock(:now)
