-- contest.sql: the tables of contests, and of fences.
--
-- Contests: claimq_contest(label, owner, ...) makes one of many the
-- holder of a subject.
--
-- A row is a subject that is held, or was held by somebody whose claim
-- expired: expires_at_ms says until when nobody else can have it.  A subject
-- that is released has no row, unless it is kept back for a while (release
-- with delay_ms): then claim_id is NULL and expires_at_ms ends the while.
--
-- Fencing tokens come from one counter for all subjects, contest_fence in
-- claimq_meta.  It outlives the rows, so tokens only ever grow.  The id of a
-- row is the token of the first claim it was made for, so ids are not used
-- again either.

CREATE TABLE {{S}}.claimq_holder(
  holder_id         INTEGER PRIMARY KEY
                    CONSTRAINT
                      "claimq: bad_argument: holder_id must be positive"
                    CHECK(holder_id>0),
  kind              INTEGER NOT NULL CHECK(kind BETWEEN 0 AND 255),
  label             TEXT NOT NULL,
  fencing_token     INTEGER NOT NULL,
  attempts          INTEGER NOT NULL DEFAULT 1,  -- claims since a release
  previous_claim_id TEXT,               -- expired, displaced by claim_id
  claim_id          TEXT,
  lease_token       TEXT,
  owner             TEXT,
  incarnation       TEXT,
  claimed_at_ms     INTEGER,
  expires_at_ms     INTEGER NOT NULL,
  UNIQUE(kind, label)
) STRICT;

-- A win is one write: this trigger advances the counter.
CREATE TRIGGER {{S}}.claimq_holder_insert AFTER INSERT ON claimq_holder
BEGIN
  UPDATE claimq_meta SET value=max(value, new.fencing_token)
  WHERE name='contest_fence';
  SELECT RAISE(ABORT, 'claimq: conflict: a trigger on claimq_meta left a row out')
  WHERE changes()=0;
END;

CREATE TRIGGER {{S}}.claimq_holder_update AFTER UPDATE OF fencing_token
ON claimq_holder
BEGIN
  UPDATE claimq_meta SET value=max(value, new.fencing_token)
  WHERE name='contest_fence';
  SELECT RAISE(ABORT, 'claimq: conflict: a trigger on claimq_meta left a row out')
  WHERE changes()=0;
END;

-- claimq_fence(resource, token): the highest token that a resource has seen.
CREATE TABLE {{S}}.claimq_fence(
  resource TEXT NOT NULL PRIMARY KEY,
  token    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
