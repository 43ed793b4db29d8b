-- request.sql: the statements of ext/store/request.c.

-- name: REQUEST_FIND
SELECT func, scope, owner, answer
FROM {{S}}.claimq_request WHERE request=:request

-- name: REQUEST_KEEP
INSERT INTO {{S}}.claimq_request(request, func, scope, owner, at_ms, answer)
VALUES({{WROTE :request}}, :func, :scope, :owner, :now, :answer)

-- name: REQUEST_FORGET
-- Some of those that are older than they need to be.
DELETE FROM {{S}}.claimq_request WHERE request IN (
  SELECT request FROM {{S}}.claimq_request INDEXED BY claimq_request_by_time
  WHERE at_ms<:before ORDER BY at_ms, request LIMIT :limit)

-- name: REQUEST_OLD
-- Is there one?
SELECT 1 AS one FROM {{S}}.claimq_request INDEXED BY claimq_request_by_time
WHERE at_ms<:before LIMIT 1

-- name: REQUEST_CHECK like CHECK
-- What a claim table remembers is a JSON array of claim ids or outcomes; empty
-- if it took nothing, and completed what was done.
SELECT 'claimq_request' AS table_name, request AS row_key, problem
FROM (SELECT request, CASE
    {{CHECK_TEXT request}}
    WHEN length(CAST(request AS BLOB)) NOT BETWEEN 1 AND 255 THEN 'bad request'
    {{CHECK_TEXT func}} {{CHECK_TEXT_NULL scope}} {{CHECK_TEXT_NULL owner}}
    {{CHECK_INT at_ms}}
    WHEN typeof(answer) NOT IN ('text','integer','null')
      OR func IN ('claimq','claimq_lane','claimq_reclaim','claimq_outbox',
                  'claimq_contest','claimq_dead_letter')
        AND ifnull(answer,'') NOT GLOB '[[]"*]' AND answer IS NOT '[]'
    THEN 'bad answer'
    WHEN NOT claimq__sound(request, func, scope, owner,
                          iif(typeof(answer)='text', answer, NULL))
    {{CHECK_UNSOUND}}
  END AS problem FROM {{S}}.claimq_request)
WHERE problem IS NOT NULL
