-- step.sql: the statements of ext/engine/step.c, the steps of jobs and batches.
-- Those of a discipline stand in a list of their own (CqDiscipline.aStep).

-- name: STEP_FIND
SELECT value FROM {{S}}.claimq_steps WHERE job_id=:head AND name=:name

-- name: STEP_FIND_BATCH like STEP_FIND
SELECT value FROM {{S}}.claimq_batch_steps
WHERE enqueue_seq=:head AND name=:name

-- name: STEP_FAST like STEP_FIND
-- The usual case: the claim is live, and there is no such step yet.
INSERT INTO {{S}}.claimq_steps(job_id, name, value, at_ms)
SELECT :head, :name, :value, {{NOW}} FROM {{S}}.claimq_job
WHERE {{LANE_HELD}} AND expires_at_ms>{{NOW}}
ON CONFLICT DO NOTHING

-- name: STEP_FAST_BATCH like STEP_FIND
INSERT INTO {{S}}.claimq_batch_steps(enqueue_seq, name, value, at_ms)
SELECT :head, :name, :value, {{NOW}} FROM {{S}}.claimq_batch
WHERE {{SESSION_ONE}} AND expires_at_ms>{{NOW}}
ON CONFLICT DO NOTHING

-- name: STEP_PUT like STEP_FIND
-- The same when all that has been looked at.
INSERT INTO {{S}}.claimq_steps(job_id, name, value, at_ms)
VALUES(:head, :name, :value, :now) ON CONFLICT DO NOTHING

-- name: STEP_PUT_BATCH like STEP_FIND
INSERT INTO {{S}}.claimq_batch_steps(enqueue_seq, name, value, at_ms)
VALUES(:head, :name, :value, :now) ON CONFLICT DO NOTHING

-- name: STEP_MOVE
-- The work of a dead letter has become the row :key, and so have its steps.
UPDATE {{S}}.claimq_steps SET job_id=:key
WHERE job_id=(SELECT ref FROM {{S}}.claimq_letter WHERE letter_id=:letter)

-- fragment: STEP_ORIGIN
-- The batch that became a letter: what its origin begins with.
CAST(substr(g.origin, 16) AS INTEGER)

-- fragment: STEP_OF_BATCH
g.source='session' AND substr(g.origin, 1, 15)='{"enqueue_seq":'

-- name: STEP_MOVE_BATCH like STEP_MOVE
UPDATE {{S}}.claimq_batch_steps SET enqueue_seq=:key
WHERE enqueue_seq=(SELECT {{STEP_ORIGIN}} FROM {{S}}.claimq_letter AS g
                   WHERE g.letter_id=:letter AND {{STEP_OF_BATCH}})

--------------------------------------------------------------------------
-- The row has gone.

-- name: STEP_GONE like END_ATTEMPT
DELETE FROM {{S}}.claimq_steps
WHERE job_id IN (SELECT id FROM claimq__ids(:ids))

-- name: STEP_GONE_BATCH
DELETE FROM {{S}}.claimq_batch_steps WHERE enqueue_seq=:seq

-- name: STEP_ANY
-- Has any job steps?
SELECT 1 AS one FROM {{S}}.claimq_steps LIMIT 1

-- name: STEP_OF
-- Has this one?
SELECT 1 AS one FROM {{S}}.claimq_steps WHERE job_id=:job LIMIT 1

-- name: STEP_OLD like VACUUM_DELETE
-- Steps of jobs that go, at most :limit.
DELETE FROM {{KEEP_OF claimq_steps name}}

-- name: STEP_OLD_LETTER like VACUUM_DELETE
-- Steps of batches whose dead letters go.
DELETE FROM {{S}}.claimq_batch_steps
WHERE (enqueue_seq, name) IN (
  SELECT t.enqueue_seq, t.name FROM claimq__ids(:ids) AS l
    CROSS JOIN {{S}}.claimq_letter AS g ON g.letter_id=l.id
    CROSS JOIN {{S}}.claimq_batch_steps AS t ON t.enqueue_seq={{STEP_ORIGIN}}
  WHERE {{STEP_OF_BATCH}}
  LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_check

-- name: STEP_CHECK like CHECK
SELECT 'claimq_steps' AS table_name, job_id||'/'||name AS row_key, problem
FROM (SELECT job_id, name, CASE
    {{CHECK_INT job_id}} {{CHECK_TEXT name}} {{CHECK_INT at_ms}}
    WHEN NOT EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j
                     WHERE j.job_id=t.job_id) THEN 'its job is not there'
    WHEN NOT claimq__sound(name)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_steps AS t)
WHERE problem IS NOT NULL

-- name: STEP_CHECK_BATCH like CHECK
SELECT 'claimq_batch_steps' AS table_name, enqueue_seq||'/'||name AS row_key,
  problem
FROM (SELECT enqueue_seq, name, CASE
    {{CHECK_INT enqueue_seq}} {{CHECK_TEXT name}} {{CHECK_INT at_ms}}
    WHEN NOT EXISTS (SELECT 1 FROM {{S}}.claimq_batch AS b
                     WHERE b.enqueue_seq=t.enqueue_seq)
      AND enqueue_seq NOT IN (SELECT {{STEP_ORIGIN}}
        FROM {{S}}.claimq_letter AS g NOT INDEXED WHERE {{STEP_OF_BATCH}})
    THEN 'its batch is not there'
    WHEN NOT claimq__sound(name)
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_batch_steps AS t)
WHERE problem IS NOT NULL
