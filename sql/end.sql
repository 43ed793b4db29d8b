-- end.sql: the statements of ext/lane/end.c: what follows when the claim of a
-- job ends, or the job itself.

--------------------------------------------------------------------------
-- Attempts.  What the row of a job does not tell for itself goes to
-- claimq_past.  These run before the job is written: they read who held it.

-- fragment: END_ATTEMPT_INTO
INSERT OR REPLACE INTO {{S}}.claimq_past(job_id, attempt_index, owner,
  incarnation, fencing_token, started_at_ms, expires_at_ms, ended_at_ms,
  outcome, error, error_class)

-- fragment: END_HELD
-- The attempt of whoever holds the job, live or not.
j.job_id, CAST(j.attempt_index AS INTEGER), j.owner,
ifnull(j.incarnation, ''), j.fencing_token, ifnull(j.claimed_at_ms, 0),
j.expires_at_ms, {{WROTE :now}}

-- name: END_ATTEMPT
-- The jobs of a list lose their holders.
{{END_ATTEMPT_INTO}}
SELECT {{END_HELD}}, :outcome, :error, :error_class
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.owner IS NOT NULL

-- name: END_DISPLACED like END_ATTEMPT
-- The same by other claims, whose leases the list brings; and jobs that are
-- spent, which have none.
{{END_ATTEMPT_INTO}}
SELECT {{END_HELD}}, 'interrupted_reclaimed',
  iif(l.claim_id IS NULL, {{LANE_SPENT}}, NULL), NULL
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.owner IS NOT NULL

-- name: END_RELEASED like END_ATTEMPT
-- An attempt that was released stays with the job until the next claim; now
-- the job is cancelled, and its row tells that instead.
{{END_ATTEMPT_INTO}}
SELECT j.job_id, j.attempt_index, j.settled_owner,
  ifnull(j.settled_incarnation, ''), j.fencing_token,
  ifnull(j.settled_started_ms, 0), j.settled_expires_ms,
  {{WROTE j.settled_at_ms}}, 'released', NULL, NULL
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.owner IS NULL AND j.settled_owner IS NOT NULL

--------------------------------------------------------------------------
-- Dead letters.

-- name: END_LETTER like END_ATTEMPT
-- Failed jobs go to the dead letters.  The keys of origin are the names of the
-- options of claimq_submit(), so that claimq_requeue() can submit the job
-- again; capabilities is a JSON array, or a text if it should be and is not.
INSERT INTO {{S}}.claimq_letter(source, scope, ref, payload, headers,
  created_at_ms, failed_at_ms, reason, error_class, attempts, origin)
SELECT 'lane', j.lane, j.job_id, j.payload, j.headers, j.created_at_ms,
  {{WROTE j.terminal_at_ms}}, j.last_error, j.error_class, j.attempts,
  iif(j.settled_by='invalid',
      rtrim(claimq__origin('capabilities', {{LANE_CAPS_SHOWN}}), '}'),
      '{"capabilities":'||j.capabilities)||','||substr(
    claimq__origin('priority', j.priority, 'source_key', j.source_key,
      'max_attempts', j.max_attempts, 'backoff_ms', j.backoff_ms,
      'backoff_factor', j.backoff_factor, 'backoff_max_ms', j.backoff_max_ms,
      'max_reclaims', j.max_reclaims, 'max_runtime_ms', j.max_runtime_ms,
      'reclaim', iif(j.said=0 OR j.said=2, NULL, j.reclaim),
      'admission', iif(j.said<2, NULL, j.admission),
      'partition', j.partition, 'group_key', j.group_key,
      'flow_id', j.flow_id, 'namespace', j.namespace,
      'instance_tag', j.instance_tag), 2)
FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.state='failed' ORDER BY l.id

--------------------------------------------------------------------------
-- Jobs that waited for those that have ended.

-- name: END_AWAITED
-- Those of a list that others wait for, or did.
SELECT l.id AS id FROM claimq__ids(:ids) AS l CROSS JOIN {{S}}.claimq_job AS j
WHERE j.job_id=l.id AND j.awaited IS NOT NULL

