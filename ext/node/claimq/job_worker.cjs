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
// the business of a thread (job_thread.cjs): it claims, waits, renews at a
// third of the lease, however busy this thread is, and settles a job and takes
// the next one in the same transaction.  The handler runs here.  If somebody
// else has taken a job over (after a pause longer than the lease, or by
// claimq_revoke), the signal job.lost is aborted: the handler should stop,
// nothing that it still does counts, and the worker goes on with the next job.
//
// SIGTERM and SIGINT, or stop(), end it: what is held and not begun is given
// back at once, and the job at hand is finished.
'use strict';
const crypto = require('node:crypto');
const os = require('node:os');
const path = require('node:path');
const {Worker: Thread} = require('node:worker_threads');

class Retry extends Error {
  constructor(reason = 'retry', delayMs = null) {
    super(reason);
    this.delayMs = delayMs;
  }
}

class Reject extends Error {}

// A value that every driver can bind.
function bindable(value) {
  if (value === undefined || value === null) return null;
  if (typeof value === 'bigint') {
    return value === BigInt.asIntN(64, value) ? value : String(value);
  }
  if (['string', 'number'].includes(typeof value)) return value;
  return value instanceof Uint8Array ? value : JSON.stringify(value);
}

class Worker {
  #options; #handler; #flag; #thread;
  #lost;                              // of the job at hand
  #stopping = new AbortController();

  constructor(file, lane, handler, {owner, leaseMs = 30000, batch = 1,
    capabilities = [], partition = 0, timeoutMs = 30000, signals = true,
    driver} = {}) {
    this.#handler = handler;
    this.#flag = new Int32Array(new SharedArrayBuffer(4));
    this.#options = {file, lane, leaseMs, batch, partition, timeoutMs, signals,
      driver, flag: this.#flag, capabilities: JSON.stringify(capabilities),
      owner: owner ?? [os.hostname(), process.pid,
        crypto.randomBytes(3).toString('hex')].join(':')};
  }

  // Work until stop() or a signal.  The promise has the number of jobs begun.
  async run() {
    const stop = () => this.stop();
    const names = this.#options.signals ? ['SIGTERM', 'SIGINT'] : [];
    for (const name of names) process.once(name, stop);
    try {
      return await new Promise((resolve, reject) => {
        this.#thread = new Thread(path.join(__dirname, 'job_thread.cjs'),
          {workerData: this.#options});
        this.#thread.on('message', message => this.#receive(message, resolve));
        this.#thread.on('error', reject);
        this.#thread.on('exit', status => reject(
          new Error(`the thread of claimq has ended with ${status}`)));
      });
    } finally {
      this.#thread.terminate();
      for (const name of names) process.removeListener(name, stop);
    }
  }

  // End run() soon.
  stop() {
    Atomics.store(this.#flag, 0, 1);          // seen when a wait returns
    this.#thread?.postMessage({stop: true});  // seen while a job is at hand
    this.#stopping.abort();
  }

  #receive(message, resolve) {
    if (message.row) this.#handle(message.row);
    if (message.lost) this.#lost.abort();
    if (message.begun !== undefined) resolve(message.begun);
  }

  async #handle(row) {
    this.#lost = new AbortController();
    const job = {id: row.job_id, payload: row.payload,
      attempt: row.attempt_index, row, lost: this.#lost.signal,
      stopping: this.#stopping.signal, complete: db => db.prepare(
        'SELECT claimq_complete(?, ?)').all(row.claim_id, row.lease_token)};
    let outcome;                      // a verb and its values
    try {
      const result = bindable(await this.#handler(job));
      outcome = ["complete(?, ?, 'result', ?)", result];
    } catch (error) {
      const reason = String(error?.message ?? error);
      outcome = error instanceof Reject
        ? ['reject(?, ?, ?)', reason]
        : ["retry(?, ?, ?, 'delay_ms', ?)", reason, error?.delayMs ?? null];
    }
    this.#thread.postMessage({outcome});
  }
}

module.exports = {Worker, Retry, Reject};
