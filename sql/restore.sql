-- restore.sql: the statements of ext/restore.c.  Each makes counters jump by
-- :jump, which no backup is behind.

-- name: RESTORE_KEYS
-- Keys that AUTOINCREMENT gives, of tables that have given some ...
UPDATE {{S}}.sqlite_sequence SET seq=min(seq, 9223372036854775807-:jump)+:jump
WHERE name GLOB 'claimq_*'

-- name: RESTORE_NEW_KEYS like RESTORE_KEYS
-- ... and of those that have given none yet.
INSERT INTO {{S}}.sqlite_sequence(name, seq)
SELECT name, :jump FROM {{S}}.sqlite_schema AS t
WHERE type='table' AND name GLOB 'claimq_*' AND sql LIKE '%AUTOINCREMENT%'
  AND NOT EXISTS (SELECT 1 FROM {{S}}.sqlite_sequence AS s WHERE s.name=t.name)
ORDER BY name

-- name: RESTORE_FENCE like RESTORE_KEYS
-- Tokens of contests.
UPDATE {{S}}.claimq_meta
SET value=min(value, 9223372036854775807-:jump)+:jump
WHERE name='contest_fence'

-- name: RESTORE_SEQUENCES like RESTORE_KEYS
-- Numbers of messages: the only gap there is.
UPDATE {{S}}.claimq_partition
SET last_seq=min(last_seq, 9223372036854775807-:jump)+:jump
