// peer_node.mjs: claimq and plainjob, used from Node through better-sqlite3.
//
//     node peer_node.mjs MODULES QUEUE probe DIR SO
//     node peer_node.mjs MODULES QUEUE run DIR SO DEPTH N SECONDS
//
// MODULES is the directory that has node_modules in it; QUEUE is claimq or
// plainjob.  All the rest, the work, the check at its end and the experiment,
// is that of peer_python.py, where it is explained.

import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, name, verb, where, so, ...numbers] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), "x.js"));
const Database = require("better-sqlite3");

const payload = (i) => "job " + String(i).padStart(46, "0");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const NUMBERS = `WITH RECURSIVE c(i) AS
  (VALUES(@first) UNION ALL SELECT i+1 FROM c WHERE i<@first+@n-1) `;

function open(file) {
  const db = new Database(file);
  db.pragma("journal_mode=WAL");
  db.pragma("synchronous=NORMAL");
  db.pragma("busy_timeout=5000");
  return db;
}

const versionOf = (lib) => JSON.parse(fs.readFileSync(
  path.join(modules, "node_modules", lib, "package.json"))).version;

// A queue: claim() gives [key, payload] or null, count() the rows that are
// ready, held and done.  ttl is in milliseconds.

function claimq(file, ttl) {
  const db = open(file);
  db.loadExtension(path.resolve(so));
  db.exec("SELECT claimq_init()");
  const add = db.prepare(
    "INSERT INTO claimq_batch(session_id, payload) " + NUMBERS +
    "SELECT 'q', printf('job %046d', i) FROM c");
  const claim = db.prepare(
    "SELECT claim_id, lease_token, payload FROM claimq('q', ?, ?)");
  const complete = db.prepare("SELECT claimq_complete(?, ?)");
  return {
    db, keeps: false, attempts: true,
    version: db.prepare("SELECT claimq_version() v").get().v,
    fillHow: "INSERT INTO claimq_batch",
    note: "claims one batch of a session under a lease; complete checks " +
      "claim and token and deletes the row",
    COUNT: `SELECT sum(claim_id IS NULL) a, sum(claim_id IS NOT NULL) b, 0 c
      FROM claimq_batch`,
    fill: (first, n) => add.run({ first, n }),
    claim(who) {
      const rows = claim.all(who, ttl);
      return rows.length ? [rows[0], rows[0].payload] : null;
    },
    complete: (key) => complete.get(key.claim_id, key.lease_token),
    close: () => db.close(),
  };
}

const plain = name === "plainjob" &&
  await import(pathToFileURL(require.resolve("plainjob")));

// Its worker gets the id, reads the job, and marks it done.
function plainjob(file, ttl) {
  const db = open(file);
  const queue = plain.defineQueue({
    connection: plain.better(db), timeout: ttl, maintenanceInterval: 20 * ttl,
    serializer: (x) => x,
    logger: { error() {}, warn() {}, info() {}, debug() {} },
  });
  return {
    db, keeps: true, attempts: false, version: versionOf("plainjob"),
    fillHow: "its addMany()",
    note: "marks the row as processing, then as done by id, whoever asks; " +
      "a timer in any open process requeues what was due too long ago " +
      "(counted from the due time, not from the claim)",
    COUNT: `SELECT sum(status=0) a, sum(status=1) b, sum(status=2) c
      FROM plainjob_jobs`,
    fill(first, n) {
      for (let i = 0; i < n; i += 10000) {
        const some = Math.min(10000, n - i);
        queue.addMany("t", Array.from({ length: some },
          (_, k) => payload(first + i + k)));
      }
    },
    claim() {
      const job = queue.getAndMarkJobAsProcessing("t");
      return job ? [job.id, queue.getJobById(job.id).data] : null;
    },
    complete: (key) => queue.markJobAsDone(key),
    close: () => queue.close(),
  };
}

