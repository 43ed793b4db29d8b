"""The loop of a worker, whole.

    def handle(job):
        print(job.payload)

    claimq.Worker("app.db", "mail", handle).run()

What the handler does decides what becomes of the job: it returns (completed,
with what it returns as the result), raises Reject (to the dead letters), or
raises anything else (retried later; Retry says when).  A job that it settles
itself, in a transaction with its own writes (job.complete(db)), is settled.

The connection of the loop claims, waits and settles; it settles a job and takes
the next one in the same transaction, one commit for each job.  A thread with a
connection of its own renews what is held at a third of the lease.  If somebody
else has taken a job over (after a pause longer than the lease, or by
claimq_revoke), job.lost is set: the handler should stop, nothing that it still
does counts, and the worker goes on with the next job.

SIGTERM and SIGINT, or stop(), end the loop: what is held and not begun is given
back at once, and the job at hand is finished.
"""
import json
import logging
import os
import queue
import signal
import socket
import sqlite3
import threading

import claimq

_log = logging.getLogger("claimq")
_CLAIM = """SELECT * FROM claimq_lane
 WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=? AND capabilities=?
   AND partition=?"""
_WAIT = """SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,
  'partition', ?)"""
_WAIT_MS = 500          # a signal is seen when the wait returns


class Retry(Exception):
    """Raised by a handler: try again, after delay_ms if it is given, else after
    the job's own backoff."""

    def __init__(self, reason="", delay_ms=None):
        super().__init__(reason)
        self.delay_ms = delay_ms


class Reject(Exception):
    """Raised by a handler: never try again; the job becomes a dead letter."""


class Lost(Exception):
    """Raised by job.check() when the job is somebody else's by now."""


class Job:
    """A job: id, payload, attempt (0 is the first), and all columns of the
    claim in `row`.  `lost` and `stopping` are events that a long handler looks
    at, or waits for."""

    def __init__(self, row, stopping):
        self.row = row
        self.id = row["job_id"]
        self.payload = row["payload"]
        self.attempt = row["attempt_index"]
        self.claim = (row["claim_id"], row["lease_token"])
        self.begun = False                    # under the worker's lock
        self.lost = threading.Event()
        self.stopping = stopping

    def check(self):
        if self.lost.is_set():
            raise Lost("job %d was taken over" % self.id)

    def complete(self, db, result=None):
        """Complete it on the handler's own connection, inside a transaction
        with the handler's writes: both happen, or neither."""
        db.execute("SELECT claimq_complete(?, ?, 'result', ?)",
                   [*self.claim, result]).fetchall()


class Worker:
    def __init__(self, path, lane, handler, *, owner=None, lease_ms=30000,
                 batch=1, capabilities=(), partition=0, timeout=30.0):
        self.path, self.lane, self.handler = path, lane, handler
        self.owner = owner or "%s:%d:%s" % (
            socket.gethostname(), os.getpid(), os.urandom(3).hex())
        self.lease_ms, self.batch, self.timeout = lease_ms, batch, timeout
        self.scope = [json.dumps(list(capabilities)), partition]
        self.begun = 0                        # jobs, so far
        self._stopping = threading.Event()
        self._words = queue.SimpleQueue()     # to the thread that renews
        self._lock = threading.Lock()         # for what is held:
        self._held = []

    def stop(self, *_):
        """End run() soon.  May be called from any thread or signal handler."""
        self._words.put("stop")

    def run(self):
        """Work until stop() or a signal; returns how many jobs were begun."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, self.stop)
        db, second = [claimq.connect(self.path, timeout=self.timeout,
                                     check_same_thread=False)
                      for _ in range(2)]
        renewer = threading.Thread(target=self._renew, args=[second],
                                   daemon=True)
        renewer.start()
        try:
            while not self._stopping.is_set():
                job = self._begin()
                if job:
                    self._settle(db, job, *self._handle(job))
                elif not self._swap(None, self._claim(db)):
                    db.execute(_WAIT, [_WAIT_MS, self.lane,
                                       *self.scope]).fetchall()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._words.put("end")
            renewer.join()
            for job in self._held:            # the handler was broken off
                self._call(db, job, "release(?, ?)", [])
            second.close()
            db.close()
        return self.begun

    def _claim(self, db):
        cursor = db.execute(_CLAIM, [self.lane, self.owner, self.lease_ms,
                                     self.batch, *self.scope])
        names = [column[0] for column in cursor.description]
        return [Job(dict(zip(names, row)), self._stopping)
                for row in cursor.fetchall()]

    def _swap(self, done, jobs):
        """This one is no longer held, but those are."""
        with self._lock:
            self._held = [job for job in self._held if job is not done] + jobs
        return jobs

    def _begin(self):
        """The next job that is held, which is begun then; None: there is none.
        """
        with self._lock:
            self._held = [job for job in self._held if not job.lost.is_set()]
            if self._stopping.is_set() or not self._held:
                return None
            self._held[0].begun = True
            self.begun += 1
            return self._held[0]

    def _handle(self, job):
        """Call the handler; returns the verb that settles and its arguments."""
        try:
            result = self.handler(job)
            if not isinstance(result, (int, float, str, bytes, type(None))):
                result = json.dumps(result)
            return "complete(?, ?, 'result', ?)", [result]
        except Reject as error:
            return "reject(?, ?, ?)", [str(error)]
        except Exception as error:
            if not isinstance(error, (Retry, Lost)):
                _log.warning("job %d failed", job.id, exc_info=True)
            return "retry(?, ?, ?, 'delay_ms', ?)", [
                str(error) or type(error).__name__,
                getattr(error, "delay_ms", None)]

    def _settle(self, db, job, verb, arguments):
        """Settle the job, and take the next one with the same commit."""
        jobs = []
        with claimq.transaction(db):
            try:
                if not job.lost.is_set():
                    db.execute("SELECT claimq_" + verb,
                               [*job.claim, *arguments]).fetchall()
            except sqlite3.Error as error:
                if claimq.code(error) != "claim_lost":
                    raise
                job.lost.set()
            if len(self._held) <= 1 and not self._stopping.is_set():
                jobs = self._claim(db)
        self._swap(job, jobs)

    def _renew(self, db):
        """The thread: renews; gives back when the worker is stopping."""
        word = None
        while word != "end":
            try:
                word = self._words.get(timeout=self.lease_ms / 3000)
            except queue.Empty:
                word = None
            if word:
                self._stopping.set()
            with self._lock:
                held = self._held
                if self._stopping.is_set():
                    self._held = [job for job in held if job.begun]
                keep = self._held
            for job in held:
                if job not in keep:
                    self._call(db, job, "release(?, ?)", [])
            for job in keep:
                self._call(db, job, "renew(?, ?, ?)", [self.lease_ms])

    def _call(self, db, job, verb, arguments):
        """What fails here for another reason than a lost claim (a lock that was
        held for long, say) is tried again at the next beat, or the lease ends.
        """
        try:
            db.execute("SELECT claimq_" + verb,
                       [*job.claim, *arguments]).fetchall()
        except sqlite3.Error as error:
            if claimq.code(error) == "claim_lost":
                job.lost.set()
