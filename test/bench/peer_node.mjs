// peer_node.mjs: claimq and plainjob, used from Node through better-sqlite3, and
// honker, as the native module that its authors publish for each platform.
//
//     node peer_node.mjs MODULES QUEUE probe DIR SO
//     node peer_node.mjs MODULES QUEUE run DIR SO DEPTH N SECONDS
//     node peer_node.mjs MODULES QUEUE work DIR SO
//     node peer_node.mjs MODULES QUEUE put DIR SO
//
// MODULES is the directory that has node_modules in it; QUEUE is claimq,
// plainjob or honker.  All the rest, the work, the check at its end, the
// experiment and the two sides of waiting, is that of peer_python.py, where it
// is explained.

import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
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
  db.exec("SELECT claimq_init('sessions', 1)");
  const add = db.prepare(
    "INSERT INTO claimq_batch(session, payload) " + NUMBERS +
    "SELECT 'q', printf('job %046d', i) FROM c");
  const claim = db.prepare(
    "SELECT claim_id, lease_token, payload FROM claimq('q', ?, ?)");
  const complete = db.prepare("SELECT claimq_complete(?, ?)");
  const wait = db.prepare("SELECT claimq_wait(60000, 'session', 'q')");
  const put = db.prepare("SELECT claimq_enqueue('q', ?)");
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
    wait: () => wait.get(),
    put: (data) => put.get(data),
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
    put: (data) => queue.add("t", data),
    work(got) {
      const worker = plain.defineWorker("t", (job) => got(job.data),
        { queue, logger: { error() {}, warn() {}, info() {}, debug() {} } });
      return worker.start();
    },
    close: () => queue.close(),
  };
}

// The module of honker for this machine.
const native = "@russellthehippo/honker-node-" + process.platform + "-" +
  process.arch + (process.platform === "linux" ? "-gnu" : "");

// It has connections of its own, for SQL in transactions and outside; its
// functions are SQL's.  Its leases count whole seconds.
function honker(file, ttl) {
  const db = require(native).open(file);
  const tx = (sql, ...values) => {
    const t = db.transaction();
    const rows = t.query(sql, values);
    t.commit();
    return rows;
  };
  tx("SELECT honker_bootstrap()");
  const seconds = Math.ceil(ttl / 1000);
  const events = verb === "work" && db.updateEvents();
  return {
    keeps: false, attempts: true, version: versionOf(native),
    fillHow: "INSERT INTO its _honker_live", late: 2200,
    note: "honker_claim_batch leases the row in the worker's name; " +
      "honker_ack deletes it if name and lease time still hold",
    COUNT: `SELECT sum(state='pending') AS a, sum(state='processing') AS b,
      0 AS c FROM _honker_live`,
    read: (sql) => db.query(sql)[0],
    fill: (first, n) => tx("INSERT INTO _honker_live(queue, payload) " +
      NUMBERS.replaceAll("@first", first).replaceAll("@n", n) +
      "SELECT 'q', json_quote(printf('job %046d', i)) FROM c"),
    claim(who) {
      const [row] = tx("SELECT honker_claim_batch('q', ?, 1, ?) AS jobs", who,
        seconds);
      const [job] = JSON.parse(row.jobs);
      return job ? [[job.id, who], JSON.parse(job.payload)] : null;
    },
    complete: (key) => tx("SELECT honker_ack(?, ?)", ...key),
    wait: () => events.next(),
    put: (data) => tx("SELECT honker_enqueue('q', ?, NULL, NULL, 0, 3, NULL)",
      JSON.stringify(data)),
    close: () => db.close(),
  };
}

const make = { claimq, plainjob, honker }[name];

const read = (queue, sql) => queue.read ? queue.read(sql)
  : queue.db.prepare(sql).get();

function count(queue) {
  const row = read(queue, queue.COUNT);
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
  filler.db?.pragma("cache_size=-200000");
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
  // plainjob's timer runs once a second here.
  await sleep(queue.late ?? 1300);
  const again = [queue.claim("b"), queue.claim("a")];
  const lease = !again.includes(null);
  const answer = {
    version: queue.version,
    sqlite: read(queue, "SELECT sqlite_version() AS v").v,
    lease, refuses: false, fence: false, attempts: queue.attempts,
    waits: true, fill: queue.fillHow, note: queue.note,
  };
  if (lease) {
    const [[b, bData], [a, aData]] = again;
    answer.refuses = displaced(queue, old[bData], b);
    answer.fence = displaced(queue, old[aData], a);
  }
  queue.close();
  return answer;
}

// The two sides of waiting.

const say = (...words) => console.log(
  [...words, process.hrtime.bigint() / 1000n].join(" "));

async function work(queue) {
  if (queue.work) return queue.work(say);
  for (;;) {
    const claimed = queue.claim("w");
    if (claimed) {
      say(claimed[1]);
      queue.complete(claimed[0]);
    } else {
      await queue.wait();
    }
  }
}

async function put(queue) {
  for await (const line of createInterface({ input: process.stdin })) {
    queue.put(line);
    say();
  }
  process.exit();
}

fs.mkdirSync(where, { recursive: true });
const file = path.join(where, "queue.db");
if (verb === "work" || verb === "put") {
  await (verb === "work" ? work : put)(make(file, 300000));
} else {
  try {
    console.log(JSON.stringify(verb === "probe" ? await probe(file)
      : run(file, ...numbers.map(Number))));
  } finally {
    fs.rmSync(where, { recursive: true });
  }
}
