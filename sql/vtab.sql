-- vtab.sql: what the virtual tables ask of SQLite itself.

-- name: CLAIM_EXPLAIN
-- %s: the text of a statement that is running.
EXPLAIN %s

-- name: LOAD_MODULES
PRAGMA module_list
