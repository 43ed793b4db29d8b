// broker_node.mjs: queues beside claimq that are used from Node.
//
//     node broker_node.mjs MODULES SYSTEM prepare WHERE SYNC QUEUE N
//     node broker_node.mjs MODULES SYSTEM submit WHERE SYNC QUEUE N PAUSE_MS \
//         KIND
//     node broker_node.mjs MODULES SYSTEM work WHERE SYNC QUEUE LOG AGAIN
//
// MODULES is the directory that has node_modules in it; SYSTEM is a key of
// SYSTEMS below.  All the rest is that of broker_python.py, where it is
// explained.
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const [modules, system, verb, where, sync, name, ...rest] =
  process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), 'x.js'));
const sleep = (ms) => new Promise((over) => setTimeout(over, ms));
const now = () =>
  String(process.hrtime.bigint() / 1000n).padStart(16, '0');
const payload = (kind = '.') => now() + kind + '-'.repeat(33);
const versionOf = (lib) => JSON.parse(fs.readFileSync(
  path.join(modules, 'node_modules', lib, 'package.json'))).version;
const silent = {error() {}, warn() {}, info() {}, debug() {}};

// The Worker of the package.
function claimq() {
  const lib = require('claimq');
  const driver = 'better-sqlite3';
  const db = lib.open(where, {driver, synchronous: sync, timeoutMs: 30000});
  return {
    version: versionOf('claimq'),
    fill: (n) => db.prepare(
      `INSERT INTO claimq_job(lane, payload, available_at_ms)
       WITH RECURSIVE c(i) AS
         (VALUES(1) UNION ALL SELECT i+1 FROM c WHERE i<?)
       SELECT ?, ?, 0 FROM c`).run(n, name, payload()),
    put: (data) => lib.submit(db, name, data),
    work: (handle) => new lib.Worker(where, name, (job) => handle(job.payload),
      {driver, synchronous: sync, log() {}}).run(),
    close: () => db.close(),
  };
}

// A worker asks every second while there is nothing.
async function plainjob() {
  const lib = await import(pathToFileURL(require.resolve('plainjob')));
  const db = new (require('better-sqlite3'))(where);
  const queue = lib.defineQueue({connection: lib.better(db), logger: silent,
    serializer: (x) => x});
  db.pragma('busy_timeout=30000');
  return {
    version: versionOf('plainjob'),
    fill(n) {
      for (let i = 0; i < n; i += 10000) {
        queue.addMany(name, Array(Math.min(10000, n - i)).fill(payload()));
      }
    },
    put: (data) => queue.add(name, data),
    work: (handle) => lib.defineWorker(name, (job) => handle(job.data),
      {queue, logger: silent}).start(),
    close: () => queue.close(),
  };
}

// Completed jobs stay, as is its default.
function bullmq() {
  const lib = require('bullmq');
  const connection = {path: where, maxRetriesPerRequest: null};
  const queue = new lib.Queue(name, {connection});
  return {
    version: versionOf('bullmq'),
    async fill(n) {
      const data = payload();
      for (let i = 0; i < n; i += 5000) {
        await queue.addBulk(Array.from({length: Math.min(5000, n - i)},
          () => ({name: 'job', data})));
      }
    },
    put: (data) => queue.add('job', data),
    work: (handle) => new lib.Worker(name, (job) => handle(job.data),
      {connection}),
    close: () => queue.close(),
  };
}

// It learns of a new job by NOTIFY.
async function graphile() {
  const lib = require('graphile-worker');
  const logger = new lib.Logger(() => () => {});
  const options = {connectionString: where, logger};
  const utils = await lib.makeWorkerUtils(options);
  return {
    version: versionOf('graphile-worker'),
    async fill(n) {
      await utils.migrate();
      await utils.withPgClient((client) => client.query(
        `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
           SELECT ($1, $2::json, NULL, NULL, NULL, NULL, NULL, NULL
             )::graphile_worker.job_spec
           FROM generate_series(1, $3)))`,
        [name, JSON.stringify(payload()), n]));
      await utils.withPgClient((client) => client.query('ANALYZE'));
    },
    put: (data) => utils.addJob(name, data),
    work: (handle) => lib.run({...options, concurrency: 1, crontab: '',
      noHandleSignals: true, taskList: {[name]: (data) => handle(data)}}),
    close: () => utils.release(),
  };
}

const SYSTEMS = {claimq, plainjob, bullmq, graphile};

async function submit(queue, n, pauseMs, kind) {
  for (let i = 0; i < Number(n); i++) {
    await queue.put(payload(kind));
    await sleep(Number(pauseMs) * (0.5 + Math.random()));
  }
}

// Writes the process id and sleeps, if no other worker has done so.
async function hold(file) {
  try {
    fs.writeFileSync(file, `${process.pid}\n`, {flag: 'wx'});
  } catch {
    return;
  }
  await sleep(3600000);
}

async function work(queue, own, log, again) {
  const out = fs.openSync(log, 'a');
  async function handle(data) {
    const line = `${data.slice(0, 16)} ${now()}\n`;
    if (data[16] === 'h') await hold(path.join(path.dirname(log), 'held'));
    fs.writeSync(out, line);
    if (again === '1') await own.put(payload());
  }
  if (!fs.readSync(0, Buffer.alloc(1))) process.exit();
  process.stdin.on('end', () => process.exit()).resume();
  await queue.work(handle);
}

const queue = await SYSTEMS[system]();
if (verb === 'work') {
  await work(queue, await SYSTEMS[system](), ...rest);
} else {
  if (verb === 'submit') {
    await submit(queue, ...rest);
  } else {
    await queue.fill(Number(rest[0]));
    console.log(JSON.stringify({version: queue.version}));
  }
  await queue.close();
  process.exit();
}
