// The thread of a loop: its database.  It claims, renews at a third of the
// lease, however busy the thread of the handlers is, and settles what has ended
// and takes the next claims in the same transaction.  See loop.cjs.
//
// It never waits for work itself: a second thread does (wait_thread.cjs), and
// says when to look.  So it is there at once when a handler is done, wants a
// step, or must learn that its claim is gone.
'use strict';
const {parentPort, workerData} = require('node:worker_threads');
const claimq = require('./index.cjs');
const {waitingCures} = require('./job.cjs');
const {Patience} = require('./patience.cjs');
const {Waiter} = require('./waiter.cjs');

const LOOK_MS = 50;
const ASKED = 1024;         // claims that claimq_wait takes
const {file, asks, wait, leaseMs, batch, concurrency, drain, options, flag} =
  workerData;

let db, waiter;
const held = new Map();     // claims: {id, token, rows, lost, calls: its end,
                            // back: it is to be given back}
const statements = new Map();
let failure;        // of the waiter
let fresh = false, wake = () => {};         // something has happened
const stopping = () => Atomics.load(flag, 0) === 1;
const log = text => parentPort.postMessage({log: `claimq: ${text}`});
const patience = new Patience(file, stopping, log);

function news() {
  fresh = true;
  wake();
}

const count = f => [...held.values()].filter(f).length;
const unended = () => count(each => !each.calls && !each.back);

// Is there a handler with nothing to do?
const room = () => !stopping() && unended() < concurrency;

// A statement is prepared once.
function statement(sql) {
  if (!statements.has(sql)) statements.set(sql, db.prepare(sql));
  return statements.get(sql);
}

const all = (sql, ...values) => statement(sql).all(...values);
const transaction = f => claimq.transaction(
  {exec: sql => statement(sql).run(), prepare: statement}, f);

// Claim for as many handlers as have nothing to do, or a batch: what the first
// question finds, then the next.
function take() {
  const want = Math.max(batch, concurrency - unended());
  const found = [];
  for (const {sql, values, counted} of asks) {
    while (found.length < want) {
      const max = counted ? [want - found.length] : [];
      const rows = all(sql, ...values, ...max)
        .filter(row => row.outcome !== 'yield');      // of a contest
      if (!rows.length) break;
      for (const row of rows) {
        const claim = found.find(each => each.id === row.claim_id);
        if (claim) claim.rows.push(row);
        else found.push({id: row.claim_id, token: row.lease_token,
          rows: [row]});
      }
    }
  }
  return found;
}

// They are the handlers' from now on.
function hold(found) {
  if (!found.length) return;
  for (const claim of found) held.set(claim.id, claim);
  parentPort.postMessage({claims: found.map(({id: claim, rows}) =>
    ({claim, rows}))});
}

// The claim is gone: its handler learns it.
function lose(claim) {
  claim.lost = true;
  parentPort.postMessage({lost: claim.id});
}

// Call a verb.  That the claim is lost is no error.
function call(claim, verb, ...values) {
  if (claim.lost) return;
  try {
    all(`SELECT claimq_${verb}`, claim.id, claim.token, ...values);
  } catch (error) {
    if (claimq.code(error) !== 'claim_lost') throw error;
    lose(claim);
  }
}

// Make the first of the calls whose values are accepted.
function callBest(claim, [first, ...others]) {
  try {
    if (!claim.lost) call(claim, ...first);
  } catch (error) {
    if (!others.length || waitingCures(error)) throw error;
    log(`claim ${claim.id}: ${first[0]} was refused: ${error.message}`);
    callBest(claim, others);
  }
}

// Renew what is held; give back what the handlers have not begun and will not,
// and everything at the end.  What fails is tried again at the next beat, or
// the lease ends.
function beat(ended) {
  for (const claim of held.values()) {
    try {
      if (ended || claim.back) {
        call(claim, 'release(?, ?)');
        held.delete(claim.id);
      } else {
        call(claim, 'renew(?, ?, ?)', leaseMs);
      }
    } catch (error) {
      log(`renewing claim ${claim.id}: ${error.message}`);
    }
  }
}

