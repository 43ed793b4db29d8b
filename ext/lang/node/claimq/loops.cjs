// The loops of the other disciplines.
//
//     await new claimq.Outbox('app.db', 'orders', async batch => {
//       for (const message of batch) {
//         await send(message.json);
//         batch.done(message);
//       }
//     }).run();
//
//     await new claimq.Session('app.db', async turn => {
//       await answer(turn.session, turn.messages);
//     }).run();
//
//     await new claimq.Contest('app.db', 'leader').hold(async guard => {
//       while (!guard.lost.aborted) await lead(guard.fencingToken);
//     });
'use strict';
const {Loop} = require('./loop.cjs');
const {Message, outcome, jobCalls} = require('./job.cjs');

// The messages of a claim, in order.
class Messages {
  #context;

  constructor(rows, context) {
    this.messages = rows.map(row => new Message(row));
    this.row = rows[0];
    this.#context = context;
  }

  get lost() {
    return this.#context.lost;
  }

  get stopping() {
    return this.#context.stopping;
  }

  [Symbol.iterator]() {
    return this.messages[Symbol.iterator]();
  }
}

// Messages of one partition of an outbox.
class Batch extends Messages {
  #done = new Set();

  get partition() {
    return this.row.partition;
  }

  // If the handler fails later, this message does not come again, provided
  // that those before it are done as well.
  done(message) {
    this.#done.add(message);
  }

  calls({verb, reason, delay}) {
    const end = this.messages.findIndex(each => !this.#done.has(each));
    const processed = end < 0 ? this.messages.length : end;
    if (verb === 'complete') return [['complete(?, ?)']];
    if (verb === 'release' && !processed) {
      return [["release(?, ?, 'delay_ms', ?)", delay], ['release(?, ?)']];
    }
    if (verb === 'reject') {
      return [["reject(?, ?, ?, 'processed', ?)", reason, processed],
        ["reject(?, ?, 'rejected', 'processed', ?)", processed]];
    }
    const [why, pause] = verb === 'release' ? ['released', delay ?? 0]
      : [reason, delay];
    return [["retry(?, ?, ?, 'processed', ?, 'delay_ms', ?)", why, processed,
      pause], ["retry(?, ?, 'the handler failed', 'processed', ?)", processed]];
  }
}

// What is next of one conversation.
class Turn extends Messages {
  get session() {
    return this.row.session;
  }

  calls(end) {
    if (end.verb === 'complete') return [['complete(?, ?)']];
    if (end.verb !== 'retry') return jobCalls(end);
    return [["retry(?, ?, ?, 'delay_ms', ?)", end.reason, end.delay],
      ["retry(?, ?, 'the handler failed')"]];
  }
}

// A loop whose handler gets the messages of a claim: of this class.
class MessageLoop extends Loop {
  #handler; #class; #claims;

  constructor(file, handler, options, kind, claims) {
    super(file, options);
    this.#handler = handler;
    this.#class = kind;
    this.#claims = claims;
  }

  claims() {
    return this.#claims(this.owner, this.leaseMs);
  }

  async handle(rows, context) {
    const subject = new this.#class(rows, context);
    const say = (text, level = 'warn') =>
      this.log(`claimq: claim ${rows[0].claim_id}: ${text}`, level);
    return subject.calls(await outcome(this.#handler, subject, say));
  }
}

// The messages of each partition in order, a batch at a time; with concurrency,
// of several partitions at once.
class Outbox extends MessageLoop {
  constructor(file, queue, handler, {max = null, partition = null,
    ...options} = {}) {
    super(file, handler, options, Batch, (owner, leaseMs) => ({
      name: `outbox ${queue}`,
      asks: [{sql: 'SELECT * FROM claimq_outbox(?, ?, ?, ?) WHERE partition=?',
        values: [queue, owner, leaseMs, max, partition]}],
      wait: ["SELECT claimq_wait(500, 'outbox', ?, 'partition', ?)", queue,
        partition]}));
  }
}

// Each conversation in order, one turn at a time; with concurrency, of several
// conversations at once.
class Session extends MessageLoop {
  constructor(file, handler, {session = null, max = null, ...options} = {}) {
    super(file, handler, options, Turn, (owner, leaseMs) => ({
      name: session === null ? 'any session' : `session ${session}`,
      asks: [{sql: 'SELECT * FROM claimq(?, ?, ?, ?) WHERE serial=1 '
        + "AND take='any'", values: [session, owner, leaseMs, max]}],
      wait: ["SELECT claimq_wait(500, 'session', ?, 'serial', 1, "
        + "'take', 'any')", session]}));
  }
}

// A loop that holds a subject until the promise of its handler is kept.
class Hold extends Loop {
  #label; #kind;

  constructor(file, label, {kind = 0, ...options}, handle) {
    super(file, options);
    this.#label = label;
    this.#kind = kind;
    this.handle = handle;
  }

  claims() {
    return {name: `contest ${this.#label}`,
      asks: [{sql: 'SELECT * FROM claimq_contest(?, ?, ?) WHERE kind=?',
        values: [this.#label, this.owner, this.leaseMs, this.#kind]}],
      wait: ["SELECT claimq_wait(500, 'contest', ?, 'kind', ?)", this.#label,
        this.#kind]};
  }
}

// One holder of a name.
class Contest {
  #file; #label; #options;

  constructor(file, label, options = {}) {
    this.#file = file;
    this.#label = label;
    this.#options = {...options, signals: false};
  }

  // Wait until the name is free, and hold it; renewed until release().  With
  // {wait: false}: null if somebody else holds it.
  acquire({wait = true} = {}) {
    return new Promise((resolve, reject) => {
      const loop = new Hold(this.#file, this.#label, this.#options,
        ([row], {lost}) => new Promise(end => {
          resolve({row, lost, fencingToken: row.fencing_token,
            release() {
              loop.stop();                    // it does not take it again
              end([['release(?, ?)']]);
              return ended.then(() => {});
            }});
        }));
      const ended = wait ? loop.run() : loop.drain();
      ended.then(() => resolve(null), reject);
    });
  }

  // Hold it while f(guard) runs; returns what f returns.
  async hold(f) {
    const guard = await this.acquire();
    try {
      return await f(guard);
    } finally {
      await guard.release();
    }
  }
}

module.exports = {Outbox, Session, Contest};
