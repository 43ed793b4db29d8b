// What a worker does about a lock that lasts longer than its timeout, a full
// disk, and a file that is not there any more.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const {setTimeout: sleep} = require('node:timers/promises');
const {waitingCures} = require('./job.cjs');

class Patience {
  #name; #stopping; #log;
  #opened;                    // which file it is
  #seen = 0;                  // when that was looked at

  constructor(file, stopping, log) {
    this.#name = path.resolve(file);
    this.#stopping = stopping;
    this.#log = log;
  }

  // What f() returns.  While it fails for a reason that waiting cures, that is
  // logged, and it is done again after a pause, which grows.  A worker that is
  // stopping does so for the time of grace; then: undefined.
  async patiently(what, f, graceMs = 0) {
    let end;
    for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      try {
        return f();
      } catch (error) {
        this.checkFile();
        if (!waitingCures(error)) throw error;
        if (this.#stopping() && Date.now() >= (end ??= Date.now() + graceMs)) {
          this.#log(`${what}: ${error.message}: given up`);
          return undefined;
        }
        this.#log(`${what}: ${error.message}; again in ${pause / 1000} s`);
      }
      const until = Date.now() + pause;
      do await sleep(50); while (!this.#stopping() && Date.now() < until);
    }
  }

  // The file is open.
  rememberFile() {
    this.#opened = this.#identity();
  }

  // Which file has the name: undefined if none has it, '' if that is unknown.
  #identity() {
    try {
      const {dev, ino} = fs.statSync(this.#name, {bigint: true});
      return `${dev}:${ino}`;
    } catch (error) {
      return error.code === 'ENOENT' ? undefined : '';
    }
  }

  // SQLite would go on with a file that nobody else can see.  A look is good
  // for ageMs.
  checkFile(ageMs = 0) {
    if (!this.#opened || performance.now() < this.#seen + ageMs) return;
    this.#seen = performance.now();
    if (![this.#opened, ''].includes(this.#identity())) {
      throw new Error(`${this.#name} was removed or replaced while the `
        + 'worker used it');
    }
  }
}

module.exports = {Patience};
