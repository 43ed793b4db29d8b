// The handlers of a loop, which run in the thread of the application: as many
// at once as `concurrency` says.  The thread that has the database
// (loop_thread.cjs) sends claims, and learns how their handlers have ended.
'use strict';

const TURN_MS = 5;

// How handlers have ended.  A message to another thread costs more than a short
// handler, so that those that end in the same turn of the event loop share one.
class Ends {
  #post; #log;
  #list = [];

  constructor(post, log) {
    this.#post = post;
    this.#log = log;
  }

  add(end) {
    if (this.#list.push(end) === 1) process.nextTick(() => this.flush());
  }

  flush() {
    const ends = this.#list.splice(0);
    try {
      if (ends.length) this.#post({ends});
    } catch {
      for (const end of ends) this.#alone(end);
    }
  }

  // The result of a handler may be bytes that are detached.
  #alone({claim, calls}) {
    try {
      this.#post({ends: [{claim, calls}]});
    } catch (error) {
      this.#log(`claimq: claim ${claim}: ${error.message}`);
      this.#post({ends: [{claim, calls: calls.slice(-1)}]});
    }
  }
}

// Whether a claim is gone.  The signal is made when a handler asks for it: few
// do, and it costs as much as a short handler.
class Gone {
  #controller;
  #gone = false;
  #settled = false;

  get signal() {
    this.#controller ??= new AbortController();
    if (this.#gone) this.#controller.abort();
    return this.#controller.signal;
  }

  abort() {
    if (this.#settled) return;
    this.#gone = true;
    this.#controller?.abort();
  }

  // The handler has settled the claim itself: it is not lost.
  settle() {
    this.#settled = true;
  }
}

class Hands {
  #handle; #post; #stopping; #concurrency; #fail; #ends;
  #waiting = new Map();         // claims whose handlers have not begun
  #running = new Map();         // those at hand, and whether they are gone
  #asked = new Map();           // what their handlers wait for
  #asks = 0;
  #begun = 0;
  #turn = 0;                    // when the turn of the event loop began

  // handle(rows, context): the calls that settle the claim, the best first.  If
  // it fails, which is no failure of a handler, fail(error) is called.
  constructor(handle, {post, stopping, concurrency, log, fail}) {
    this.#handle = handle;
    this.#post = post;
    this.#stopping = stopping;
    this.#concurrency = concurrency;
    this.#fail = fail;
    this.#ends = new Ends(post, log);
  }

  // How many claims have come to a handler.
  get begun() {
    return this.#begun;
  }

  // The thread has these.
  take(claims) {
    for (const {claim, rows} of claims) this.#waiting.set(claim, rows);
    if (this.#stopping.aborted) this.giveBack();
    this.#beginTurn();
  }

  #beginTurn() {
    this.#turn = performance.now();
    this.#begin();
  }

  // Begin what can be begun.  Handlers that do not wait for anything follow one
  // another in the same turn of the event loop, but not for long.
  #begin() {
    for (const [claim, rows] of this.#waiting) {
      if (this.#running.size >= this.#concurrency) return;
      if (performance.now() > this.#turn + TURN_MS) {
        setImmediate(() => this.#beginTurn());
        return;
      }
      this.#waiting.delete(claim);
      this.#run(claim, rows).catch(this.#fail);
    }
  }

  async #run(claim, rows) {
    const gone = new Gone();
    this.#begun++;
    this.#running.set(claim, gone);
    const calls = await this.#handle(rows, {
      get lost() {
        return gone.signal;
      },
      stopping: this.#stopping,
      ask: (sql, ...values) => new Promise((yes, no) => {
        this.#asked.set(++this.#asks, {yes, no});
        this.#post({ask: this.#asks, claim, sql, values});
      }),
      settled: () => gone.settle(),
    });
    this.#running.delete(claim);
    this.#ends.add({claim, calls});
    this.#begin();
  }

  // The answer to what a handler has asked.
  answer({ask, rows, error}) {
    const {yes, no} = this.#asked.get(ask);
    this.#asked.delete(ask);
    if (rows) yes(rows);
    else no(new Error(error));
  }

  // The claim is gone.
  lose(claim) {
    if (this.#waiting.delete(claim)) this.#ends.add({claim, calls: []});
    else this.#running.get(claim)?.abort();
  }

  loseAll() {
    for (const gone of this.#running.values()) gone.abort();
  }

  // What is not begun is given back.
  giveBack() {
    this.#ends.flush();
    this.#post({back: [...this.#waiting.keys()]});
    this.#waiting.clear();
  }
}

module.exports = {Hands};
