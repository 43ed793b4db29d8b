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

import os from "node:os";
import { setTimeout as after } from "node:timers/promises";
import {
  Worker, isMainThread, parentPort, workerData,
} from "node:worker_threads";

class GiveBack extends Error {}   // give the job back; no attempt is used up

// The work.  Any error but GiveBack has the job retried later.  The signal is
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

const [file, lane, extension = "./claimq", leaseArgument = "30000"] =
  isMainThread ? process.argv.slice(2) : workerData;
const leaseMs = Number(leaseArgument);

async function connect() {
  const { DatabaseSync } = await import("node:sqlite").catch(() => ({}));
  const db = DatabaseSync
    ? new DatabaseSync(file, { allowExtension: true })
    : new (await import("better-sqlite3")).default(file);
  db.exec("PRAGMA busy_timeout=5000");
  db.loadExtension(extension);
  return db;
}

// "claim_lost" and the like; undefined if the error is not one of claimq's.
const errorCode = (error) => /\bclaimq: ([a-z_]+): /.exec(error.message)?.[1];

// The second thread: renew the job at hand, three times in each lease, or wait
// for one.
async function heartbeat() {
  const db = await connect();
  const renew = db.prepare("SELECT claimq_renew(?, ?, ?)");
  let job = null;
  const wait = db.prepare("SELECT claimq_wait(1000, 'lane', ?)");
  parentPort.on("message", (message) => {
    job = message.job;
    if (message.wait) {
      wait.all(lane);
      parentPort.postMessage({ awake: true });
    }
  });
  setInterval(() => {
    try {
      if (job) renew.all(job.claim_id, job.lease_token, leaseMs);
    } catch (error) {
      if (errorCode(error) === "claim_lost") {
        parentPort.postMessage({ lost: job.claim_id });
      }
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
    { workerData: [file, lane, extension, leaseArgument] });
  let ending = false;
  let abort = new AbortController();
  let current = null;
  let wake = null;
  const end = () => { ending = true; abort.abort(); };
  process.on("SIGTERM", end).on("SIGINT", end);
  beat.on("message", (message) => {
    if (message.awake) wake();
    else if (current?.claim_id === message.lost) abort.abort();
  });

  while (!ending) {
    const jobs = claim.all(lane, owner, leaseMs);
    for (const job of jobs) {
      current = job;
      abort = new AbortController();
      beat.postMessage({ job });
      let verb = ["SELECT claimq_complete(?, ?)"];
      try {
        await handle(job, abort.signal);
      } catch (error) {
        verb = error instanceof GiveBack ? ["SELECT claimq_release(?, ?)"]
          : ["SELECT claimq_retry(?, ?, ?)", String(error)];
      }
      current = null;
      beat.postMessage({ job: null });
      try {
        const [sql, ...reason] = verb;
        db.prepare(sql).all(job.claim_id, job.lease_token, ...reason);
      } catch (error) {
        if (errorCode(error) !== "claim_lost") throw error;
        console.error("too late:", error.message);
      }
    }
    if (!jobs.length) {
      beat.postMessage({ wait: true });
      await new Promise((resolve) => { wake = resolve; });
    }
  }
  await beat.terminate();
  db.close();
}

await (isMainThread ? main() : heartbeat());
