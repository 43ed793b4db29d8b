-- txn.sql: transactions.  See ext/store/txn.c for when each is used.
-- Statements whose names begin with TXN_ run before anything is known of the
-- tables.

-- name: TXN_SAVEPOINT
SAVEPOINT claimq

-- name: TXN_RELEASE
RELEASE claimq

-- name: TXN_ROLLBACK
ROLLBACK TO claimq

-- name: TXN_ABANDON
ROLLBACK

-- name: TXN_PROBE
-- Does nothing; but whether SQLite had to prepare it again is worth knowing.
SELECT 1

-- name: TXN_JOURNAL
PRAGMA {{S}}.journal_mode

-- name: TXN_CHECKPOINT
-- After how many pages to checkpoint; 0: the user does it, or nobody.  The
-- answer is part of the program, but a PRAGMA is prepared again for each run.
PRAGMA wal_autocheckpoint

-- name: TXN_BUSY_TIMEOUT
-- Not to be kept: the answer is found when it is prepared.
PRAGMA busy_timeout

-- name: TXN_LOCKING
-- normal: the memory of the WAL is shared.  See ext/store/gate.c.
PRAGMA {{S}}.locking_mode

-- name: TXN_LOCK
-- Takes the write lock of main, and nothing else.
UPDATE {{S}}.claimq_meta SET value=value WHERE 0

-- name: TXN_ALONE
-- Runs a task inside a writing statement, and undoes it if it fails: this
-- UPDATE has a statement journal, because it might change several rows and
-- might abort.  It changes none: claimq__alone() returns 0.
UPDATE {{S}}.claimq_meta SET value=value
WHERE name BETWEEN 'schema_version' AND 'schema_version'
  AND claimq__alone(:task)

-- name: TXN_INIT_LOCK
-- The same where none of our tables may be there yet.
CREATE TABLE {{S}}.claimq_init_lock(x)

-- name: TXN_INIT_UNLOCK
DROP TABLE IF EXISTS {{S}}.claimq_init_lock

-- name: TXN_INIT_GUARD
-- A write that is under way while indexes are made: see claimqTxnGuard().  OR
-- FAIL keeps it from having a statement journal.
UPDATE OR FAIL {{S}}.claimq_meta SET value=value WHERE name='schema_version'
RETURNING 1 AS one
