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
--   :clock        for {{NOW}} and {{LATER}}, where it is not known yet
--   :lease        of renew: how long the lease lasts from now on
--   :at, :delay   of new work: see {{AVAILABLE}}
--   :until        of a verb: the new expiry, or the time at which the work is
--                 due again; NULL: as it was
--   :reason       of a verb: why it failed
--   :wrote        for {{WROTE}}
--
-- Every discipline has a statement *_HOLD, which finds the head row of a claim,
-- :head, and says whose it is, which fencing token was its last, and when its
-- lease ends.
--
-- columns: HOLD claim_id lease_token claim_size fencing_token expires_at_ms
-- common: head claim token owner incarnation now expires until reason clock
-- common: lease at delay wrote

-- fragment: STAMP
-- What every claim writes to its rows.
claim_id=:claim, lease_token=:token, owner=:owner,
incarnation=:incarnation, claimed_at_ms=:now, expires_at_ms=:expires

-- fragment: CLAIM_NONE
-- No claim holds the row.
claim_id=NULL, lease_token=NULL, owner=NULL, incarnation=NULL,
claimed_at_ms=NULL, expires_at_ms=NULL

-- fragment: FENCE
-- The fencing token after this one.
fencing_token+(fencing_token<9223372036854775807)

-- fragment: LETTER_INTO
-- What a discipline writes into a new dead letter.
source, scope, ref, payload, headers, payload_type, created_at_ms,
failed_at_ms, reason, error_class, attempts, origin

-- fragment: NOW
-- The time of the call, in a statement that writes without having read anything
-- before: it may have to wait for its lock, so the clock is read when it has
-- it.  And it must see for itself whether the clock may be used, and whether
-- the format and the connection are still as they should be.
claimq__clock(:clock)

-- fragment: LATER
-- The same, and $1 milliseconds later.
claimq__clock(:clock, $1)

-- fragment: WROTE
-- $1, in a statement that writes, once for each row that it is to write: if
-- fewer are written, a trigger of the user's has left one out (RAISE(IGNORE)),
-- and claimqExec() raises conflict.
claimq__note(:wrote, $1)

-- fragment: AVAILABLE
-- When new work is available: at :at, or :delay from now if that is NULL.
ifnull(:at, {{LATER :delay}})

-- name: DONE_RESULT
-- A result that stands in a list of claims that are done (engine/done.c).  Of a
-- text also what it is: ->> leaves out what comes after a NUL.
SELECT ifnull(:value, :json ->> '$') AS result
