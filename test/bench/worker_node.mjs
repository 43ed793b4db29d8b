// worker_node.mjs: the Worker of claimq and the workers of plainjob, both over
// better-sqlite3.
//
//     node worker_node.mjs MODULES QUEUE DIR JOBS CONCURRENCY MS
//
// MODULES are directories that have node_modules in them, separated by ":";
// QUEUE is claimq or plainjob.  The rest is that of worker_python.py, where it is
// explained.  A worker of plainjob does one job at a time: there are CONCURRENCY
// of them in the process.
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const [modules, name, where, jobs, concurrency, ms] = process.argv.slice(2);
const home = modules.split(':').find((dir) =>
  fs.existsSync(path.join(dir, 'node_modules', name)));
const require = createRequire(path.join(path.resolve(home), 'x.js'));
const file = path.join(where, 'queue.db');
const payloads = Array.from({length: Number(jobs)},
  (_, i) => `job ${String(i).padStart(46, '0')}`);
const seen = [];
let start, end, all;
const done = new Promise((resolve) => all = resolve);
const now = () => [performance.now() / 1e3, process.cpuUsage()];

async function handle(payload) {
  start ??= now();
  if (Number(ms)) await new Promise((over) => setTimeout(over, Number(ms)));
  if (seen.push(payload) === payloads.length) {
    end = now();
    all();
  }
}

async function claimq() {
  const lib = require('claimq');
  const db = lib.open(file, {driver: 'better-sqlite3'});
  lib.transaction(db, () => payloads.forEach((p) => lib.submit(db, 'q', p)));
  await new lib.Worker(file, 'q', (job) => handle(job.payload), {
    driver: 'better-sqlite3', concurrency: Number(concurrency),
    log() {}}).drain();
  db.close();
}

async function plainjob() {
  const lib = await import(pathToFileURL(require.resolve('plainjob')));
  const db = new (require('better-sqlite3'))(file);
  for (const pragma of ['journal_mode=WAL', 'synchronous=NORMAL']) {
    db.pragma(pragma);
  }
  const logger = {error() {}, warn() {}, info() {}, debug() {}};
  const queue = lib.defineQueue({connection: lib.better(db), logger,
    serializer: (x) => x});
  queue.addMany('t', payloads);
  const workers = Array.from({length: Number(concurrency)}, () =>
    lib.defineWorker('t', (job) => handle(job.data), {queue, logger}));
  workers.forEach((worker) => worker.start());
  await done;
  await Promise.all(workers.map((worker) => worker.stop()));
  queue.close();
}

await {claimq, plainjob}[name]();
if (seen.sort().join() !== payloads.join()) throw new Error(`${seen.length}`);
const cpu = (usage) => (usage.user + usage.system) / 1e6;
const {version} = JSON.parse(fs.readFileSync(
  path.join(home, 'node_modules', name, 'package.json')));
console.log(JSON.stringify({version, seconds: end[0] - start[0],
  cpu: cpu(end[1]) - cpu(start[1])}));
