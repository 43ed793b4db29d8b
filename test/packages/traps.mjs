// The traps of ext/lang/node/README.md, and the way around each of them.
//
//     node traps.mjs NAME DATABASE
//
// Prints what happens, a line for the natural way and a line for the recipe.
import process from 'node:process';
import {createRequire} from 'node:module';
import * as claimq from 'claimq';

const [name, file] = process.argv.slice(2);
const driver = process.env.CLAIMQ_DRIVER;
const CLAIM = `SELECT claim_id, lease_token
  FROM claimq_lane('l', 'w', 30000, 3)`;
const DONE = 'SELECT claimq_complete(?, ?) AS n';

function fresh(jobs) {
  const db = claimq.open(file, {driver});
  db.exec('CREATE TABLE orders(id)');
  for (let i = 0; i < jobs; i++) {
    db.prepare("SELECT claimq_submit('l', 'x')").all();
  }
  return db;
}

const held = db => db.prepare(
  "SELECT count(*) AS n FROM claimq_job WHERE state='active'").all()[0].n;

const traps = {
  // Completing inside the loop over the rows of the claim.
  rows() {
    const db = fresh(6);
    const other = claimq.open(file, {driver});
    const done = db.prepare(DONE);
    const rows = db.prepare(CLAIM).iterate();
    try {
      for (const row of rows) {
        other.exec('INSERT INTO orders VALUES (1)');
        done.all(row.claim_id, row.lease_token);
      }
      console.log('iterate: fine');
    } catch (error) {
      console.log('iterate:', error.message.includes('locked') ? 'locked'
        : error.message.includes('busy') ? 'busy' : error.message);
      rows.return?.();
    }
    let n = 0;
    for (const row of db.prepare(CLAIM).all()) {
      other.exec('INSERT INTO orders VALUES (1)');
      n += done.all(row.claim_id, row.lease_token)[0].n;
    }
    console.log('all:', n);
  },

  // An async function as a transaction.
  async async() {
    const db = fresh(0);
    try {
      claimq.transaction(db, async () => {
        db.prepare("SELECT claimq_submit('l', 'x')").all();
      });
    } catch (error) {
      console.log('async:', error.message);
    }
    claimq.transaction(db, () => {
      db.prepare("SELECT claimq_submit('l', 'x')").all();
    });
    console.log('jobs:',
      db.prepare('SELECT count(*) AS n FROM claimq_job').all()[0].n);
  },

  // run() claims, and throws the rows away.
  run() {
    const db = fresh(3);
    db.prepare(CLAIM).run();
    console.log('run:', held(db));
  },

  // Waiting in the thread of the event loop stops it.
  async wait() {
    const db = fresh(0);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    db.prepare("SELECT claimq_wait(100, 'lane', 'l')").all();
    console.log('ticks:', ticks);
    clearInterval(timer);
  },

  // A handler returns, or throws, what SQLite has no value for.
  async values() {
    const db = fresh(0);
    for (const payload of ['object', 'large', 'fail', 'code', 'bytes',
      'last']) {
      db.prepare("SELECT claimq_submit('l', ?)").all(payload);
    }
    const worker = new claimq.Worker(file, 'l', async job => {
      if (job.payload === 'object') return {n: 1};
      if (job.payload === 'large') return 2n ** 70n;
      if (job.payload === 'fail') throw undefined;
      if (job.payload === 'code') return () => {};
      if (job.payload === 'bytes') {
        const bytes = new Uint8Array(8);
        structuredClone(bytes.buffer, {transfer: [bytes.buffer]});
        return bytes;                         // they are detached
      }
      worker.stop();
    }, {driver, log() {}});
    console.log('begun:', await worker.run());
    for (const row of db.prepare(`SELECT payload, state,
      coalesce(nullif(result, x''), last_error, 'none') AS value
      FROM claimq_job`).all()) {
      console.log(row.payload, row.state, row.value);
    }
  },

  // A worker takes from all partitions unless it is given some.
  async partitions() {
    const db = fresh(0);
    for (const partition of [0, 1, 2, 3]) {
      db.prepare("SELECT claimq_submit('l', ?, 'partition', ?)")
        .all(`p${partition}`, partition);
    }
    for (const [partition, last] of [[1, 'p1'], [[2, 3], 'p3'],
      [undefined, 'p0']]) {
      const done = [];
      const worker = new claimq.Worker(file, 'l', job => {
        done.push(job.payload);
        if (job.payload === last) worker.stop();
      }, {driver, partition, log() {}});
      await worker.run();
      console.log(JSON.stringify(partition ?? null), done.join(' '));
    }
  },

  // node:sqlite wants to know when it is opened.
  async allow() {
    const {DatabaseSync} = await import('node:sqlite');
    try {
      claimq.load(new DatabaseSync(file));
    } catch (error) {
      console.log('load:', error.message);
    }
  },

  // columnTypes runs a claim to find out.
  columnTypes() {
    const db = fresh(12);
    const statement = db.prepare(CLAIM);
    statement.all();
    const before = held(db);
    void statement.columnTypes;
    console.log('columnTypes:', held(db) - before);
    const once = db.prepare(`${CLAIM} WHERE request='r1'`);
    const rows = once.all();
    void once.columnTypes;
    console.log('request:', held(db) - before - 3 - rows.length);
  },

  // get() of the npm package sqlite3 leaves a prepared statement open.  (It
  // brings a SQLite of its own, so nothing else may load claimq here.)
  async sqlite3() {
    const sqlite3 = createRequire(import.meta.url)('sqlite3');
    const call = (object, method, ...args) => new Promise((resolve, reject) => {
      object[method](...args, (error, value) =>
        error ? reject(error) : resolve(value));
    });
    const db = new sqlite3.Database(file);
    const other = new sqlite3.Database(file);
    await call(db, 'loadExtension', claimq.getLoadablePath());
    await call(db, 'all', 'PRAGMA journal_mode=wal');
    await call(db, 'all', 'SELECT claimq_init()');
    await call(db, 'exec', `CREATE TABLE orders(id);
      SELECT claimq_submit('l', 'x'), claimq_submit('l', 'y')`);
    const one = CLAIM.replace(', 3)', ', 1)');
    const statement = db.prepare(one);
    let row = await call(statement, 'get');
    await call(other, 'exec', 'INSERT INTO orders VALUES (1)');
    try {
      await call(db, 'all', DONE, row.claim_id, row.lease_token);
      console.log('get: fine');
    } catch (error) {
      console.log('get:', error.code);
    }
    await call(statement, 'finalize').catch(() => {});
    [row] = await call(db, 'all', one);
    await call(other, 'exec', 'INSERT INTO orders VALUES (1)');
    const [{n}] = await call(db, 'all', DONE, row.claim_id, row.lease_token);
    console.log('all:', n);
    try {
      await call(db, 'all', "SELECT claimq_complete('qjc:1:9', '')");
    } catch (error) {
      console.log('code:', claimq.code(error));
    }
  },
};

await traps[name]();
