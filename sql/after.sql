-- after.sql: the statements of ext/lane/after.c, jobs that wait for others.

-- name: AFTER_MISSING
-- The first of a list that is no job.
SELECT l.id AS id FROM claimq__ids(:ids) AS l
WHERE NOT EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j WHERE j.job_id=l.id)
LIMIT 1

-- name: AFTER_NEVER like AFTER_MISSING
-- The first of a list that never was one.
SELECT l.id AS id FROM claimq__ids(:ids) AS l
WHERE NOT EXISTS (SELECT 1 FROM {{S}}.claimq_job AS j WHERE j.job_id=l.id)
  AND (l.id<=0 OR l.id>ifnull((SELECT seq FROM {{S}}.sqlite_sequence
                               WHERE name='claimq_job'), 0))
LIMIT 1

-- name: AFTER_CYCLE
-- Does one of a list wait for :job, or for one that does; or is it that job?
WITH RECURSIVE before(id) AS (
  SELECT l.id FROM claimq__ids(:ids) AS l
  UNION
  SELECT a.after_id FROM before CROSS JOIN {{S}}.claimq_job AS j
    CROSS JOIN {{S}}.claimq_after AS a
  WHERE j.job_id=before.id AND j.state='blocked' AND a.job_id=j.job_id)
SELECT 1 AS one FROM before WHERE id=:job LIMIT 1

-- name: AFTER_INSERT
-- The latest first: that is the one to wait for, if it has not ended.
INSERT INTO {{S}}.claimq_after(job_id, after_id)
SELECT {{WROTE :job}}, id
FROM (SELECT DISTINCT l.id AS id FROM claimq__ids(:ids) AS l ORDER BY l.id DESC)

-- name: AFTER_STATE
-- The latest of a list that has not ended; and when the latest that failed or
-- was cancelled did.
SELECT waits_for, (
    SELECT terminal_at_ms FROM {{S}}.claimq_job WHERE job_id=failed_id)
  AS failed_at_ms
FROM (SELECT ifnull(max(iif(j.terminal_at_ms IS NULL, l.id, NULL)), 0)
          AS waits_for,
        max(iif(j.state='failed' OR j.state='cancelled', l.id, NULL))
          AS failed_id
      FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
      WHERE j.job_id=l.id)

-- name: AFTER_AWAITED
-- Those of a list that have not ended are awaited.
UPDATE {{S}}.claimq_job SET awaited={{WROTE 1}}
FROM (SELECT DISTINCT id FROM claimq__ids(:ids)) AS l
WHERE job_id=l.id AND terminal_at_ms IS NULL AND awaited IS NULL

-- fragment: AFTER_UNFINISHED
-- What has not ended of the jobs that others wait for.
{{S}}.claimq_after AS a CROSS JOIN {{S}}.claimq_job AS p
WHERE p.job_id=a.after_id AND p.terminal_at_ms IS NULL

-- name: AFTER_OPEN
SELECT '['||group_concat(id)||']' AS list FROM (
  SELECT a.after_id AS id FROM {{AFTER_UNFINISHED}} AND a.job_id=:job
  ORDER BY a.after_id LIMIT 100)

-- name: AFTER_FLOW
-- The jobs of a flow that claimq_cancel_flow() cancels, the youngest first:
-- they may wait for those before.
SELECT job_id FROM {{S}}.claimq_job INDEXED BY claimq_job_by_flow
WHERE flow_id=:flow AND terminal_at_ms IS NULL
  AND (:force OR NOT ({{LANE_LIVE}}))
ORDER BY job_id DESC LIMIT :limit

--------------------------------------------------------------------------
-- claimq_check

-- name: AFTER_CHECK like CHECK
SELECT 'claimq_after' AS table_name, job_id||'/'||after_id AS row_key, problem
FROM (SELECT a.job_id, a.after_id, CASE
    WHEN typeof(a.job_id)<>'integer' OR typeof(a.after_id)<>'integer'
      OR a.after_id=a.job_id OR a.after_id<=0 THEN 'bad after_id'
    WHEN j.job_id IS NULL THEN 'its job is not there'
    WHEN j.on_failure IS NULL THEN 'its job has no on_failure'
    WHEN j.terminal_at_ms IS NOT NULL OR p.job_id IS NULL
      OR p.terminal_at_ms IS NOT NULL THEN NULL
    WHEN p.awaited IS NULL THEN iif(j.waits_for>=a.after_id,
      'after_id does not know that it is awaited', NULL)
    WHEN j.state<>'blocked' THEN 'its job is not blocked'
    WHEN j.waits_for<a.after_id THEN 'its job does not wait for it'
  END AS problem
  FROM {{S}}.claimq_after AS a NOT INDEXED
    LEFT JOIN {{S}}.claimq_job AS j ON j.job_id=a.job_id
    LEFT JOIN {{S}}.claimq_job AS p ON p.job_id=a.after_id)
WHERE problem IS NOT NULL

-- name: AFTER_CHECK_JOB like CHECK
-- Nobody is left blocked.
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
  END AS problem FROM {{S}}.claimq_job AS j NOT INDEXED)
WHERE problem IS NOT NULL
