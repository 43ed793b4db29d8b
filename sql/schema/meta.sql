-- meta.sql: the database format of claimq, version 1, and its first tables.
--
-- Each feature has a file of its own in this folder.  Their tables, indexes,
-- views and triggers are created in this order:
--
-- order: meta request session outbox lane grant after letter contest
-- order: limit schedule steps
--
-- Not every database has all of them.  The files that say
--
--     -- feature: sessions
--
-- are of a feature: what follows that line is created by the first put that
-- needs it, or by claimq_init('sessions', 1).  Files without it are in every
-- database, which has at most 10 tables, 10 indexes, 6 triggers, 1 view and
-- 14,000 bytes of text (test/size.test counts).  To add a table to a feature,
-- write it into that feature's file; that is all.  A new feature is a new file,
-- a name in the order above, a line CQ_MAKES() of ext/store/init.c, and
-- claimqMakes() in the function that puts the first row; all that only reads,
-- updates or deletes need not know whether the table is there (vtab/absent.c).
--
-- All tables are ordinary tables in main and may be read with plain SQL.  Jobs,
-- batches and messages may be added with plain INSERT, also where the extension
-- is not loaded: defaults fill what is not given, and constraints refuse what
-- they can.  Everything else is done by claimq's own functions.  SQLite's JSON
-- functions are not used here: older versions do not let a constraint or a
-- trigger call them where trusted_schema is off.
--
-- The tables are STRICT, so that a column holds what it says; payloads are of
-- type ANY and keep the type and bytes they were given.
--
-- Three ideas are shared by all tables of claimable rows.
--
--   The lease.  claim_id, lease_token, owner, incarnation,
--   claimed_at_ms, expires_at_ms describe the claim that holds the row, NULL
--   if none does.  An expired claim stays written until another takes the row:
--   expiry makes a claim takeable, only being displaced makes it lost.
--   fencing_token counts the claims of the row and never goes back.  A claim
--   of several rows writes its size in each (claim_size): if fewer rows carry
--   the claim than its size says, one was displaced, and the claim is lost as
--   a whole.
--
--   Due.  A row is claimable when now >= available_at_ms and its claim, if
--   any, has expired.  "The first such row by order" is no single range of any
--   index, so rows stand in one of two places of the same index: at due = -1
--   those that are ready, or were when somebody last looked, in claim order;
--   at due >= 0 those that wait, by the time they become claimable.  A claim
--   reads the head of the first place and the range 0..now of the second,
--   whatever else stands in the table.  Moving a row costs a write to each
--   index, so it is put off, and often saved: a claimed row stays where it is
--   until it is done, unless claims have to look past many such rows; then
--   these are moved to the second place.  Rows that became due are moved to
--   the first when a claim meets many of them.  Each row pays for this once.
--   So due = -1 is only a hint, and what stands there is checked against the
--   clock, which may also go backwards.  (Where this is not written out below,
--   due is computed from the other columns, and promoted = 1 moves a row.)
--
--   Times are integer milliseconds since 1970.

-- One row: the version of this format.  Also the counters that must survive
-- when the rows that used them are gone.
CREATE TABLE {{S}}.claimq_meta(
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO {{S}}.claimq_meta(name, value) VALUES('schema_version', 1);

-- The number of the rules that write to this file (CLAIMQ_RULES): a claimq that
-- has older ones does not.
INSERT INTO {{S}}.claimq_meta(name, value) VALUES('rules', 1);

-- The settings of claimq_init(): 1 any_session, 2 serial, 4 clock 'explicit'.
-- And 8: a lane keeps no jobs that are done, or no events, or did;
-- 16: it has, or had, schedules; 32: steps of batches; 64: limits.
INSERT INTO {{S}}.claimq_meta(name, value) VALUES('settings', 0);

-- The fencing token that the last winner of any contest got.
INSERT INTO {{S}}.claimq_meta(name, value) VALUES('contest_fence', 0);
