// The loop of a worker, whole.
//
//     const worker = new claimq.Worker('app.db', 'mail', async job => {
//       await send(job.payload, {signal: job.lost});
//     });
//     await worker.run();
//
// What the handler does decides what becomes of the job: it returns (completed,
// with what it returns as the result), throws a Reject (to the dead letters),
// or throws anything else (retried later; a Retry says when).
//
// SQLite's calls block, and waiting for work most of all.  So the database is
// the business of a thread (job_thread.cjs); the handler runs here.  If
// somebody else has taken a job over (after a pause longer than the lease, or
// by claimq_revoke), the signal job.lost is aborted: the handler should stop,
// nothing that it still does counts, and the worker goes on with the next job.
// SIGTERM and SIGINT, or stop(), end it: what is held and not begun is given
// back at once, and the job at hand is finished.
'use strict';
const crypto = require('node:crypto');
const os = require('node:os');
const path = require('node:path');
const {Worker: Thread} = require('node:worker_threads');
const {newJob, Retry, Reject, handle} = require('./job.cjs');

class Worker {
  #options; #handler; #signals; #thread;
  #flag = new Int32Array(new SharedArrayBuffer(4));
  #stopping = new AbortController();

  constructor(file, lane, handler, {owner, leaseMs = 30000, batch = 1,
    capabilities = [], partition = 0, timeoutMs = 30000, signals = true,
    driver} = {}) {
    this.#handler = handler;
    this.#signals = signals ? ['SIGTERM', 'SIGINT'] : [];
    this.#options = {file, lane, leaseMs, batch, partition, timeoutMs, driver,
      flag: this.#flag, capabilities: JSON.stringify(capabilities),
      owner: owner ?? [os.hostname(), process.pid,
        crypto.randomBytes(3).toString('hex')].join(':')};
  }

  // Work until stop() or a signal.  The promise has the number of jobs begun.
  async run() {
    const stop = () => this.stop();
    const thread = new Thread(path.join(__dirname, 'job_thread.cjs'),
      {workerData: this.#options});
    this.#thread = thread;
    for (const name of this.#signals) process.once(name, stop);
    try {
      return await new Promise((resolve, reject) => {
        let lost;                             // of the job at hand
        thread.on('message', async message => {
          if (message.row) {
            lost = new AbortController();
            const job = newJob(message.row, lost.signal,
              this.#stopping.signal);
            thread.postMessage(await handle(job, this.#handler));
          } else if (message.lost) {
            lost.abort();
          } else {
            resolve(message.begun);
          }
        });
        thread.on('error', reject);
        thread.on('exit', status => reject(
          new Error(`the thread of claimq has ended with ${status}`)));
      });
    } finally {
      thread.terminate();
      for (const name of this.#signals) process.removeListener(name, stop);
    }
  }

  // End run() soon.
  stop() {
    Atomics.store(this.#flag, 0, 1);          // seen when a wait returns
    this.#thread?.postMessage(null);          // seen while a job is at hand
    this.#stopping.abort();
  }
}

module.exports = {Worker, Retry, Reject};
