// worker.mjs: a complete claimq worker.
//
//     node worker.mjs DATABASE LANE [EXTENSION [LEASE_MS]]
//
// It takes the jobs of a lane one by one, keeps the lease alive while it works,
// and completes or retries each job.  SIGTERM or SIGINT ends it: the job at
// hand is finished or given back, and no other is taken.  Start as many as you
// like.  Put your own work in the place of handle().
//
// It uses node:sqlite where Node has it, else better-sqlite3.  Both block the
// thread that calls them, so a second thread with a connection of its own
// renews the lease, whatever handle() is busy with, and waits when there is
// nothing to do.

import { once } from "node:events";
import os from "node:os";
import { setTimeout as after } from "node:timers/promises";
import {
  Worker, isMainThread, parentPort, workerData,
} from "node:worker_threads";

class GiveBack extends Error {}   // give the job back; no attempt is used up

// The work.  After any error but GiveBack the job is retried.  The signal is
// aborted when the worker ends, or has lost the job to another.
async function handle(job, signal) {
  const [verb, seconds] = String(job.payload).split(" ");
  if (verb === "take") {
    await after(1000 * seconds, null, { signal }).catch(() => {
      throw new GiveBack();
    });
  }
  if (verb === "flaky" && Number(job.attempt_index) === 0) {
    throw new Error("the first attempt fails");
  }
  console.log("done:", job.payload);
}

const [file, lane, extension = "./claimq", lease = "30000"] =
  isMainThread ? process.argv.slice(2) : workerData;
const leaseMs = Number(lease);

async function connect() {
  const { DatabaseSync } = await import("node:sqlite").catch(() => ({}));
  const db = DatabaseSync
    ? new DatabaseSync(file, { allowExtension: true })
    : new (await import("better-sqlite3")).default(file);
  db.exec("PRAGMA busy_timeout=5000");
  db.loadExtension(extension);
  return db;
}

// Does another worker have the job?
const isLost = (error) => error.message.includes("claimq: claim_lost: ");

// The second thread: three times in each lease it renews the job that it
// heard of last.  Asked to wait, it answers when something may be there.
async function heartbeat() {
  const db = await connect();
  const renew = db.prepare("SELECT claimq_renew(?, ?, ?)");
  const wait = db.prepare("SELECT claimq_wait(1000, 'lane', ?)");
  let job = null;
  parentPort.on("message", (message) => {
    job = message.job;
    if (message.wait) parentPort.postMessage({ awake: wait.all(lane) });
  });
  setInterval(() => {
    try {
      if (job) renew.all(job.claim_id, job.lease_token, leaseMs);
    } catch (error) {
      if (isLost(error)) parentPort.postMessage({ lost: job.claim_id });
    }
  }, leaseMs / 3);
}

async function main() {
  const db = await connect();
  db.prepare("SELECT claimq_init()").all();
  const claim = db.prepare(
    `SELECT payload, attempt_index, claim_id, lease_token
       FROM claimq_lane(?, ?, ?)`);
  const owner = `${os.hostname()}:${process.pid}`;
  const beat = new Worker(new URL(import.meta.url),
    { workerData: [file, lane, extension, lease] });
  let ending = false;
  let current = null;              // the job at hand, and
  let abort = null;                // what ends its signal
  const end = () => { ending = true; abort?.abort(); };
  process.on("SIGTERM", end).on("SIGINT", end);
  beat.on("message", ({ lost }) => {
    if (lost && lost === current?.claim_id) abort.abort();
  });

  while (!ending) {
    [current] = claim.all(lane, owner, leaseMs);
    if (!current) {
      beat.postMessage({ wait: true });
      await once(beat, "message");
      continue;
    }
    abort = new AbortController();
    beat.postMessage({ job: current });
    let verb = ["complete(?, ?)"];
    try {
      await handle(current, abort.signal);
    } catch (error) {
      verb = error instanceof GiveBack ? ["release(?, ?)"]
        : ["retry(?, ?, ?)", String(error)];
    }
    beat.postMessage({ job: null });
    try {
      const [call, ...reason] = verb;
      db.prepare(`SELECT claimq_${call}`)
        .all(current.claim_id, current.lease_token, ...reason);
    } catch (error) {
      if (!isLost(error)) throw error;
      console.error("too late:", error.message);
    }
  }
  await beat.terminate();
  db.close();
}

await (isMainThread ? main() : heartbeat());
