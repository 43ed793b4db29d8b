// What a worker can do beyond the story: a program of many small parts.
//
//     node grown.mjs NAME DATABASE
//
// Prints a line for each thing that is compared (test/package_node.test).
import fs from 'node:fs';
import process from 'node:process';
import {setTimeout as sleep} from 'node:timers/promises';
import * as claimq from 'claimq';
import whole from 'claimq';

const [name, file] = process.argv.slice(2);
const driver = process.env.CLAIMQ_DRIVER;
const quiet = {driver, log() {}, signals: false};
const open = () => claimq.open(file, {driver, timeoutMs: 30000});
const all = (db, sql, ...values) => db.prepare(sql).all(...values);
const say = (...words) => console.log(...words);
const fails = f => {
  try {
    return f();
  } catch (error) {
    return claimq.code(error) ?? error.message;
  }
};

// Until it is so; minutes are more than enough.
async function until(f) {
  for (let i = 0; i < 30000; i++) {
    if (f()) return;
    await sleep(10);
  }
  throw new Error(`never true: ${f}`);
}

const parts = {
  exports() {
    say(Object.keys(whole).filter(each => !(each in claimq)).join(' ')
      || 'all');
  },

  // submit() and what a job knows of it.
  async submit() {
    const db = open();
    say(claimq.submit(db, 'l', 'text', {maxAttempts: 3, priority: 9}),
      claimq.submit(db, 'l', new Uint8Array([123, 125]), {priority: 8}),
      claimq.submit(db, 'l', {a: [1]}, {headers: {trace: 'x'}, priority: 7,
        capabilities: ['gpu'], delayMs: null, groupKey: undefined}),
      claimq.submit(db, 'l', 42, {sourceKey: 'k', priority: 6}),
      claimq.submit(db, 'l', 42, {sourceKey: 'k', priority: 6}));
    say(claimq.submit(db, 'm', null, {after: [1, 2]}),
      all(db, "SELECT state FROM claimq_job WHERE lane='m'")[0].state,
      all(db, 'SELECT max_attempts FROM claimq_job')[0].max_attempts);
    say(fails(() => claimq.submit(db, 'l', 1, {nonsense: 1})));
    const worker = new claimq.Worker(file, 'l', job => {
      const json = fails(() => JSON.stringify(job.json));
      say(job.lane, typeof job.payload,
        json.includes('Unexpected') ? 'no JSON' : json,
        JSON.stringify(job.headers), job.task);
    }, {...quiet, capabilities: ['gpu']});
    say('begun', await worker.drain());
    db.close();
  },

  // A worker gets the tasks that it has handlers for, and no others.
  async tasks() {
    const db = open();
    for (const task of ['mail.welcome', 'mail.bye', 'mail.new', null]) {
      claimq.submit(db, 'l', {task}, {task, backoffMs: 3600000});
    }
    const texts = [];
    const worker = new claimq.Worker(file, 'l',
      {...quiet, log: text => texts.push(text)})
      .task('mail.welcome', job => say('welcome', job.task, job.json.task))
      .task('mail.bye', job => say('bye', job.task));
    say('begun', await worker.drain());
    say(texts.some(text => /job 4: no handler for jobs without/.test(text)));
    for (const row of all(db, 'SELECT state, attempt_index AS a, last_error '
      + 'AS e FROM claimq_job')) {
      say(row.state, row.a, row.e);
    }
    say(all(db, "SELECT reason FROM claimq_why('lane', 'l') WHERE reason="
      + "'capability'").length);
    claimq.submit(db, 'l', {});
    claimq.submit(db, 'm', {}, {task: 't', capabilities: '["gpu"]'});
    say(all(db, 'SELECT capabilities AS c FROM claimq_job '
      + "WHERE lane='m'")[0].c);
    const newer = new claimq.Worker(file, 'l', job => say('other', job.task),
      quiet).task('mail.new', job => say('new', job.task));
    say('begun', await newer.drain());
    say(await new claimq.Worker(file, 'l', quiet).run()
      .catch(error => error.message));
    db.close();
  },

  // Several lanes: the first goes first, each time.
  async lanes() {
    const db = open();
    for (const lane of ['c', 'b', 'a', 'b', 'a']) claimq.submit(db, lane, '');
    const seen = [];
    let others = 1;
    const worker = new claimq.Worker(file, ['a', 'b', 'c'], job => {
      seen.push(job.lane);
      if (job.lane === 'b' && others-- > 0) claimq.submit(db, 'a', '');
      if (job.lane === 'c') worker.stop();
    }, quiet);
    const begun = await worker.run();
    say(begun, seen.join(' '));
    db.close();
  },

  // Given back, thrown or returned: no attempt is used.
  async release() {
    const db = open();
    claimq.submit(db, 'l', 'throw');
    claimq.submit(db, 'l', 'return');
    let times = 0;
    const worker = new claimq.Worker(file, 'l', job => {
      times++;
      if (job.payload === 'throw' && times === 1) throw new claimq.Release();
      if (job.payload === 'return') return new claimq.Release(3600000);
    }, quiet);
    say('begun', await worker.drain());
    for (const row of all(db, 'SELECT payload, state, attempt_index AS a, '
      + 'available_at_ms > created_at_ms + 3000000 AS later '
      + 'FROM claimq_job')) {
      say(row.payload, row.state, row.a, row.later);
    }
    db.close();
  },

  // No file: that is said, unless it is to be created.
  async create() {
    const make = options => new claimq.Worker(file, 'l', () => {},
      {...quiet, ...options});
    const error = await make().drain().catch(reason => reason.message);
    say(error.replace(file, 'FILE'), fs.existsSync(file));
    say(await make({create: true}).drain(), fs.existsSync(file));
  },

  // PRAGMA synchronous of the connection that settles.
  async synchronous() {
    const db = open();
    say(all(db, 'PRAGMA synchronous')[0].synchronous);
    db.exec(`CREATE TABLE seen(value);
      CREATE TRIGGER settled AFTER UPDATE ON claimq_job
        WHEN new.state='completed' BEGIN
        INSERT INTO seen SELECT synchronous FROM pragma_synchronous;
      END`);
    for (const synchronous of [undefined, 'full']) {
      claimq.submit(db, 'l', 'x');
      await new claimq.Worker(file, 'l', () => {}, {...quiet, synchronous})
        .drain();
    }
    say(all(db, 'SELECT value FROM seen').map(row => row.value).join(' '));
    db.close();
  },

  // What can be claimed now, and nothing that falls due later.
  async drain() {
    const db = open();
    const worker = new claimq.Worker(file, 'l', job => {
      if (job.payload === 'again') throw new claimq.Retry('later', 3600000);
      if (job.payload === 'more') claimq.submit(db, 'l', 'one');
    }, quiet);
    say(await worker.drain());
    for (const payload of ['more', 'again', 'one']) {
      claimq.submit(db, 'l', payload);
    }
    claimq.submit(db, 'l', 'late', {delayMs: 3600000});
    say(await worker.drain());
    say(await worker.drain());
    db.close();
  },

  // Begin and end are logged, and a failure with its trace.
  async logging() {
    const db = open();
    claimq.submit(db, 'l', 'x', {maxAttempts: 1});
    const texts = [];
    function deep() {
      throw new RangeError('no luck');
    }
    const worker = new claimq.Worker(file, ['l', 'm'], async () => deep(),
      {driver, owner: 'me', concurrency: 2,
        log: (text, level) => texts.push(`${level} ${text}`)});
    await worker.drain();
    say(texts[0]);
    say(/^error claimq: job 1: failed: [^]*no luck[^]*deep/.test(texts[1]));
    say(texts.at(-1), texts.length);
    const [row] = all(db, 'SELECT error_class AS c, reason AS r '
      + 'FROM claimq_letter');
    say(row.c, /no luck[^]*deep/.test(row.r));
    db.close();
  },

  // Four handlers at once, no more; each job once; one beat renews all.
  async concurrency() {
    const db = open();
    for (let i = 0; i < 12; i++) claimq.submit(db, 'l', i);
    let now = 0, most = 0, open4;
    const four = new Promise(resolve => {
      open4 = resolve;
    });
    const worker = new claimq.Worker(file, 'l', async () => {
      most = Math.max(most, ++now);
      if (now === 4) open4();
      await four;
      await sleep(1);
      now--;
    }, {...quiet, concurrency: 4});
    say('begun', await worker.drain(), 'most', most);
    const renewed = new claimq.Worker(file, 'l', async job => {
      const [{e}] = all(db, 'SELECT expires_at_ms AS e FROM claimq_job '
        + 'WHERE job_id=?', job.id);
      await until(() => all(db, 'SELECT min(expires_at_ms) AS e FROM '
        + "claimq_job WHERE state='active'")[0].e > e + 3000);
    }, {...quiet, concurrency: 2, leaseMs: 3000});
    for (let i = 0; i < 2; i++) claimq.submit(db, 'l', i);
    say('begun', await renewed.drain());
    // While one is at hand, another is found as soon as it is there.
    let second;
    const both = new claimq.Worker(file, 'l', async job => {
      if (job.payload === 'second') second = true;
      else claimq.submit(db, 'l', 'second');
      await until(() => second);
      both.stop();
    }, {...quiet, concurrency: 2, leaseMs: 600000});
    claimq.submit(db, 'l', 'first');
    say('begun', await both.run());
    say(all(db, 'SELECT state, attempt_index + reclaim_count AS n, count(*) '
      + 'AS c FROM claimq_job GROUP BY 1, 2').map(row =>
      Object.values(row).join(' ')).join(', '));
    db.close();
  },

  // stop(): what is not begun is given back, what is at hand is finished.
  async stop() {
    const db = open();
    for (let i = 0; i < 5; i++) claimq.submit(db, 'l', i);
    let running = 0;
    const worker = new claimq.Worker(file, 'l', async job => {
      if (++running === 2) worker.stop();
      await until(() => running === 2 && all(db, 'SELECT count(*) AS n FROM '
        + "claimq_job WHERE state='ready'")[0].n === 3);
      if (!job.stopping.aborted) say('not stopping');
    }, {...quiet, concurrency: 2, batch: 5});
    say('begun', await worker.run());
    say(all(db, 'SELECT state, sum(attempt_index) AS a, count(*) AS c '
      + 'FROM claimq_job GROUP BY 1').map(row =>
      Object.values(row).join(' ')).join(', '));
    db.close();
  },

  // Handlers of a batch that do not wait leave the event loop its turns; those
  // that end in one turn are settled by one commit.
  async batch() {
    const db = open();
    for (let i = 0; i < 5; i++) claimq.submit(db, 'l', i);
    const worker = new claimq.Worker(file, 'l', () => {
      setImmediate(() => worker.stop());
      const end = performance.now() + 20;
      while (performance.now() < end);
    }, {...quiet, batch: 5});
    say('begun', await worker.run());
    for (let i = 0; i < 64; i++) claimq.submit(db, 'm', i);
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    say('begun', await new claimq.Worker(file, 'm', () => {},
      {...quiet, batch: 64}).drain());
    say(fs.statSync(`${file}-wal`).size < 400000);     // a commit: 12 KB
    db.close();
  },

  // A job that is cancelled is lost at once, however long its lease; one that
  // the handler has completed itself is not lost.
  async cancel() {
    const db = open();
    for (const concurrency of [1, 3]) {
      const id = claimq.submit(db, 'l', 'x');
      const worker = new claimq.Worker(file, 'l', async job => {
        all(db, "SELECT claimq_cancel(?, 'force', 1)", id);
        await until(() => job.lost.aborted);
      }, {...quiet, concurrency, leaseMs: 600000});
      say('begun', await worker.drain(), all(db, 'SELECT state FROM '
        + 'claimq_job WHERE job_id=?', id)[0].state);
    }
    claimq.submit(db, 'l', 'own');
    claimq.submit(db, 'l', 'revoked', {priority: -1});
    let own;
    const worker = new claimq.Worker(file, 'l', async job => {
      if (job.payload === 'own') {
        own = job;
        claimq.transaction(db, () => job.complete(db));
        await until(() => own.seen);
      } else {
        all(db, 'SELECT claimq_revoke(?)', job.id);
        await until(() => job.lost.aborted);
        if (own) own.seen = true;
        worker.stop();
      }
    }, {...quiet, concurrency: 2, leaseMs: 600000});
    say('begun', await worker.run(), 'own lost', own.lost.aborted);

    // Short jobs that keep the worker busy do not keep it from looking.
    let lost = false;
    for (const payload of ['long', 'short']) claimq.submit(db, 's', payload);
    await new claimq.Worker(file, 's', async job => {
      if (job.payload === 'short') {
        if (!lost) claimq.submit(db, 's', 'short');
        return;
      }
      all(db, "SELECT claimq_cancel(?, 'force', 1)", job.id);
      await until(() => job.lost.aborted);
      lost = true;
    }, {...quiet, concurrency: 2, leaseMs: 600000}).drain();
    say('lost', lost);
    db.close();
  },

  // A batch at a time; after a failure, what is not done comes again.
  async outbox() {
    const db = open();
    all(db, "SELECT claimq_queue('q', 2, 'backoff_ms', 0)");
    for (const n of [1, 2, 3, 4]) {
      all(db, "SELECT claimq_publish('q', ?, 'now_ms', ?)",
        JSON.stringify({n}), n);
    }
    all(db, "SELECT claimq_publish('q', '5', 'partition', 1, 'now_ms', 5)");
    let times = 0;
    const outbox = new claimq.Outbox(file, 'q', batch => {
      say(batch.partition, batch.messages.map(each => each.payload).join(' '));
      for (const message of batch) {
        if (message.json.n === 3 && !times++) throw new Error('no luck');
        if (message.json.n === 4) throw new claimq.Reject('poison');
        batch.done(message);
        if (message.json.n === 3) throw new claimq.Release();
      }
    }, quiet);
    say('begun', await outbox.drain());
    say(all(db, 'SELECT reason FROM claimq_letter')[0].reason,
      all(db, "SELECT claimq_wait(0, 'outbox', 'q') AS w")[0].w);
    // Two partitions at once, and a worker that is woken.
    let together = 0;
    const both = new claimq.Outbox(file, 'q', async batch => {
      if (batch.partition === 0) {
        all(db, "SELECT claimq_publish('q', 'x', 'partition', 1)");
      }
      together++;
      await until(() => together === 2);
      both.stop();
    }, {...quiet, concurrency: 2});
    const ended = both.run();
    all(db, "SELECT claimq_publish('q', 'y')");
    say('begun', await ended);
    db.close();
  },

  // Each conversation in order, also after a retry.
  async session() {
    const db = open();
    for (const [session, text] of [['a', '1'], ['b', '1'], ['a', '2']]) {
      all(db, 'SELECT claimq_enqueue(?, ?)', session, text);
    }
    const seen = [];
    const session = new claimq.Session(file, turn => {
      seen.push(turn.session + turn.messages.map(each => each.json));
      if (seen.length === 1) throw new claimq.Retry('again', 0);
      if (turn.session === 'b') throw new claimq.Reject('no');
    }, quiet);
    say('begun', await session.drain(), seen.sort().join(' '));
    say(all(db, 'SELECT scope, reason FROM claimq_letter')
      .map(row => Object.values(row).join(' ')).join(', '));
    all(db, "SELECT claimq_enqueue('c', 'x'), claimq_enqueue('d', 'x')");
    say('begun', await new claimq.Session(file, turn => say(turn.session),
      {...quiet, session: 'd'}).drain());
    db.close();
  },

  // One holder of a name, until it is released or lost.
  async contest() {
    const db = open();
    const contest = new claimq.Contest(file, 'leader',
      {...quiet, leaseMs: 600000});
    const guard = await contest.acquire();
    say(guard.fencingToken, await contest.acquire({wait: false}));
    const second = contest.acquire();         // waits
    await guard.release();
    const {fencingToken, lost, row, release} = await second;
    all(db, 'SELECT claimq_revoke(?)', row.claim_id);
    await until(() => lost.aborted);
    await release();
    say(fencingToken, await contest.hold(async held => {
      const [{mine}] = all(db,
        "SELECT mine FROM claimq_contest('leader', 'x')");
      return `${held.fencingToken} ${mine} ${held.lost.aborted}`;
    }));
    const short = await new claimq.Contest(file, 'short',
      {...quiet, leaseMs: 3000}).acquire();
    await until(() => all(db, 'SELECT expires_at_ms AS e FROM '    // a look
      + "claimq_contest('short', 'x', 0)")[0].e
        > short.row.expires_at_ms + 1);
    say(short.fencingToken, short.lost.aborted);
    await short.release();
    say(all(db, "SELECT outcome FROM claimq_contest('short', 'x')")[0].outcome);
    db.close();
  },
};

await parts[name]();
