// What the handler of a Worker gets, and what becomes of the job by what the
// handler does.
//
// A handler is somebody else's program: it may return anything, throw anything,
// and the text of what it throws may throw in turn.  None of that may end the
// worker, and all of it counts: what came of a job is a list of calls, the best
// first, and if SQLite or claimq refuses the values of one, the next is made.
// The last has no value of the handler's.
'use strict';

class Retry extends Error {
  constructor(reason = 'retry', delayMs = null) {
    super(reason);
    this.delayMs = delayMs;
  }
}

class Reject extends Error {}

// Give it back: no attempt is used.
class Release extends Error {
  constructor(delayMs = null) {
    super('released');
    this.delayMs = delayMs;
  }
}

// Thrown by sleep() and waitFor(), and not for handlers to catch: the job is
// given back, and its handler begins anew when it comes back.
class Pause extends Error {
  constructor(option, value) {
    super(`${option} ${value}`);
    this.calls = [['release(?, ?, ?, ?)', option, value],
      ['retry(?, ?, ?)', `cannot wait: ${option} ${value}`]];
  }
}

const OPEN = `SELECT id FROM (SELECT ? AS id)   -- not ended, or never there
  WHERE id NOT BETWEEN 1 AND (SELECT seq FROM sqlite_sequence
                              WHERE name='claimq_job')
    OR EXISTS (SELECT 1 FROM claimq_job
               WHERE job_id=id AND terminal_at_ms IS NULL)`;

// A payload that was stored as JSON, by submit() for example.
function parsed(payload) {
  const text = payload instanceof Uint8Array
    ? new TextDecoder().decode(payload) : payload;
  return typeof text === 'string' ? JSON.parse(text) : text;
}

// What can be read of a row of any claim.
class Message {
  constructor(row) {
    this.row = row;
    this.payload = row.payload;
  }

  get json() {
    return parsed(this.payload);
  }

  get headers() {
    return JSON.parse(this.row.headers ?? '{}');
  }
}

const TASK = 'task:';       // a capability: the name of a task follows

// A job.  context: the signals, ask(sql, ...values), which has the rows from
// the thread that has the database, and settled(), after which the claim's end
// is no surprise.
class Job extends Message {
  #context; #leaseMs;
  #naps = 0;

  constructor(row, context, leaseMs) {
    super(row);
    Object.assign(this, {id: row.job_id, lane: row.lane,
      attempt: row.attempt_index});
    this.task = JSON.parse(row.capabilities)
      .find(each => each.startsWith(TASK))?.slice(TASK.length) ?? null;
    this.#context = context;
    this.#leaseMs = leaseMs;
  }

  get lost() {
    return this.#context.lost;
  }

  get stopping() {
    return this.#context.stopping;
  }

  // Complete it on the handler's own connection.
  complete(db) {
    const {claim_id, lease_token} = this.row;
    db.prepare('SELECT claimq_complete(?, ?)').all(claim_id, lease_token);
    this.#context.settled();
  }

