// What all loops have in common: Worker (worker.cjs), and those of loops.cjs.
//
// SQLite's calls block, and waiting for work most of all.  So the database is
// the business of a thread (loop_thread.cjs); the handlers run here, as many at
// once as `concurrency` says (hands.cjs).  A handler whose claim is gone
// (somebody else has taken it over after a pause longer than the lease, or it
// was cancelled or revoked) has its signal `lost` aborted: it should stop,
// nothing that it still does counts, and the loop goes on with the next one.
//
// A lock that lasts longer than the timeout, or a full disk, does not end a
// loop: it says so in the log, waits and goes on, and what it has done is
// settled then.  A file that was removed or replaced ends it: its jobs are not
// there any more.  SIGTERM and SIGINT, or stop(), end it: what is held and not
// begun is given back at once, and what is at hand is finished.
'use strict';
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {Worker: Thread} = require('node:worker_threads');
const {Hands} = require('./hands.cjs');

// Each kind of loop says what it asks for, and handles what it gets:
//   claims()              {name, asks: [{sql, values, counted}],
//                          wait: [sql, value...]}; counted: the last value, how
//                          many claims are wanted, is yet to come
//   handle(rows, context) the calls that settle the claim, the best first
class Loop {
  #options; #create; #signals; #hands;
  #flag = new Int32Array(new SharedArrayBuffer(4));
  #stopping = new AbortController();

  constructor(file, {owner, leaseMs = 30000, batch = 1, concurrency = 1,
    timeoutMs = 30000, synchronous = 'normal', create = false, signals = true,
    log = text => console.error(text), driver} = {}) {
    this.log = log;
    this.leaseMs = leaseMs;
    this.owner = owner ?? [os.hostname(), process.pid,
      crypto.randomBytes(3).toString('hex')].join(':');
    this.#create = create;
    this.#signals = signals ? ['SIGTERM', 'SIGINT'] : [];
    this.#options = {file, leaseMs, batch, concurrency, flag: this.#flag,
      options: {driver, timeoutMs, synchronous}};
  }

  // Work until stop() or a signal.  The promise has the number of jobs begun.
  run() {
    return this.#work(false);
  }

  // Work until nothing can be claimed now.
  drain() {
    return this.#work(true);
  }

  // End run() soon.
  stop() {
    Atomics.store(this.#flag, 0, 1);          // seen when a call returns
    this.#stopping.abort();
    this.#hands?.giveBack();                  // seen while jobs are at hand
  }

  async #work(drain) {
    const {name, asks, wait} = this.claims();
    const {file, concurrency} = this.#options;
    if (!this.#create && !/^(:memory:|file:|$)/.test(file)
        && !fs.existsSync(file)) {
      throw new Error(`there is no file ${file}: create it with open(), `
        + 'or with create: true');
    }
    this.log(`claimq: ${this.owner} begins: ${name}, concurrency `
      + `${concurrency}`, 'info');
    const thread = new Thread(path.join(__dirname, 'loop_thread.cjs'),
      {workerData: {...this.#options, asks, wait, drain}});
    const stop = () => this.stop();
    for (const signal of this.#signals) process.once(signal, stop);
    try {
      const begun = await this.#serve(thread);
      this.log(`claimq: ${this.owner} has ended: ${begun} begun`, 'info');
      return begun;
    } finally {
      thread.terminate();
      for (const signal of this.#signals) {
        process.removeListener(signal, stop);
      }
    }
  }

  // Do what the thread says until it ends.
  #serve(thread) {
    return new Promise((resolve, reject) => {
      const hands = new Hands((rows, context) => this.handle(rows, context), {
        post: message => thread.postMessage(message),
        stopping: this.#stopping.signal,
        concurrency: this.#options.concurrency,
        log: text => this.log(text, 'warn'),
        fail: reject,
      });
      this.#hands = hands;
      thread.on('message', message => {
        if (message.claims) hands.take(message.claims);
        else if (message.ask) hands.answer(message);
        else if (message.lost) hands.lose(message.lost);
        else if (message.log) this.log(message.log, 'warn');
        else resolve(hands.begun);
      });
      thread.on('error', reject);
      thread.on('exit', status => reject(
        new Error(`the thread of claimq has ended with ${status}`)));
    }).catch(error => {
      this.#hands.loseAll();
      throw error;
    });
  }
}

module.exports = {Loop};