const make = { claimq, plainjob }[name];

function count(queue) {
  const row = queue.db.prepare(queue.COUNT).get();
  return [row.a ?? 0, row.b ?? 0, row.c ?? 0];
}

// The figure.

// Seconds, by the clock and by the processor.
function take(queue, k, seen) {
  const before = process.cpuUsage();
  const start = process.hrtime.bigint();
  for (let i = 0; i < k; i++) {
    const [key, data] = queue.claim("w");
    queue.complete(key);
    seen.push(data);
  }
  const wall = Number(process.hrtime.bigint() - start) / 1e9;
  const { user, system } = process.cpuUsage(before);
  return [wall, (user + system) / 1e6];
}

function blocks(queue, depth, n, seconds, seen) {
  const warm = [1, 2, 3].map(() => take(queue, 1, seen)[0]);
  const size = Math.max(1, Math.min(100,
    Math.floor(0.02 / Math.min(...warm))));
  queue.fill(depth + 1, 3);
  const times = [];
  const cpus = [];
  let spent = 0;
  while (times.length < 3 || (seen.length < n && spent < seconds)) {
    queue.fill(depth + seen.length + 1, size);
    const [t, cpu] = take(queue, size, seen);
    spent += t;
    times.push(1e6 * t / size);
    cpus.push(1e6 * cpu / size);
  }
  return [times, cpus].map((list) => list.sort((a, b) => a - b));
}

function check(queue, depth, seen) {
  const got = String(count(queue));
  const want = String([depth, 0, queue.keeps ? seen.length : 0]);
  if (new Set(seen).size !== seen.length) {
    throw new Error("a job was delivered twice");
  }
  if (got !== want) {
    throw new Error(`rows ready, held, done: ${got}, not ${want}`);
  }
}

function run(file, depth, n, seconds) {
  const ttl = 300000;
  const filler = make(file, ttl);
  filler.db.pragma("cache_size=-200000");
  filler.fill(1, depth);
  filler.close();              // the last one to close checkpoints the WAL
  const queue = make(file, ttl);
  const seen = [];
  const [times, cpus] = blocks(queue, depth, n, seconds, seen);
  check(queue, depth, seen);
  queue.close();
  const at = (q, list) => Number(
    list[Math.floor(q * (list.length - 1))].toFixed(1));
  return { depth, us: at(0.5, times), lo: at(0.25, times),
    hi: at(0.75, times), cpu: at(0.5, cpus), n: seen.length };
}

// The experiment.

function displaced(queue, old, held) {
  const before = count(queue)[1];
  try {
    queue.complete(old);
  } catch {
    // claimq raises; what counts is the row
  }
  const kept = count(queue)[1] === before;
  if (kept) queue.complete(held);
  return kept;
}

async function probe(file) {
  const queue = make(file, 50);
  queue.fill(1, 2);
  const old = {};
  for (let i = 0; i < 2; i++) {
    const [key, data] = queue.claim("a");
    old[data] = key;
  }
  await sleep(1300);           // plainjob's timer runs once a second here
  const again = [queue.claim("b"), queue.claim("a")];
  const lease = !again.includes(null);
  const answer = {
    version: queue.version,
    sqlite: queue.db.prepare("SELECT sqlite_version() v").get().v,
    lease, refuses: false, fence: false, attempts: queue.attempts,
    fill: queue.fillHow, note: queue.note,
  };
  if (lease) {
    const [[b, bData], [a, aData]] = again;
    answer.refuses = displaced(queue, old[bData], b);
    answer.fence = displaced(queue, old[aData], a);
  }
  queue.close();
  return answer;
}

fs.mkdirSync(where, { recursive: true });
try {
  const file = path.join(where, "queue.db");
  console.log(JSON.stringify(verb === "probe" ? await probe(file)
    : run(file, ...numbers.map(Number))));
} finally {
  fs.rmSync(where, { recursive: true });
}
