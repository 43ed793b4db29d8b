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

let held = [];                // jobs: {row, begun, lost}
let begun = 0;
let ended = false;
let settled;                  // resolves the promise of the job at hand
const stopping = () => Atomics.load(flag, 0) === 1;

function take() {
  return claim.all(lane, owner, leaseMs, batch, capabilities, partition)
    .map(row => ({row, begun: false, lost: false}));
}

// Call a verb.  That the claim is lost is told to the handler, and is no error.
function call(job, verb, ...values) {
  if (job.lost) return;
  try {
    db.prepare(`SELECT claimq_${verb}`)
      .all(job.row.claim_id, job.row.lease_token, ...values);
  } catch (error) {
    if (claimq.code(error) !== 'claim_lost') throw error;
    job.lost = true;
    if (job.begun) parentPort.postMessage({lost: true});
  }
}

// Renew what is held; give back what is not begun once the worker is stopping,
// and everything at the end.  What fails is tried again at the next beat, or
// the lease ends.
function beat() {
  for (const job of held) {
    try {
      if (ended || (stopping() && !job.begun)) {
        call(job, 'release(?, ?)');
        job.lost = true;
      } else {
        call(job, 'renew(?, ?, ?)', leaseMs);
      }
    } catch {
      // Nothing is lost by it.
    }
  }
}

// Have the job handled, and settle it; take the next ones with the same commit
// unless some are left.
async function work(job) {
  job.begun = true;
  begun++;
  const [verb, ...values] = await new Promise(resolve => {
    settled = resolve;
    parentPort.postMessage({row: job.row});
  });
  held = claimq.transaction(db, () => {
    call(job, verb, ...values);
    const left = held.filter(other => other !== job && !other.lost);
    return left.length || stopping() ? left : take();
  });
}

async function main() {
  const timer = setInterval(beat, leaseMs / 3);
  try {
    while (!stopping()) {
      const job = held.find(each => !each.lost);
      if (job) {
        await work(job);
      } else {
        held = take();
        if (!held.length) wait.all(WAIT_MS, lane, capabilities, partition);
      }
    }
  } finally {
    clearInterval(timer);
    ended = true;
    beat();
    db.close();
  }
  parentPort.postMessage({begun});
}

parentPort.on('message', message => {
  if (message.outcome) settled(message.outcome);
  if (message.stop) beat();
});
main().catch(error => setImmediate(() => {
  throw error;
}));
