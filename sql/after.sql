-- after.sql: the statements of ext/lane_after.c, jobs that wait for others.
-- What follows from them is done by the triggers of claimq_after and claimq_job
-- in schema.sql.

-- name: AFTER_MISSING
-- The first of a list that is no job.
SELECT l.id AS id FROM claimq_ids(:ids) AS l
WHERE NOT EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j WHERE j.job_id=l.id)
LIMIT 1

-- name: AFTER_INSERT
-- The latest first: that is the one to wait for, if it has not ended.
INSERT INTO {{S}}.claimq_after(job_id, after_id)
SELECT DISTINCT :job, l.id FROM claimq_ids(:ids) AS l ORDER BY l.id DESC

-- fragment: AFTER_UNFINISHED
-- What has not ended of the jobs that others wait for.
{{S}}.claimq_after AS a CROSS JOIN {{S}}.claimq_job AS p
WHERE p.job_id=a.after_id AND p.terminal_at_ms IS NULL

-- name: AFTER_OPEN
SELECT '['||group_concat(id)||']' AS list FROM (
  SELECT a.after_id AS id FROM {{AFTER_UNFINISHED}} AND a.job_id=:job
  ORDER BY a.after_id LIMIT 100)

-- fragment: AFTER_FLOW_JOBS
-- The jobs of a flow that claimq_cancel_flow() cancels.
SELECT j.job_id FROM {{S}}.claimq_flow_job AS f CROSS JOIN {{S}}.claimq_job AS j
WHERE f.flow_id=:flow AND j.job_id=f.job_id AND j.flow_id=f.flow_id
  AND j.terminal_at_ms IS NULL AND (:force OR NOT ({{LANE_LIVE}}))

-- name: AFTER_FLOW
SELECT EXISTS ({{AFTER_FLOW_JOBS}}) AS any_job

-- name: AFTER_CANCEL_FLOW like AFTER_FLOW
UPDATE {{S}}.claimq_job SET {{LANE_CANCELLED}}
WHERE job_id IN ({{AFTER_FLOW_JOBS}})

-- name: AFTER_UNIQUE
-- The source key of a new job stays taken.
INSERT INTO {{S}}.claimq_unique(lane_id, source_key, job_id, until_ms)
VALUES(:lane, :source_key, :job, :until)
ON CONFLICT DO UPDATE SET job_id=excluded.job_id, until_ms=excluded.until_ms

--------------------------------------------------------------------------
-- claimq_vacuum()

-- name: AFTER_OLD like VACUUM_DELETE
-- What jobs that go waited for.
DELETE FROM {{S}}.claimq_after
WHERE (job_id, after_id) IN (
  SELECT a.job_id, a.after_id FROM claimq_ids(:ids) AS l
    CROSS JOIN {{S}}.claimq_after AS a ON a.job_id=l.id
  LIMIT :limit)

--------------------------------------------------------------------------
-- claimq_check

-- name: AFTER_CHECK like CHECK
SELECT 'claimq_after' AS table_name, job_id||'/'||after_id AS row_key, problem
FROM (SELECT a.job_id, a.after_id, CASE
    WHEN typeof(a.job_id)<>'integer' OR typeof(a.after_id)<>'integer'
      OR a.after_id>=a.job_id OR a.after_id<=0 THEN 'bad after_id'
    WHEN j.job_id IS NULL THEN 'its job is not there'
    WHEN j.on_failure IS NULL THEN 'its job has no on_failure'
    WHEN j.terminal_at_ms IS NOT NULL OR p.job_id IS NULL
      OR p.terminal_at_ms IS NOT NULL THEN NULL
    WHEN p.awaited IS NULL THEN 'after_id does not know that it is awaited'
    WHEN j.state<>'blocked' THEN 'its job is not blocked'
    WHEN j.waits_for<a.after_id THEN 'its job does not wait for it'
  END AS problem
  FROM {{S}}.claimq_after AS a NOT INDEXED
    LEFT JOIN {{S}}.claimq_job AS j ON j.job_id=a.job_id
    LEFT JOIN {{S}}.claimq_job AS p ON p.job_id=a.after_id)
WHERE problem IS NOT NULL

-- name: AFTER_CHECK_JOB like CHECK
-- Nobody is left blocked; and jobs are found by their flow.
SELECT 'claimq_job' AS table_name, job_id AS row_key, problem
FROM (SELECT job_id, CASE
    {{CHECK_INT_NULL waits_for}} {{CHECK_INT_NULL awaited}}
    WHEN on_failure NOT IN ('cancel','run')
      OR on_failure IS NULL AND state='blocked' THEN 'bad on_failure'
    WHEN (waits_for IS NULL)=(state='blocked')
    THEN 'waits_for does not fit the state'
    WHEN state='blocked' AND NOT EXISTS (
      SELECT 1 FROM {{AFTER_UNFINISHED}} AND a.job_id=j.job_id
        AND a.after_id=j.waits_for)
    THEN 'blocked, and waits for no job that has not ended'
    WHEN flow_id IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM {{S}}.claimq_flow_job AS f
      WHERE f.flow_id=j.flow_id AND f.job_id=j.job_id)
    THEN 'it is not in claimq_flow_job'
    WHEN source_key IS NOT NULL AND terminal_at_ms IS NULL
      AND (EXISTS (SELECT 1 FROM {{S}}.claimq_after AS a
                   WHERE a.job_id=j.job_id)
        OR EXISTS (SELECT 1 FROM {{S}}.claimq_after AS a
                   WHERE a.after_id=j.job_id))
      AND NOT EXISTS (
        SELECT 1 FROM {{S}}.claimq_tied AS t WHERE t.lane_id=j.lane_id
          AND t.source_key=j.source_key AND t.job_id=j.job_id)
    THEN 'it is not in claimq_tied'
  END AS problem FROM {{S}}.claimq_job AS j NOT INDEXED)
WHERE problem IS NOT NULL

-- fragment: AFTER_CHECK_HINT
-- Rows of table $1, whose key is $2 and $3, are hints, and REPLACE leaves those
-- of the job that it removes.  But none is of a job that never was.
SELECT '$1' AS table_name, $2||'/'||$3 AS row_key,
  'there never was its job' AS problem
FROM {{S}}.$1
WHERE typeof(job_id)<>'integer' OR job_id NOT BETWEEN 1 AND ifnull((
  SELECT seq FROM {{S}}.sqlite_sequence WHERE name='claimq_job'), 0)

-- name: AFTER_CHECK_UNIQUE like CHECK
{{AFTER_CHECK_HINT claimq_unique lane_id source_key}}

-- name: AFTER_CHECK_TIED like CHECK
{{AFTER_CHECK_HINT claimq_tied lane_id source_key}}

-- name: AFTER_CHECK_FLOW like CHECK
{{AFTER_CHECK_HINT claimq_flow_job flow_id job_id}}
