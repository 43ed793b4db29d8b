.bail off
.load ./claimq
.mode box --wrap 60
.print
.print == claimq in two minutes =============================================
.print
.print A queue is a few ordinary tables of your database.
.print "   SELECT claimq_init();"
SELECT claimq_init() AS schema_version;

.print
.print A chat session gets three messages.  The first two may be handled
.print together (slot_policy join), the third wants its own turn.
.print "   SELECT claimq_enqueue('chat-1', 'hello', 'slot_policy', 'join');"
SELECT claimq_enqueue('chat-1', 'hello',      'slot_policy', 'join',
                      'now_ms', 1000) IS NOT NULL AS stored
UNION ALL
SELECT claimq_enqueue('chat-1', 'anyone in?', 'slot_policy', 'join',
                      'now_ms', 1001) IS NOT NULL
UNION ALL
SELECT claimq_enqueue('chat-1', 'good bye',   'now_ms', 1002) IS NOT NULL;

.print
.print Worker A claims.  It gets the joined group under one claim, for 30 s.
.print "   SELECT payload, claim_id, ... FROM claimq('chat-1', 'worker-a', 30000);"
CREATE TEMP TABLE a AS
  SELECT * FROM claimq('chat-1', 'worker-a', 30000) WHERE now_ms=2000;
SELECT payload, claim_id, fencing_token, expires_at_ms,
       substr(lease_token,1,12)||'...' AS lease_token FROM a;

.print
.print Worker B comes along.  What A holds is invisible to it; it gets the rest.
SELECT payload, claim_id FROM claimq('chat-1', 'worker-b', 30000)
 WHERE now_ms=2500;
.print ... and now there is nothing left to claim (no rows, and no write lock).
SELECT payload FROM claimq('chat-1', 'worker-c') WHERE now_ms=2600;

.print
.print Worker A hangs.  Its 30 seconds pass, and worker B takes its work over.
SELECT payload, claim_id, previous_claim_id, attempts
  FROM claimq('chat-1', 'worker-b', 30000) WHERE now_ms=40000;

.print
.print Worker A wakes up and wants to finish.  It is told that it lost:
SELECT claimq_complete(claim_id, lease_token, 'now_ms', 41000) FROM a LIMIT 1;
.print (That error is the point: a stale worker can change nothing, ever.)

.print
.print Worker B, who holds the newer claim, completes.  2 rows are done:
SELECT claimq_complete(claim_id, lease_token) AS completed
  FROM claimq_batch WHERE owner_id='worker-b' AND claim_size=2 LIMIT 1;
.print
.print What is still stored is a plain table, for plain SQL:
SELECT payload, owner_id, claim_id, attempts FROM claimq_batch;