function anyGone(claims) {
  const [{gone}] = all("SELECT claimq_wait(0, 'claims', ?) AS gone",
    JSON.stringify(claims.map(each => each.id)));
  return gone;
}

// Which claims hold no more?  This does not wait for it: with short jobs it
// would be woken by the end of each.
function look() {
  const open = [...held.values()].filter(each => !each.lost).slice(0, ASKED);
  try {
    if (!open.length || !anyGone(open)) return;
    for (const claim of open) if (anyGone([claim])) lose(claim);
  } catch (error) {
    log(`looking at what is held: ${error.message}`);
  }
}

// The waiter has waited.
function waited(error) {
  if (!error) {
    news();
    return;
  }
  if (!waitingCures(error)) failure = error;
  log(`waiting: ${error.message}`);
  setTimeout(news, failure ? 0 : 1000);
}

// Something happens: a handler ends, the waiter answers, the loop is stopped.
// While others are at work the waiter is asked only if that takes a while, so
// that short jobs cost nothing.
async function something() {
  if (fresh) return;
  const timer = room() && !drain
    && setTimeout(() => waiter.ask(wait), held.size ? 5 : 0);
  await new Promise(resolve => {
    wake = resolve;
  });
  clearTimeout(timer);
}

// Settle what has ended, and take the next claims with the same commit.  What
// cannot be settled before the end is given back.
async function settle(ended) {
  const {id, rows: [{job_id: job = id}]} = ended[0];
  const others = ended.length > 1 ? ` and ${ended.length - 1} more` : '';
  const next = await patience.patiently(`settling job ${job}${others}`,
    () => transaction(() => {
      for (const claim of ended) callBest(claim, claim.calls);
      return room() ? take() : [];
    }), leaseMs);
  for (const claim of ended) {
    if (next) held.delete(claim.id);
    else Object.assign(claim, {back: true, calls: undefined});
  }
  return next;
}

async function work() {
  patience.rememberFile();
  waiter.ask(['SELECT 1']);                 // it opens the same file
  await something();
  for (;;) {
    fresh = false;
    if (failure) throw failure;
    patience.checkFile(100);
    const ended = [...held.values()].filter(each => each.calls);
    const found = ended.length ? await settle(ended)
      : room() ? await patience.patiently('looking for jobs', take) : [];
    hold(found ?? []);
    if (found?.length) continue;
    if ((stopping() || drain) && !count(each => !each.back)) return;
    await something();
  }
}

async function main() {
  waiter = new Waiter(file, options, waited);
  db = await patience.patiently('opening', () => claimq.open(file, options));
  const timers = [setInterval(beat, leaseMs / 3, false),
    setInterval(look, LOOK_MS)];
  try {
    if (db) await work();
  } finally {
    timers.forEach(clearInterval);
    beat(true);
    await waiter.close();
    db?.close();
  }
  parentPort.postMessage({});
}

// A question of a handler: its steps, and what it waits for.
function answer({ask: number, claim, sql, values}) {
  try {
    parentPort.postMessage({ask: number, rows: all(sql, ...values)});
  } catch (error) {
    const known = held.get(claim);
    if (known && claimq.code(error) === 'claim_lost') lose(known);
    parentPort.postMessage({ask: number, error: error.message});
  }
}

// A message is how handlers have ended, what one asks, or what is given back
// because stop() was called.
parentPort.on('message', message => {
  if (message.ask) {
    answer(message);
    return;
  }
  for (const {claim, calls} of message.ends ?? []) {
    held.get(claim).calls = calls;
  }
  for (const claim of message.back ?? []) held.get(claim).back = true;
  if (message.back) beat(false);
  news();
});
// The error of a driver would arrive at the other thread without its message.
main().catch(({message, code}) => setImmediate(() => {
  throw Object.assign(new Error(message), {code});
}));
