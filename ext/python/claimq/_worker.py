"""The loop of a worker, whole.

    def handle(job):
        print(job.payload)

    claimq.Worker("app.db", "mail", handle).run()

What the handler does decides what becomes of the job: it returns (completed,
with what it returns as the result), raises Reject (to the dead letters), or
raises anything else (retried later; Retry says when).  A job that it settles
itself, in a transaction with its own writes (job.complete(db)), is settled.

The loop claims, waits and settles on one connection; it settles a job and takes
the next one in the same transaction, one commit for each job.  A thread with a
connection of its own renews what is held at a third of the lease.  If somebody
else has taken a job over (after a pause longer than the lease, or by
claimq_revoke), job.lost is set: the handler should stop, nothing that it still
does counts, and the worker goes on with the next job.

SIGTERM and SIGINT, or stop(), end the loop: what is held and not begun is given
back at once, and the job at hand is finished.
"""
import contextlib
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
        self.lost = threading.Event()
        self.stopping = stopping
        self._taken = threading.Lock()

    def check(self):
        if self.lost.is_set():
            raise Lost("job %d was taken over" % self.id)

    def complete(self, db, result=None):
        """Complete it on the handler's own connection, inside a transaction
        with the handler's writes: both happen, or neither."""
        db.execute("SELECT claimq_complete(?, ?, 'result', ?)",
                   [*self.claim, result]).fetchall()

    def _take(self):
        """True for the first who asks: the loop, which begins the job, or the
        thread that gives it back when the worker is stopping."""
        return not self.lost.is_set() and self._taken.acquire(blocking=False)

    def _call(self, db, verb, *arguments):
        """Call a verb.  That the claim is lost is remembered, and no error."""
        if self.lost.is_set():
            return
        try:
            db.execute("SELECT claimq_" + verb,
                       [*self.claim, *arguments]).fetchall()
        except sqlite3.Error as error:
            if claimq.code(error) != "claim_lost":
                raise
            self.lost.set()


class Worker:
    def __init__(self, path, lane, handler, *, owner=None, lease_ms=30000,
                 batch=1, capabilities=(), partition=0, timeout=30.0):
        self.path, self.lane, self.handler = path, lane, handler
        self.owner = owner or "%s:%d:%s" % (
            socket.gethostname(), os.getpid(), os.urandom(3).hex())
        self.lease_ms, self.batch, self.timeout = lease_ms, batch, timeout
        self.scope = [json.dumps(list(capabilities)), partition]
        self._held = []                     # a new list at every change
        self._stopping = threading.Event()
        self._words = queue.SimpleQueue()   # to the thread that renews

    def stop(self, *_):
        """End run() soon.  May be called from any thread or signal handler:
        put() never waits for a lock, as an event's set() may."""
        self._words.put("stop")

    def run(self):
        """Work until stop() or a signal; returns how many jobs were begun."""
        begun = 0
        with contextlib.ExitStack() as at_end:      # the last comes first
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    at_end.callback(signal.signal, number,
                                    signal.signal(number, self.stop))
            db, second = [at_end.enter_context(contextlib.closing(
                claimq.connect(self.path, timeout=self.timeout,
                               check_same_thread=False))) for _ in range(2)]
            renewer = threading.Thread(target=self._renew, args=[second],
                                       daemon=True)
            renewer.start()
            at_end.callback(renewer.join)
            at_end.callback(self._words.put, "end")
            while not self._stopping.is_set():
                job = next((job for job in self._held if job._take()), None)
                if job:
                    begun += 1
                    self._settle(db, job, *self._handle(job))
                    continue
                self._held = self._claim(db)
                if not self._held:
                    db.execute(_WAIT, [_WAIT_MS, self.lane,
                                       *self.scope]).fetchall()
        return begun

    def _claim(self, db):
        cursor = db.execute(_CLAIM, [self.lane, self.owner, self.lease_ms,
                                     self.batch, *self.scope])
        names = [column[0] for column in cursor.description]
        return [Job(dict(zip(names, row)), self._stopping)
                for row in cursor.fetchall()]

    def _handle(self, job):
        """Call the handler; returns the verb that settles and its arguments."""
        try:
            result = self.handler(job)
            if not isinstance(result, (int, float, str, bytes, type(None))):
                result = json.dumps(result)
            return "complete(?, ?, 'result', ?)", result
        except Reject as error:
            return "reject(?, ?, ?)", str(error)
        except Exception as error:
            if not isinstance(error, (Retry, Lost)):
                _log.warning("job %d failed", job.id, exc_info=True)
            return ("retry(?, ?, ?, 'delay_ms', ?)",
                    str(error) or type(error).__name__,
                    getattr(error, "delay_ms", None))

    def _settle(self, db, job, verb, *arguments):
        """Settle the job, and take the next ones with the same commit unless
        some are left."""
        with claimq.transaction(db):
            try:
                job._call(db, verb, *arguments)
            except (OverflowError, UnicodeError):   # SQLite has no such value
                job._call(db, verb, json.dumps(arguments[0]), *arguments[1:])
            held = [other for other in self._held
                    if other is not job and not other.lost.is_set()]
            if not held and not self._stopping.is_set():
                held = self._claim(db)
        self._held = held

    def _renew(self, db):
        """The thread.  It renews what is held, and gives back what is not begun
        once the worker is stopping, and everything at the end.  What fails is
        tried again at the next beat, or the lease ends."""
        word = None
        while word != "end":
            with contextlib.suppress(queue.Empty):
                word = self._words.get(timeout=self.lease_ms / 3000)
                self._stopping.set()
            for job in self._held:
                with contextlib.suppress(sqlite3.Error):
                    if word == "end" or word and job._take():
                        job._call(db, "release(?, ?)")
                        job.lost.set()
                    else:
                        job._call(db, "renew(?, ?, ?)", self.lease_ms)
