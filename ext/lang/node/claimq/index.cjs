// claimq: queues of leased, fenced work in ordinary SQLite tables.
//
//     import * as claimq from 'claimq';
//
//     const db = claimq.open('app.db');
//     claimq.transaction(db, () => {            // the order and its job: both
//       db.prepare('INSERT INTO orders VALUES (?)').run(42);
//       claimq.submit(db, 'mail', {order: 42});
//     });
//
//     const worker = new claimq.Worker('app.db', 'mail', async job => {
//       console.log(job.json.order);
//     });
//     await worker.run();
//
// load() puts the extension into a connection of better-sqlite3, node:sqlite
// (Node, Deno) or bun:sqlite; open() opens one with whichever of them is there.
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const SUFFIX = {win32: 'dll', darwin: 'dylib'}[process.platform] ?? 'so';

// Linux with musl instead of glibc, as Alpine is: its ldd says so.
function isMusl() {
  try {
    return process.platform === 'linux'
      && fs.readFileSync('/usr/bin/ldd', 'latin1').includes('musl');
  } catch {
    return false;
  }
}

// The path of the extension for this platform.
function getLoadablePath() {
  const name = `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`;
  const file = path.join(__dirname, 'native', name, `claimq.${SUFFIX}`);
  if (!fs.existsSync(file)) {
    throw new Error(`claimq has no library for ${name}: build claimq.c of the `
      + 'source archive, and give its path to loadExtension()');
  }
  return file;
}

// Load claimq into a connection.  One of node:sqlite must have been opened with
// {allowExtension: true}.
function load(db) {
  try {
    db.loadExtension(getLoadablePath());
  } catch (error) {
    if (error.code === 'ERR_INVALID_STATE') {
      throw new Error('open the database with {allowExtension: true}, '
        + 'so that claimq can be loaded', {cause: error});
    }
    throw error;
  }
}

const DRIVERS = {
  'bun:sqlite': () => {
    const {Database} = require('bun:sqlite');
    return file => new Database(file);
  },
  'better-sqlite3': () => {
    const Database = require('better-sqlite3');
    return file => new Database(file);
  },
  'node:sqlite': () => {
    const {DatabaseSync} = require('node:sqlite');
    return file => new DatabaseSync(file, {allowExtension: true});
  },
};

// What can be tried here, best first.
function driverNames() {
  if (process.versions.bun) return ['bun:sqlite'];
  if (process.versions.deno) return ['node:sqlite'];
  return ['better-sqlite3', 'node:sqlite'];
}

// Open a database for claimq: the extension loaded, WAL, a busy timeout, and
// claimq's tables created if they are missing.  `driver` chooses a module.
// (`synchronous` is said, because better-sqlite3 has another default.)
function open(file, {driver, timeoutMs = 5000, synchronous = 'full'} = {}) {
  let opener, reason;
  for (const name of driver ? [driver] : driverNames()) {
    try {
      opener ??= DRIVERS[name]();
    } catch (error) {
      reason = error;
    }
  }
  if (!opener) {
    throw new Error('claimq needs better-sqlite3 (npm install better-sqlite3)'
      + ' or a Node that has node:sqlite (22.13 or newer)', {cause: reason});
  }
  const db = opener(file);
  try {
    load(db);
    db.exec(`PRAGMA busy_timeout=${Number(timeoutMs)}`);
    useWal(db, Date.now() + timeoutMs);
    db.exec(`PRAGMA synchronous=${synchronous === 'full' ? 2 : 1}`);
    db.prepare('SELECT claimq_init()').all();
  } catch (error) {
    db.close();
    throw error;
  }
  return db;
}

// SQLite does not wait for the lock that a change of the journal mode needs,
// and several processes may open a new database at once.
function useWal(db, until) {
  for (;;) {
    try {
      db.prepare('PRAGMA journal_mode=wal').all();
      return;
    } catch (error) {
      if (!/locked/.test(error.message) || Date.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

// Before a transaction (1) it waits for its turn among claimq's writers, so
// that it need not sleep in SQLite; after it (0) the next one is woken.  It is
// only a hint, which a connection without claimq does not have: no error
// matters.
function gate(db, enter) {
  try {
    db.prepare(`SELECT claimq__gate(${enter})`).all();
  } catch {
    // SQLite's own lock decides.
  }
}

// BEGIN IMMEDIATE, f(), COMMIT; ROLLBACK if f throws.  Returns what f returns.
// f must not be async: another task's statements would be part of it.
function transaction(db, f) {
  gate(db, 1);
  try {
    return locked(db, f);
  } finally {
    gate(db, 0);
  }
}

function locked(db, f) {
  db.exec('BEGIN IMMEDIATE');
  try {
    const result = f();
    if (typeof result?.then === 'function') {
      throw new TypeError('the function of a transaction must not be async');
    }
    db.exec('COMMIT');
    return result;
  } catch (error) {
    try {
      db.exec('ROLLBACK');
    } catch {
      // SQLite has rolled it back already.
    }
    throw error;
  }
}

// Submit a job; returns its id.  Text and bytes are stored as they are, and
// anything else as JSON.  The options are those of claimq_submit, and `task`,
// the name of a handler: only a worker that has this handler gets the job.
function submit(db, lane, payload, {task, ...options} = {}) {
  const isBytes = value => value instanceof Uint8Array;
  const values = [lane, typeof payload === 'string' || isBytes(payload)
    ? payload : JSON.stringify(payload ?? null)];
  if (task !== undefined && task !== null) {
    const {capabilities: known = '[]'} = options;
    options.capabilities = [
      ...(typeof known === 'string' ? JSON.parse(known) : known ?? []),
      `task:${task}`];
  }
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    values.push(name.replace(/[A-Z]/g, each => `_${each.toLowerCase()}`),
      typeof value === 'object' && !isBytes(value) ? JSON.stringify(value)
        : value);
  }
  return db.prepare(`SELECT claimq_submit(${values.map(() => '?')}) AS id`)
    .all(...values)[0].id;
}

// The code of an error of claimq, such as 'claim_lost', whatever has been
// wrapped around its message; undefined for all other errors.
function code(error) {
  return /\bclaimq: ([a-z_]+): /.exec(error?.message ?? error)?.[1];
}

const {Pause, Release, Retry, Reject} = require('./job.cjs');

module.exports = {getLoadablePath, load, open, transaction, submit, code, Pause,
  Release, Retry, Reject, ...require('./worker.cjs'),
  ...require('./loops.cjs')};
