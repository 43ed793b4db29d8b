// The thread of a Worker: all that blocks.  See job_worker.cjs.
'use strict';
const {parentPort, workerData} = require('node:worker_threads');
const claimq = require('./index.cjs');

const WAIT_MS = 500;          // a stop is seen when the wait returns
const {file, lane, owner, leaseMs, batch, capabilities, partition, timeoutMs,
  driver, flag} = workerData;

const db = claimq.open(file, {driver, timeoutMs});
const claim = db.prepare(`SELECT * FROM claimq_lane
  WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=? AND capabilities=?
    AND partition=?`);
const wait = db.prepare(`SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,
  'partition', ?)`);

const waiting = [];           // held, and not begun
let current = null;           // at hand
let begun = 0;
let settled;                  // resolves the promise of the job at hand
const stopping = () => Atomics.load(flag, 0) === 1;

function take() {
  return claim.all(lane, owner, leaseMs, batch, capabilities, partition);
}

// Call a verb for a job.  A claim that is lost is reported, and is no error.
function call(job, verb, ...values) {
  try {
    db.prepare(`SELECT claimq_${verb}`).all(job.claim_id, job.lease_token,
      ...values);
  } catch (error) {
    if (claimq.code(error) !== 'claim_lost') throw error;
    job.lost = true;
    parentPort.postMessage({lost: job.claim_id});
  }
}

// The same, where a lock that was held for long is no error either: it is tried
// again at the next beat, or the lease ends.
function tryCall(...args) {
  try {
    call(...args);
  } catch {
    // Nothing is lost by it.
  }
}

function renew() {
  for (const job of [current, ...waiting]) {
    if (job && !job.lost) tryCall(job, 'renew(?, ?, ?)', leaseMs);
  }
}

function giveBack() {
  for (const job of waiting.splice(0)) tryCall(job, 'release(?, ?)');
}

// Settle the job, and take the next one with the same commit.
function settle(job, {verb, values}) {
  const rows = claimq.transaction(db, () => {
    if (!job.lost) call(job, verb, ...values);
    return waiting.length || stopping() ? [] : take();
  });
  waiting.push(...rows);
}

async function work(job) {
  const outcome = await new Promise(resolve => {
    settled = resolve;
    parentPort.postMessage({row: job});
  });
  settle(job, outcome);
}

async function main() {
  const timer = setInterval(renew, leaseMs / 3);
  try {
    while (!stopping()) {
      current = waiting.shift() ?? null;
      if (current && !current.lost) {
        begun++;
        await work(current);
        current = null;
      } else if (!current && !waiting.push(...take())) {
        wait.all(WAIT_MS, lane, capabilities, partition);
      }
    }
  } finally {
    clearInterval(timer);
    if (current && !current.lost) waiting.push(current);  // not settled
    giveBack();
    db.close();
  }
  parentPort.postMessage({begun});
}

parentPort.on('message', message => {
  if (message.outcome) settled(message.outcome);
  if (message.stop) giveBack();
});
main().catch(error => setImmediate(() => {
  throw error;
}));
