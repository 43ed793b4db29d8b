-- store.sql: the statement cache, virtual tables, the version of the schema.

-- name: CACHE_OWN
-- Preparing this connects the table that owns the statement cache.
SELECT name FROM claimq_stmt

-- name: CACHE_DECLARE
CREATE TABLE x(name TEXT, sql TEXT, runs INTEGER, vm_steps INTEGER)

-- name: IDS_DECLARE
-- After the first three, the claim's columns in their order.
CREATE TABLE x(id INTEGER, list HIDDEN, turn INTEGER, claim_id TEXT,
  lease_token TEXT, fencing_token INTEGER, owner TEXT, incarnation TEXT,
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
-- whether the database is in UTF-8; the version; and the number of the rules.
SELECT value, name, (SELECT value FROM {{S}}.claimq_meta
  WHERE name='schema_version') AS version, (SELECT value FROM {{S}}.claimq_meta
  WHERE name='rules') AS rules
FROM {{S}}.claimq_meta WHERE name='settings'

-- name: META_SET
UPDATE {{S}}.claimq_meta SET value=:settings WHERE name='settings'

-- name: META_RULES
UPDATE {{S}}.claimq_meta SET value=:rules WHERE name='rules' AND value<:rules

-- name: META_MIGRATED
UPDATE {{S}}.claimq_meta SET value=:version WHERE name='schema_version'

-- name: SCHEMA_OBJECT
-- The trigger of this name, or what else has it: names of triggers are apart
-- from those of tables, views and indexes.
SELECT type, tbl_name, sql FROM {{S}}.sqlite_schema
WHERE name=:name COLLATE NOCASE AND (type='trigger')=:trigger

-- name: SCHEMA_ALL
-- All that may have one of our names.
SELECT type, name, tbl_name, sql FROM {{S}}.sqlite_schema
WHERE name>='claimq_' COLLATE NOCASE AND name<'claimq`' COLLATE NOCASE

-- name: SCHEMA_BUMP
-- Made and dropped again, so that all connections prepare their statements
-- anew: see claimqSettings().
CREATE VIEW {{S}}.claimq_settings_changed AS SELECT 1

-- name: SCHEMA_BUMPED
DROP VIEW {{S}}.claimq_settings_changed

-- name: SCHEMA_DROP
-- %s: the type of an object, and its name.
DROP %s {{S}}.%s

-- Making a table anew: see cqSchemaRemake() of ext/store/init.c.

-- name: SCHEMA_STORED
SELECT sql FROM {{S}}.sqlite_schema WHERE type='table' AND name=:name

-- name: SCHEMA_COLUMNS like SCHEMA_STORED
-- The columns that are stored.
SELECT group_concat('"'||replace(name, '"', '""')||'"') AS sql
FROM pragma_table_xinfo(:name, '{{S}}') WHERE hidden=0

-- name: SCHEMA_SEQUENCE like SCHEMA_STORED
SELECT CAST(seq AS TEXT) AS sql FROM {{S}}.sqlite_sequence WHERE name=:name

-- name: SCHEMA_SEQUENCE_SET like SCHEMA_STORED
UPDATE {{S}}.sqlite_sequence SET seq=CAST(:seq AS INTEGER) WHERE name=:name

-- name: SCHEMA_REFERRED like SCHEMA_STORED
-- A table that refers to this one.
SELECT m.name AS sql FROM {{S}}.sqlite_schema AS m
  CROSS JOIN pragma_foreign_key_list(m.name, '{{S}}') AS f
WHERE m.type='table' AND f."table"=:name COLLATE NOCASE

-- name: SCHEMA_TEMP like SCHEMA_STORED
-- A trigger of this connection alone.
SELECT name AS sql FROM temp.sqlite_schema
WHERE type='trigger' AND tbl_name=:name COLLATE NOCASE

-- name: SCHEMA_OTHERS
-- What goes with a table.
SELECT type, name, sql FROM {{S}}.sqlite_schema
WHERE type IN ('index','trigger') AND sql IS NOT NULL
  AND tbl_name=:name COLLATE NOCASE
ORDER BY rowid

-- name: SCHEMA_COPY
-- %s: the columns, the table.  Not in temp: there CREATE TABLE makes all
-- prepared statements expire, among them those that undo.
CREATE TABLE {{S}}.claimq_copy AS SELECT %s FROM {{S}}.%s

-- name: SCHEMA_COPY_BACK
-- %s: the table, the columns, once more.
INSERT INTO {{S}}.%s(%s) SELECT %s FROM {{S}}.claimq_copy ORDER BY rowid

-- name: SCHEMA_COPIED
DROP TABLE {{S}}.claimq_copy

-- fragment: DEFAULT_NOW
-- The time of a plain INSERT that gives none.
DEFAULT (CAST(round((julianday('now')-2440587.5)*86400000) AS INTEGER))
