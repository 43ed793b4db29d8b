-- steps.sql: what claimq_step() stores: the value of each step of a piece of
-- work, under its name.  They are looked up by nothing else, and go with the
-- row that they belong to; those of a dead letter's work stay while the letter
-- does, and become those of the new row when it is put back.
--
-- feature: steps
CREATE TABLE {{S}}.claimq_steps(
  job_id INTEGER NOT NULL,
  name   TEXT NOT NULL,
  value  ANY,
  at_ms  INTEGER NOT NULL,
  PRIMARY KEY(job_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE {{S}}.claimq_batch_steps(
  enqueue_seq INTEGER NOT NULL,
  name        TEXT NOT NULL,
  value       ANY,
  at_ms       INTEGER NOT NULL,
  PRIMARY KEY(enqueue_seq, name)
) STRICT, WITHOUT ROWID;
