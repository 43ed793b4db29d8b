// The loop of a worker: the jobs of one or several lanes.
//
//     const worker = new claimq.Worker('app.db', 'mail', async job => {
//       await send(job.payload, {signal: job.lost});
//     });
//     await worker.run();
//
// What the handler does decides what becomes of the job: it returns (completed,
// with what it returns as the result), throws a Reject (to the dead letters) or
// a Release (given back), or throws anything else (retried later; a Retry says
// when).  A handler for jobs of a name: worker.task('mail.welcome', handler).
'use strict';
const {Loop} = require('./loop.cjs');
const {Job, Retry, outcome, jobCalls} = require('./job.cjs');

const CLAIM = `SELECT * FROM claimq_lane(?, ?, ?)
  WHERE capabilities=? AND partition=? AND max=?`;
const WAIT = `SELECT claimq_wait(500, 'lanes', ?, 'capabilities', ?,
  'partition', ?)`;

class Worker extends Loop {
  #lanes; #handler; #capabilities; #partition;
  #tasks = new Map();

  constructor(file, lanes, handler, options) {
    if (typeof handler !== 'function') {
      [handler, options] = [undefined, handler ?? options];
    }
    super(file, options);
    const {capabilities = [], partition = null} = options ?? {};
    this.#lanes = [lanes].flat();
    this.#handler = handler;
    this.#capabilities = capabilities;
    this.#partition = partition && JSON.stringify(partition);
  }

  // The handler of jobs that were submitted with this task.
  task(name, handler) {
    this.#tasks.set(name, handler);
    return this;
  }

  claims() {
    if (!this.#handler && !this.#tasks.size) {
      throw new Error('a worker needs a handler, or tasks');
    }
    const lanes = this.#lanes;
    const scope = [JSON.stringify([...this.#capabilities,
      ...[...this.#tasks.keys()].map(name => `task:${name}`)]),
    this.#partition];
    return {name: `lanes ${lanes.join(', ')}`,
      asks: lanes.map(lane => ({sql: CLAIM, counted: true,
        values: [lane, this.owner, this.leaseMs, ...scope]})),
      wait: [WAIT, JSON.stringify(lanes), ...scope]};
  }

  async handle([row], context) {
    const job = new Job(row, context, this.leaseMs);
    const say = (text, level = 'warn') =>
      this.log(`claimq: job ${job.id}: ${text}`, level);
    const handler = this.#tasks.get(job.task) ?? this.#handler ?? (() => {
      say('no handler for jobs without a task', 'error');
      throw new Retry('no handler for jobs without a task');
    });
    return jobCalls(await outcome(handler, job, say), say);
  }
}

module.exports = {Worker};
