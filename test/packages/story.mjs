// The story of tcl/test/story.tcl, with the installed npm package.
//
//     node story.mjs calls DATABASE
//     node story.mjs worker DATABASE LANE LEASE_MS BATCH
//
// CLAIMQ_DRIVER chooses the module: better-sqlite3, node:sqlite, bun:sqlite.
import fs from 'node:fs';
import {setTimeout as sleep} from 'node:timers/promises';
import process from 'node:process';
import * as claimq from 'claimq';

const [what, file, lane, leaseMs, batch] = process.argv.slice(2);
const driver = process.env.CLAIMQ_DRIVER;
let opened;
const open = () => opened ??= claimq.open(file, {driver, timeoutMs: 30000});
const all = (sql, ...values) => open().prepare(sql).all(...values);

function calls() {
  const db = open();
  console.log('version', all('SELECT claimq_version() AS v')[0].v);
  console.log('journal', all('PRAGMA journal_mode')[0].journal_mode);

  // A stale worker is refused, and recognised.
  const claim = "SELECT * FROM claimq_lane('stale', ?, 1000) WHERE now_ms=?";
  all("SELECT claimq_submit('stale', 'x', 'now_ms', 1000)");
  const [mine] = all(claim, 'a', 1000);
  all(claim, 'b', 2000);
  try {
    all('SELECT claimq_complete(?, ?)', mine.claim_id, mine.lease_token);
  } catch (error) {
    console.log('stale', claimq.code(error));
  }
  try {
    all('SELECT nonsense()');
  } catch (error) {
    console.log('other', claimq.code(error) ?? 'none');
  }

  // An order and its job, in one transaction.
  db.exec('CREATE TABLE orders(id)');
  const order = (id, payload, fail) => claimq.transaction(db, () => {
    all("SELECT claimq_submit('orders', ?)", payload);
    db.exec(`INSERT INTO orders VALUES (${id})`);
    if (fail) throw new RangeError('something else goes wrong');
  });
  try {
    order(1, 'x', true);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  order(2, 'y', false);
}

function write(name) {
  fs.writeFileSync(`${name}.tmp`, '');
  fs.renameSync(`${name}.tmp`, name);
}

function odd(attempt) {
  if (attempt === 0) throw new claimq.Retry('negative', -1);
  if (attempt === 1) throw new claimq.Retry('half', 0.5);
  if (attempt === 2) {
    throw {delayMs: '1s', get message() { throw new Error('no text'); }};
  }
}

function note(name, word, value) {
  fs.appendFileSync(`${name}.log`, `${word}\n`);
  return value;
}

async function steps(job, name) {
  const first = await job.step('one', () => note(name, 'one', {n: 1}));
  if (job.attempt === 0) throw new claimq.Retry('again', 1);
  await job.sleep(1);
  const child = await job.step('child', () => note(name, 'child',
    all("SELECT claimq_submit(?, 'count') AS id", lane)[0].id));
  await job.waitFor([child]);
  await job.step('two', async () => note(name, 'two', first.n + 1));
}

const most = Number(process.env.STORY_FUNCTIONS ?? Infinity);
let functions = 0;

async function agent(job, name, n) {
  let total = 0;
  for (let i = 0; i < n; i++) {
    total += await job.step(`s${i}`, async () => {
      functions++;
      while (functions > most) await sleep(1000);     // until it is killed
      return note(name, `s${i}`, i);
    });
  }
  return total;
}

async function fan(job, name, n) {
  const children = await job.step('children', () => Array.from({length: n},
    (_, i) => claimq.submit(open(), name, `part ${i + 1}`)));
  await job.waitFor(children);
  return all('SELECT sum(result) AS sum FROM claimq_job WHERE lane=?',
    name)[0].sum;
}

async function ask(job, id) {
  await job.waitFor([id]);
  return all('SELECT result FROM claimq_job WHERE job_id=?', id)[0].result;
}

async function handle(job) {
  const [word, name, n] = job.payload.split(' ');
  if (word === 'odd') {
    odd(job.attempt);
  } else if (word === 'never') {
    throw new claimq.Retry('never', 2 ** 70);
  } else if (word === 'what') {
    return {what: 1n};
  } else if (word === 'count') {
    open().prepare('INSERT INTO done VALUES (?)').run(job.id);
  } else if (word === 'fail' && job.attempt === 0) {
    throw new Error('no luck');
  } else if (word === 'later' && job.attempt === 0) {
    throw new claimq.Retry('later', 1);
  } else if (word === 'reject') {
    throw new claimq.Reject('poison');
  } else if (word === 'hold') {
    write(`${name}.begun`);
    while (!fs.existsSync(`${name}.go`)) await sleep(10);
  } else if (word === 'steps') {
    await steps(job, name);
  } else if (word === 'agent') {
    return agent(job, name, Number(n));
  } else if (word === 'fan') {
    return fan(job, name, Number(n));
  } else if (word === 'part') {
    return Number(name);
  } else if (word === 'ask') {
    return ask(job, Number(name));
  } else if (word === 'lost') {
    write(`${name}.begun`);
    while (!job.lost.aborted) await sleep(10);
    write(`${name}.lost`);
  }
  return `did ${job.payload}`;
}

if (what === 'calls') {
  calls();
} else {
  const begun = await new claimq.Worker(file, lane, handle,
    {leaseMs: Number(leaseMs), batch: Number(batch), driver,
      concurrency: Number(process.env.STORY_CONCURRENCY ?? 1),
      timeoutMs: Number(process.env.STORY_TIMEOUT_MS ?? 30000)}).run();
  console.log('begun', begun);
}
opened?.close();
