.bail off
.load ./claimq
.mode box --wrap 60
.print
.print == claimq in two minutes =============================================
.print
.print A queue is a few ordinary tables of your database, which come with the
.print first job.  Here are three for a lane called mail: one is urgent, and one
.print is for later.
.print "   SELECT claimq_submit('mail', 'Your code is 4711', 'priority', 10);"
SELECT claimq_submit('mail', 'Welcome, Ann!', 'now_ms', 1000) AS job_id
UNION ALL
SELECT claimq_submit('mail', 'Your code is 4711', 'priority', 10,
                     'now_ms', 1001)
UNION ALL
SELECT claimq_submit('mail', 'Still with us, Ann?', 'delay_ms', 60000,
                     'now_ms', 1002);

.print
.print Worker A claims one job.  It is A's for 30 seconds, and the urgent one
.print comes first.
.print "   SELECT * FROM claimq_lane('mail', 'worker-a', 30000);"
CREATE TEMP TABLE a AS
  SELECT * FROM claimq_lane('mail', 'worker-a', 30000) WHERE now_ms=2000;
SELECT payload, claim_id, expires_at_ms,
       substr(lease_token,1,12)||'...' AS lease_token FROM a;

.print
.print Worker B gets the next one, fails, and puts it back to be retried.
.print "   SELECT claimq_retry(:claim_id, :lease_token, 'no route to host');"
CREATE TEMP TABLE b AS
  SELECT * FROM claimq_lane('mail', 'worker-b', 30000) WHERE now_ms=2500;
SELECT payload, claim_id,
       claimq_retry(claim_id, lease_token, 'no route to host',
                    'now_ms', 2600) AS answer FROM b;

.print
.print For worker C there is nothing: A holds the code, the welcome waits for its
.print retry, and the question for its time.  Finding out took no write lock.
SELECT payload FROM claimq_lane('mail', 'worker-c') WHERE now_ms=2700;
.print Everything can be queried with plain SQL:
SELECT job_id, state, owner, available_at_ms, expires_at_ms, last_error
  FROM claimq_job;

.print
.print Worker A hangs.  Its 30 seconds pass, and worker C takes the job over.
CREATE TEMP TABLE c AS
  SELECT * FROM claimq_lane('mail', 'worker-c', 30000) WHERE now_ms=40000;
SELECT payload, claim_id, previous_claim_id, attempt_index FROM c;

.print
.print Worker A wakes up and tries to complete the job.  It is refused:
SELECT claimq_complete(claim_id, lease_token, 'now_ms', 41000) FROM a;
.print (That error is the point: a stale worker can change nothing, ever.)

.print
.print Worker C, which holds the newer claim, completes it:
SELECT claimq_complete(claim_id, lease_token, 'now_ms', 42000) AS completed
  FROM c;

.print
.print Who did what, and one event for each finished job:
SELECT job_id, attempt_index, owner, outcome, error FROM claimq_attempt;
SELECT event_id, job_id, lane, outcome FROM claimq_event;
.print Read on in README.md, and in ext/doc/manual.md, the manual.
