-- after.sql: jobs that wait for others, and flows.
--
-- feature: flows
--
-- Jobs that wait for others: claimq_submit() and claimq_release() with after.
--
-- A row says that job_id waits, or waited, for after_id.  There are no cycles:
-- a new job waits for older ones, and claimq_release() looks.  They go when
-- their job_id goes, or is released again; after_id may have been removed
-- before.
--
-- A job is blocked while one that it waits for has not ended, and says in
-- waits_for which is the latest such.  When that one ends, the next is looked
-- for among those before it, because all that come after have ended: so a job
-- looks at each of its rows once in all.  (It is the latest because that is the
-- last to end, as a rule: then there is nothing left to look for, and the row
-- of the job is not written for each of those that it waits for.)  on_failure
-- says what becomes of the job when one of them fails or is cancelled; NULL if
-- it never waited.  awaited is 1 if another waits for the job, or did: so to
-- end any other costs nothing.
CREATE TABLE {{S}}.claimq_after(
  job_id   INTEGER NOT NULL,
  after_id INTEGER NOT NULL
           CONSTRAINT "claimq: bad_argument: a job cannot wait for itself"
           CHECK(after_id>0 AND after_id<>job_id),
  PRIMARY KEY(job_id, after_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX {{S}}.claimq_after_by_after ON claimq_after(after_id);

CREATE TRIGGER {{S}}.claimq_after_insert AFTER INSERT ON claimq_after
WHEN "claimq: load the extension and use claimq_submit() with after"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: what a job waits for is said by claimq_submit()'); END;

CREATE TRIGGER {{S}}.claimq_after_delete AFTER DELETE ON claimq_after
WHEN "claimq: load the extension and use claimq_submit() with after"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: what a job waits for is said by claimq_submit()'); END;

CREATE TRIGGER {{S}}.claimq_after_update AFTER UPDATE ON claimq_after
WHEN "claimq: load the extension and use claimq_submit() with after"()
BEGIN SELECT RAISE(ABORT, 'claimq: bad_argument: what a job waits for is said by claimq_submit()'); END;

CREATE INDEX {{S}}.claimq_job_by_flow ON claimq_job(flow_id)
  WHERE flow_id IS NOT NULL;

CREATE VIEW {{S}}.claimq_flow(flow_id, blocked, ready, delayed, active,
  completed, failed, cancelled)
AS
SELECT j.flow_id, sum(j.state='blocked'), sum(j.state='ready'),
  sum(j.state='delayed'), sum(j.state='active'), sum(j.state='completed'),
  sum(j.state='failed'), sum(j.state='cancelled')
FROM claimq_job AS j WHERE j.flow_id IS NOT NULL
GROUP BY j.flow_id;
