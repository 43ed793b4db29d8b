// The thread of a Worker: all that blocks.  It claims, waits, renews at a third
// of the lease, however busy the thread of the handler is, and settles a job
// and takes the next one in the same transaction.  See job_worker.cjs.
'use strict';
const {parentPort, workerData} = require('node:worker_threads');
const claimq = require('./index.cjs');

const {file, lane, owner, leaseMs, batch, capabilities, partition, timeoutMs,
  driver, flag} = workerData;
const CLAIM = `SELECT * FROM claimq_lane(?, ?, ?, ?)
  WHERE capabilities=? AND partition=?`;
const WAIT = `SELECT claimq_wait(500, 'lane', ?, 'capabilities', ?,
  'partition', ?)`;

let db, claim;
let held = [];                // jobs: {row, begun, lost}
let settle;                   // is given the outcome of the job at hand
const stopping = () => Atomics.load(flag, 0) === 1;
const take = () => claim.all(lane, owner, leaseMs, batch, capabilities,
  partition).map(row => ({row, begun: false, lost: false}));

// Call a verb.  That the claim is lost is told to the handler, and is no error.
function call(job, verb, ...values) {
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
function beat(ended) {
  for (const job of held.filter(each => !each.lost)) {
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

async function main() {
  db = claimq.open(file, {driver, timeoutMs});
  claim = db.prepare(CLAIM);
  const timer = setInterval(beat, leaseMs / 3, false);
  let begun = 0;
  try {
    while (!stopping()) {
      const job = held.find(each => !each.lost);
      if (!job) {
        held = take();
        if (!held.length) db.prepare(WAIT).all(lane, capabilities, partition);
        continue;
      }
      job.begun = true;
      begun++;
      const outcome = await new Promise(resolve => {
        settle = resolve;
        parentPort.postMessage({row: job.row});
      });
      held = claimq.transaction(db, () => {     // one commit for each job
        call(job, ...outcome);
        const left = held.filter(other => other !== job && !other.lost);
        return left.length || stopping() ? left : take();
      });
    }
  } finally {
    clearInterval(timer);
    beat(true);
    db.close();
  }
  parentPort.postMessage({begun});
}

// A message is an outcome; null: stop() was called.
parentPort.on('message', outcome => outcome ? settle(outcome) : beat(false));
// The error of a driver would arrive at the other thread without its message.
main().catch(({message, code}) => setImmediate(() => {
  throw Object.assign(new Error(message), {code});
}));
