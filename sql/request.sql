-- request.sql: the statements of ext/request.c.

-- name: REQUEST_FIND
SELECT func, scope, owner_id, answer
FROM {{S}}.claimq_request WHERE request=:request

-- name: REQUEST_KEEP
INSERT INTO {{S}}.claimq_request(request, func, scope, owner_id, at_ms, answer)
VALUES(:request, :func, :scope, :owner, :now, :answer)

-- name: REQUEST_FORGET
-- Two of those that are older than they need to be.
DELETE FROM {{S}}.claimq_request WHERE request IN (
  SELECT request FROM {{S}}.claimq_request INDEXED BY claimq_request_by_time
  WHERE at_ms<:before ORDER BY at_ms, request LIMIT 2)
