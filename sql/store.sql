-- store.sql: the statement cache, virtual tables, the version of the schema.

-- name: CACHE_OWN
-- Preparing this connects the table that owns the statement cache.
SELECT name FROM claimq_stmt

-- name: CACHE_DECLARE
CREATE TABLE x(name TEXT, sql TEXT, runs INTEGER, vm_steps INTEGER)

-- name: IDS_DECLARE
-- After the first three, the claim's columns in their order.
CREATE TABLE x(id INTEGER, list HIDDEN, turn INTEGER, claim_id TEXT,
  lease_token TEXT, fencing_token INTEGER, owner_id TEXT, incarnation_id TEXT,
  claimed_at_ms INTEGER, expires_at_ms INTEGER, previous_claim_id TEXT)

-- name: CLAIM_DECLARE
-- %s: the columns of a claim table.
CREATE TABLE x(%s)

-- name: CLAIM_ATTACH
-- %s: the name of a claim table, twice.
CREATE VIRTUAL TABLE IF NOT EXISTS temp."%s" USING "%s"

-- name: META_VERSION
SELECT value FROM {{S}}.claimq_meta WHERE name='schema_version'

-- name: META_SETTINGS
-- The settings of claimq_init(), a bit for each; a text, whose bytes tell
-- whether the database is in UTF-8; and the version.
SELECT value, name, (SELECT value FROM {{S}}.claimq_meta
  WHERE name='schema_version') AS version
FROM {{S}}.claimq_meta WHERE name='settings'

-- name: META_SET
UPDATE {{S}}.claimq_meta SET value=:settings WHERE name='settings'

-- name: META_MIGRATED
UPDATE {{S}}.claimq_meta SET value=:version WHERE name='schema_version'

-- name: SCHEMA_OBJECT
-- The trigger of this name, or what else has it: names of triggers are apart
-- from those of tables, views and indexes.
SELECT type, tbl_name, sql FROM {{S}}.sqlite_schema
WHERE name=:name COLLATE NOCASE AND (type='trigger')=:trigger

-- name: SCHEMA_BUMP
-- Made and dropped again, so that all connections prepare their statements
-- anew: see claimqSettings().
CREATE VIEW {{S}}.claimq_settings_changed AS SELECT 1

-- name: SCHEMA_BUMPED
DROP VIEW {{S}}.claimq_settings_changed

-- name: SCHEMA_DROP
-- %s: the type of an object, and its name.
DROP %s {{S}}.%s