-- name: END_GONE like END_AWAITED
-- Jobs that on_failure cancels because those of the list failed or were
-- cancelled, and those that are cancelled because of them, however long the
-- chain.
WITH RECURSIVE gone(id, n) AS (
  SELECT l.id, 0 FROM claimq__ids(:ids) AS l
  UNION
  SELECT j.job_id, 1 FROM gone
    CROSS JOIN {{S}}.claimq_after AS a INDEXED BY claimq_after_by_after
    CROSS JOIN {{S}}.claimq_job AS j
  WHERE a.after_id=gone.id AND j.job_id=a.job_id AND j.state='blocked'
    AND j.on_failure='cancel')
SELECT id FROM gone WHERE n ORDER BY id

-- name: END_CANCEL like END_ATTEMPT
-- The jobs of a list are cancelled because of others, at :now.
UPDATE {{S}}.claimq_job SET state='cancelled', waits_for=NULL,
  settled_by='after', settled_at_ms={{WROTE :now}}, settled_claim_id=NULL,
  settled_token=NULL, settled_owner=NULL, terminal_at_ms=:now, awaited=NULL
FROM (SELECT id FROM claimq__ids(:ids)) AS l
WHERE job_id=l.id AND terminal_at_ms IS NULL

-- fragment: END_WAITING
-- Jobs that waited for one of the list, and for the latest of theirs.
claimq__ids(:ids) AS l
  CROSS JOIN {{S}}.claimq_after AS b INDEXED BY claimq_after_by_after
  CROSS JOIN {{S}}.claimq_job AS d
WHERE b.after_id=l.id AND d.job_id=b.job_id AND d.waits_for=l.id

-- name: END_WOKEN like END_AWAITED
-- The heads of these, if they have any.
SELECT DISTINCT d.head_id AS id FROM {{END_WAITING}} AND d.head_id IS NOT NULL

-- fragment: END_HEAD
-- The head of job j.  It may have gone while the job waited.
(SELECT h.head_id FROM {{S}}.claimq_head AS h WHERE h.head_id=j.head_id)

-- name: END_NEXT like END_ATTEMPT
-- Each of these waits for the next of those before, or may run.  (With the
-- LIMIT, SQLite makes the list before it looks at any other job.)
UPDATE {{S}}.claimq_job AS j SET waits_for={{WROTE w.next_id}},
  head_id={{END_HEAD}},
  state=CASE WHEN w.next_id IS NOT NULL THEN 'blocked'
             WHEN available_at_ms>:now THEN 'delayed' ELSE 'ready' END,
  place=CASE WHEN w.next_id IS NOT NULL
               OR {{LANE_UNADMITTED}} THEN -2
             WHEN available_at_ms>:now THEN available_at_ms ELSE -1 END
FROM (SELECT d.job_id AS id, (
        SELECT a.after_id
        FROM {{S}}.claimq_after AS a CROSS JOIN {{S}}.claimq_job AS p
        WHERE a.job_id=d.job_id AND a.after_id<d.waits_for
          AND p.job_id=a.after_id AND p.terminal_at_ms IS NULL
        ORDER BY a.after_id DESC LIMIT 1) AS next_id
      FROM {{END_WAITING}} LIMIT -1) AS w
WHERE j.job_id=+w.id

--------------------------------------------------------------------------
-- A plain DELETE.

-- name: END_UNDELETED
-- Is the job in main?
SELECT 1 AS one FROM {{S}}.claimq_job WHERE job_id=:job

-- name: END_BLOCKED
-- Does any job wait for this one?
SELECT 1 AS one
FROM {{S}}.claimq_after AS a INDEXED BY claimq_after_by_after
  CROSS JOIN {{S}}.claimq_job AS j
WHERE a.after_id=:job AND j.job_id=a.job_id AND j.state='blocked' LIMIT 1

-- name: END_PAST_GONE like END_ATTEMPT
DELETE FROM {{S}}.claimq_past
WHERE job_id IN (SELECT id FROM claimq__ids(:ids))

-- name: END_AFTER_GONE like END_ATTEMPT
DELETE FROM {{S}}.claimq_after
WHERE job_id IN (SELECT id FROM claimq__ids(:ids))
