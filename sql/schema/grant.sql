-- grant.sql: permissions to claim or to reclaim jobs.
--
-- feature: grants

-- Permissions to reclaim an expired or revoked job, or to claim one of
-- admission grant for the first time, for one owner.  The newest
-- of a job counts; it is deleted when it is used or found expired.
CREATE TABLE {{S}}.claimq_grant(
  grant_id            INTEGER PRIMARY KEY AUTOINCREMENT
                      CONSTRAINT
                        "claimq: bad_argument: grant_id must be positive"
                      CHECK(grant_id>0),
  job_id              INTEGER NOT NULL,
  owner               TEXT NOT NULL,
  incarnation         TEXT NOT NULL,
  lane                TEXT NOT NULL,
  issued_at_ms        INTEGER NOT NULL,
  expires_at_ms       INTEGER NOT NULL,
  capability_hash     TEXT,
  worker_capabilities TEXT,             -- a JSON array of strings
  route_snapshot_json TEXT,
  admission_summary   TEXT
) STRICT;

CREATE INDEX {{S}}.claimq_grant_by_job ON claimq_grant(job_id, issued_at_ms);

-- For claimq_vacuum().
CREATE INDEX {{S}}.claimq_grant_by_expiry ON claimq_grant(expires_at_ms);
