// What the handler of a Worker gets, and what becomes of the job by what the
// handler does.
'use strict';

class Retry extends Error {
  constructor(reason = 'retry', delayMs = null) {
    super(reason);
    this.delayMs = delayMs;
  }
}

class Reject extends Error {}

const newJob = (row, lost, stopping) => ({
  id: row.job_id, payload: row.payload, attempt: row.attempt_index, row,
  lost, stopping, complete: db => db.prepare('SELECT claimq_complete(?, ?)')
    .all(row.claim_id, row.lease_token)});

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

// Call the handler; returns the verb that settles the job, and its values.
async function handle(job, handler) {
  try {
    return ["complete(?, ?, 'result', ?)", bindable(await handler(job))];
  } catch (error) {
    const reason = String(error?.message ?? error);
    return error instanceof Reject ? ['reject(?, ?, ?)', reason]
      : ["retry(?, ?, ?, 'delay_ms', ?)", reason, error?.delayMs ?? null];
  }
}

module.exports = {newJob, Retry, Reject, handle};
