// The thread of a loop: its database.  It claims, renews at a third of the
// lease, however busy the thread of the handlers is, and settles a claim and
// takes the next ones in the same transaction.  See loop.cjs.
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

const {file, asks, wait, leaseMs, batch, concurrency, drain, options, flag} =
  workerData;

let db, waiter;
let held = [];      // claims: {id, token, rows, begun, lost, calls: its end}
let begun = 0;      // how many
let failure;        // of the waiter
let fresh = false, wake = () => {};         // something has happened
const stopping = () => Atomics.load(flag, 0) === 1;
const log = text => parentPort.postMessage({log: `claimq: ${text}`});
const patience = new Patience(file, stopping, log);

function news() {
  fresh = true;
  wake();
}

const running = () => held.filter(each => each.begun && !each.calls).length;

// Is there a handler with nothing to do?
const room = () => !stopping() && running() < concurrency
  && held.every(each => each.begun);

// Claim for as many handlers as have nothing to do, or a batch: what the first
// question finds, then the next.
function take() {
  const want = Math.max(batch, concurrency - running());
  const found = [];
  for (const {sql, values, counted} of asks) {
    while (found.length < want) {
      const max = counted ? [want - found.length] : [];
      const rows = db.prepare(sql).all(...values, ...max)
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

const drop = claim => {
  held = held.filter(each => each !== claim);
};

// The claim is gone: its handler learns it, or it never begins.
function lose(claim) {
  claim.lost = true;
  if (claim.begun) parentPort.postMessage({lost: claim.id});
  else drop(claim);
}

// Call a verb.  That the claim is lost is no error.
function call(claim, verb, ...values) {
  if (claim.lost) return;
  try {
    db.prepare(`SELECT claimq_${verb}`).all(claim.id, claim.token, ...values);
  } catch (error) {
    if (claimq.code(error) !== 'claim_lost') throw error;
    lose(claim);
  }
}

// Make the first of the calls whose values are accepted.
function callBest(claim, [first, ...others]) {
  try {
    call(claim, ...first);
  } catch (error) {
    if (!others.length || waitingCures(error)) throw error;
    log(`claim ${claim.id}: ${first[0]} was refused: ${error.message}`);
    callBest(claim, others);
  }
}

// Renew what is held; give back what is not begun once the loop is stopping,
// and everything at the end.  What fails is tried again at the next beat, or
// the lease ends.
function beat(ended) {
  for (const claim of held) {
    try {
      if (ended || (stopping() && !claim.begun)) {
        call(claim, 'release(?, ?)');
        drop(claim);
      } else {
        call(claim, 'renew(?, ?, ?)', leaseMs);
      }
    } catch (error) {
      log(`renewing claim ${claim.id}: ${error.message}`);
    }
  }
}

// Which claims hold no more?
function look() {
  for (const claim of held.filter(each => !each.lost)) {
    const [{gone}] = db.prepare("SELECT claimq_wait(0, 'claim', ?) AS gone")
      .all(claim.id);
    if (gone) lose(claim);
  }
}

// What the waiter is to wait for: work; a claim that is gone; any commit, if
// it may be either.
function question() {
  const claims = held.filter(each => !each.lost).map(each => each.id);
  if (!held.length) return wait;
  if (room() && !drain) return ['SELECT claimq_wait(50)'];
  return claims.length && ["SELECT claimq_wait(100, 'claims', ?)",
    JSON.stringify(claims.slice(0, 1024))];
}

// The waiter has waited.
function waited(error) {
  try {
    if (error) throw error;
    look();
    news();
  } catch (reason) {
    if (!waitingCures(reason)) failure = reason;
    log(`waiting: ${reason.message}`);
    setTimeout(news, failure ? 0 : 1000);
  }
}

// Something happens: a handler ends, the waiter answers, the loop is stopped.
// The waiter is asked only if that takes a while, so that short jobs cost
// nothing.
async function something() {
  if (fresh) return;
  const timer = setTimeout(() => waiter.ask(question()),
    !held.length ? 0 : room() ? 5 : 50);
  await new Promise(resolve => {
    wake = resolve;
  });
  clearTimeout(timer);
}

function begin() {
  for (const claim of held.filter(each => !each.begun)) {
    if (stopping() || running() >= concurrency) return;
    claim.begun = true;
    begun++;
    parentPort.postMessage({claim: claim.id, rows: claim.rows});
  }
}

// Settle the claim, and take the next ones with the same commit.  What cannot
// be settled before the end is given back.
async function settle(claim) {
  const next = await patience.patiently(
    `settling job ${claim.rows[0].job_id ?? claim.id}`,
    () => claimq.transaction(db, () => {
      callBest(claim, claim.calls);
      return room() ? take() : [];
    }), leaseMs);
  if (next) {
    drop(claim);
    held.push(...next);
  } else {
    Object.assign(claim, {begun: false, calls: undefined});
  }
}

async function work() {
  patience.rememberFile();
  waiter.ask(['SELECT 1']);                 // it opens the same file
  await something();
  for (;;) {
    fresh = false;
    if (failure) throw failure;
    patience.checkFile();
    begin();
    const done = held.find(each => each.calls);
    if (done) {
      await settle(done);
      continue;
    }
    if (room()) {
      const found = await patience.patiently('looking for jobs', take) ?? [];
      held.push(...found);
      if (found.length) continue;
    }
    if ((stopping() || drain) && !held.some(each => each.begun)) return;
    await something();
  }
}

async function main() {
  waiter = new Waiter(file, options, waited);
  db = await patience.patiently('opening', () => claimq.open(file, options));
  const timer = setInterval(beat, leaseMs / 3, false);
  try {
    if (db) await work();
  } finally {
    clearInterval(timer);
    beat(true);
    await waiter.close();
    db?.close();
  }
  parentPort.postMessage({begun});
}

// A question of a handler: its steps, and what it waits for.
function answer({ask: number, claim, sql, values}) {
  try {
    parentPort.postMessage({ask: number,
      rows: db.prepare(sql).all(...values)});
  } catch (error) {
    const known = held.find(each => each.id === claim);
    if (known && claimq.code(error) === 'claim_lost') lose(known);
    parentPort.postMessage({ask: number, error: error.message});
  }
}

// A message is how a handler has ended, or what it asks; null: stop() was
// called.
parentPort.on('message', message => {
  if (message?.ask) {
    answer(message);
    return;
  }
  if (message) {
    held.find(each => each.id === message.claim).calls = message.calls;
  } else {
    beat(false);
  }
  news();
});
// The error of a driver would arrive at the other thread without its message.
main().catch(({message, code}) => setImmediate(() => {
  throw Object.assign(new Error(message), {code});
}));
