-- letter.sql: the table of dead letters.
--
-- Dead letters: claimq_dead_letter(scope, owner, ...) takes what other
-- disciplines rejected, oldest first.
--
-- A letter is open (pending or reprocessing) or done (resolved or discarded).
-- Only open letters have a due time and stand in the indexes that claims read,
-- so that done letters, however many are kept, cost nothing.  There is no
-- index by due alone: sources are three, and a claim of all merges three
-- ordered ranges.

CREATE TABLE {{S}}.claimq_letter(
  letter_id       INTEGER PRIMARY KEY AUTOINCREMENT
                  CONSTRAINT "claimq: bad_argument: letter_id must be positive"
                  CHECK(letter_id>0),
  source          TEXT NOT NULL
                  CHECK(source='session' OR source='lane' OR source='outbox'),
  scope           TEXT NOT NULL,        -- session, lane, QUEUE/PARTITION
  ref             ANY NOT NULL,         -- batch id, job id, seq
  payload         ANY,
  headers         TEXT,
  payload_type    TEXT,
  created_at_ms   INTEGER NOT NULL,
  failed_at_ms    INTEGER NOT NULL,
  reason          TEXT,
  error_class     TEXT,                 -- a word of the caller's, or NULL
  attempts        INTEGER NOT NULL DEFAULT 0,
  status          TEXT NOT NULL DEFAULT 'pending'
                  CHECK(status='pending' OR status='reprocessing'
                        OR status='resolved' OR status='discarded'),
  origin          TEXT,                 -- JSON: what claimq_requeue() needs
  requeued_as     ANY,                  -- what claimq_requeue() made of it
  available_at_ms INTEGER,              -- NULL: at once; if it is done: since
  fencing_token   INTEGER NOT NULL DEFAULT 0,
  claim_id        TEXT,
  lease_token     TEXT,
  owner           TEXT,
  incarnation     TEXT,
  claim_size      INTEGER,
  claim_head      INTEGER,
  claimed_at_ms   INTEGER,
  expires_at_ms   INTEGER,
  promoted        INTEGER NOT NULL DEFAULT 0,
  due             ANY AS (
    CASE WHEN status IN ('resolved','discarded') THEN NULL
         WHEN promoted OR (claim_id IS NULL AND available_at_ms IS NULL)
         THEN -1
         ELSE max(0, ifnull(available_at_ms,0), ifnull(expires_at_ms,0))
    END) VIRTUAL
) STRICT;

CREATE INDEX {{S}}.claimq_letter_by_scope
  ON claimq_letter(source, scope, due) WHERE due IS NOT NULL;
CREATE INDEX {{S}}.claimq_letter_by_source
  ON claimq_letter(source, due) WHERE due IS NOT NULL;

-- The letters of a claim.
CREATE INDEX {{S}}.claimq_letter_by_claim
  ON claimq_letter(claim_head) WHERE claim_head IS NOT NULL;

-- Done letters, by when that was: they go after a while.
CREATE INDEX {{S}}.claimq_letter_done
  ON claimq_letter(available_at_ms)
  WHERE status IN ('resolved','discarded');

-- A job stays while its letter is open.
CREATE INDEX {{S}}.claimq_letter_by_ref
  ON claimq_letter(ref) WHERE due IS NOT NULL AND source='lane';
