// The second thread of a loop: it waits.  A wait blocks its thread, and the
// first one must be free to renew and to settle (loop_thread.cjs).  Each
// question is a statement that waits, on a connection of its own; the answer
// says that it is over.  null: close the connection.
'use strict';
const {parentPort, workerData} = require('node:worker_threads');
const claimq = require('./index.cjs');

const {file, options} = workerData;
let db;

function answer(question) {
  if (!question) {
    db?.close();
    return {closed: true};
  }
  try {
    db ??= claimq.open(file, options);
    db.prepare(question[0]).all(...question.slice(1));
    return {};
  } catch (error) {
    return {error: error.message};
  }
}

parentPort.on('message',
  question => parentPort.postMessage(answer(question)));