  // What the step gave when it was run the first time, in whichever attempt.
  async step(name, f) {
    const {job_id, claim_id, lease_token} = this.row;
    const {ask} = this.#context;
    let found = await ask('SELECT value FROM claimq_steps '
      + 'WHERE job_id=? AND name=?', job_id, name).catch(error => {
      if (/no such table/.test(error.message)) return [];
      throw error;
    });
    if (!found.length) {
      found = await ask("SELECT claimq_step(?, ?, ?, ?, 'lease_ms', ?) "
        + 'AS value', claim_id, lease_token, name,
      JSON.stringify(await f()) ?? 'null', this.#leaseMs);
    }
    return parsed(found[0].value);
  }

  // Give the job back for that time, once.
  async sleep(ms) {
    const until = await this.step(`sleep-${++this.#naps}`,
      () => Math.ceil(Date.now() + ms));
    if (until > Date.now()) throw new Pause('delay_ms', until - Date.now());
  }

  // Go on when these jobs have ended, however.
  async waitFor(ids) {
    const all = [ids].flat();
    for (const id of all) {
      if ((await this.#context.ask(OPEN, id)).length) {
        throw new Pause('after', `[${all}]`);
      }
    }
  }
}

// f(), or what is to be used if it throws.
function safely(f, otherwise) {
  try {
    return f();
  } catch {
    return otherwise;
  }
}

// A value that every driver can bind.
function bindable(value) {
  if (value === undefined || value === null) return null;
  if (typeof value === 'bigint') {
    return value === BigInt.asIntN(64, value) ? value : String(value);
  }
  if (['string', 'number'].includes(typeof value)) return value;
  return value instanceof Uint8Array ? value
    : JSON.stringify(value) ?? null;
}

const textOf = error => safely(() => String(error?.message ?? error),
  'an error whose text throws');

// The class of an error, and its text with the end of the trace.
function describe(error) {
  const name = safely(() => String(error.constructor.name).slice(0, 16), '')
    || typeof error;
  const frames = safely(() => error.stack.split('\n')
    .filter(line => /^\s+at /.test(line)).slice(0, 3), []);
  const text = error instanceof Error ? `${name}: ${textOf(error)}`
    : textOf(error);
  return [name, [text, ...frames].join('\n')];
}

// The delay of a Retry or Release in whole milliseconds; null: none is given.
function delayOf(error, say) {
  const name = error instanceof Retry ? 'Retry' : 'Release';
  const delay = safely(() => error.delayMs ?? null, NaN);
  if (delay === null) return null;
  const whole = ['number', 'bigint'].includes(typeof delay)
    ? Math.ceil(Number(delay)) : NaN;
  if (!Number.isFinite(whole)) {
    say(`the delay of ${name} is no finite number: it is left out`);
    return null;
  }
  const fits = Math.min(Math.max(whole, 0), Number.MAX_SAFE_INTEGER);
  if (fits !== whole && whole !== 0) {
    say(`the delay of ${name} is ${fits} instead of ${whole}`);
  }
  return fits;
}

// Call the handler; what came of it: {verb, and what belongs to it}.
async function outcome(handler, subject, say) {
  let error;
  try {
    const result = await handler(subject);
    if (!(result instanceof Release)) return {verb: 'complete', result};
    error = result;
  } catch (thrown) {
    error = thrown;
  }
  if (error instanceof Pause) return {verb: 'pause', calls: error.calls};
  if (error instanceof Release) {
    return {verb: 'release', delay: delayOf(error, say)};
  }
  if (error instanceof Reject) return {verb: 'reject', reason: textOf(error)};
  if (error instanceof Retry) {
    return {verb: 'retry', reason: textOf(error), delay: delayOf(error, say),
      name: null};
  }
  const [name, reason] = describe(error);
  say(`failed: ${safely(() => error.stack, null) ?? reason}`, 'error');
  return {verb: 'retry', reason, delay: null, name};
}

// The calls that settle a job.
function jobCalls({verb, calls, result, reason, delay, name}, say) {
  if (verb === 'pause') return calls;
  if (verb === 'release') {
    return [["release(?, ?, 'delay_ms', ?)", delay], ['release(?, ?)']];
  }
  if (verb === 'reject') {
    return [['reject(?, ?, ?)', reason], ["reject(?, ?, 'rejected')"]];
  }
  if (verb === 'retry') {
    return [["retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)", reason, delay,
      name], ["retry(?, ?, 'the handler failed')"]];
  }
  try {
    return [["complete(?, ?, 'result', ?)", bindable(result)],
      ['complete(?, ?)']];
  } catch (error) {
    say(`done, but its result cannot be stored: ${textOf(error)}`);
    return [['complete(?, ?)']];
  }
}

// Is it an error that may be gone after a while: a lock, a full disk?
function waitingCures(error) {
  return !/\bclaimq: [a-z_]+: /.test(error?.message)
    && new RegExp('\\bdatabase (table |schema )?is locked'
      + '|database or disk is full|disk I/O error|locking protocol'
      + '|out of memory').test(error?.message);
}

module.exports = {Job, Message, Pause, Release, Retry, Reject, outcome,
  jobCalls, waitingCures};
