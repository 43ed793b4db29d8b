-- txn.sql: transactions, the statement cache, virtual table declarations.
-- See vtab/txn.c for when each is used.

-- name: TXN_SAVEPOINT
SAVEPOINT claimq

-- name: TXN_RELEASE
RELEASE claimq

-- name: TXN_ROLLBACK
ROLLBACK TO claimq

-- name: TXN_ABANDON
ROLLBACK

-- name: TXN_PROBE
-- Does nothing; that SQLite had to prepare it again tells something.
SELECT 1

-- name: TXN_LOCK
-- Takes the write lock of main, and nothing else.
UPDATE main.claimq_meta SET value=value WHERE 0

-- name: TXN_GUARD
-- Has a row before it reads anything.
SELECT 1 UNION ALL SELECT 1 FROM temp.sqlite_schema

-- name: INIT_LOCK
-- The same where none of our tables may be there yet.
CREATE TABLE main.claimq_init_lock(x)

-- name: INIT_UNLOCK
DROP TABLE IF EXISTS main.claimq_init_lock

-- name: INIT_GUARD
-- A write that is under way while indexes are made: see claimqTxnGuard().  OR
-- FAIL keeps it from having a statement journal.
UPDATE OR FAIL main.claimq_meta SET value=value WHERE name='schema_version'
RETURNING 1

-- name: CACHE_OWN
-- Preparing this connects the table that owns the statement cache.
SELECT name FROM claimq_stmt

-- name: CACHE_DECLARE
CREATE TABLE x(name TEXT, sql TEXT, runs INTEGER, vm_steps INTEGER)

-- name: IDS_DECLARE
CREATE TABLE x(id INTEGER, list HIDDEN, claim_id TEXT, lease_token TEXT)

-- name: CLAIM_DECLARE
-- %s: the columns of a claim table.
CREATE TABLE x(%s)

-- name: CLAIM_ATTACH
-- %s: the name of a claim table, twice.
CREATE VIRTUAL TABLE IF NOT EXISTS temp."%s" USING "%s"

-- name: META_VERSION
SELECT value FROM main.claimq_meta WHERE name='schema_version'

-- name: SCHEMA_HAS
-- 1 if main has an object of this name.
SELECT 1 FROM main.sqlite_schema WHERE name=?1

