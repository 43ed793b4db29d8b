// A thread that waits, seen from the thread of a loop (wait_thread.cjs).
'use strict';
const path = require('node:path');
const {Worker: Thread} = require('node:worker_threads');

class Waiter {
  #busy = false;
  #dead = false;
  #thread; #over;

  // over(error) is called when a wait is over.
  constructor(file, options, over) {
    this.#over = over;
    this.#thread = new Thread(path.join(__dirname, 'wait_thread.cjs'),
      {workerData: {file, options}});
    this.#thread.on('message', answer => {
      if (!answer.closed) this.#answered(answer.error);
    });
    this.#thread.on('error', error => {
      this.#dead = true;
      this.#answered(error.message);
    });
  }

  #answered(error) {
    this.#busy = false;
    this.#over(error && new Error(error));
  }

  // A statement that waits, and its values; nothing while another one waits.
  ask(question) {
    if (this.#busy || !question) return;
    this.#busy = true;
    this.#thread.postMessage(question);
  }

  // End it, when its connection is closed.
  async close() {
    if (this.#dead) return;
    await new Promise(resolve => {
      this.#thread.on('message', ({closed}) => closed && resolve());
      this.#thread.on('error', resolve);
      this.#thread.postMessage(null);
    });
    this.#thread.terminate();
  }
}

module.exports = {Waiter};
