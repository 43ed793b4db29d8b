"""Loops: what they hold, the thread that keeps it, and the threads that work.

The thread that keeps has a connection of its own.  It renews what is held when
a third of the lease is over, and asks twenty times a second whether all of it
is still held: what was taken away (claimq_revoke, claimq_cancel with force, a
lease that ended and another worker) is `lost` then.  Once the loop is stopping
it gives back what is not begun, and at the end everything.

Each of `concurrency` threads, of which the caller's is the first, has a
connection, on which it claims and settles: it settles a job and takes the next
one in the same transaction, one commit for each job.  If there is nothing, one
of them waits, for all.

A lock that lasts longer than the timeout, or a full disk, does not end it: it
says so in the log, waits and goes on, and what it has done is settled then.  A
file that was removed or replaced ends it: its jobs are not there any more.
"""
import contextlib
import json
import os
import queue
import signal
import socket
import threading
import time

import claimq

from ._patience import Patient, log

_BEAT = 0.05            # seconds
_ASKED = 1024           # claims that claimq_wait takes
_WAIT_MS = 500          # a signal is seen when the wait returns,
_WAIT_BUSY_MS = 100     # and so is what another thread has taken ahead


class Holder(Patient):
    """What it holds is in _held, a new list at every change."""

    def __init__(self, path, *, owner=None, lease_ms=30000, timeout=30.0,
                 create=False, synchronous="normal"):
        super().__init__(path, timeout, create, synchronous)
        self.owner = owner or "%s:%d:%s" % (
            socket.gethostname(), os.getpid(), os.urandom(3).hex())
        self.lease_ms = lease_ms
        self._held = []
        self._stopping = threading.Event()  # as _stop, for handlers
        self._words = queue.SimpleQueue()   # to the thread

    def stop(self, *_):
        """End the loop soon.  May be called from any thread or signal handler:
        put() never waits for a lock, as an event's set() may."""
        self._stop = True
        self._words.put("stop")

    def _stop_by_signals(self, at_end):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                at_end.callback(signal.signal, number,
                                signal.signal(number, self.stop))

    def _keep_what_is_held(self, at_end, db):
        """Start the thread; it ends when at_end does."""
        thread = threading.Thread(target=self._keep, args=[db], daemon=True)
        thread.start()
        at_end.callback(thread.join)
        at_end.callback(self._words.put, "end")

    def _keep(self, db):
        """The thread.  What fails is tried again at the next beat, or the lease
        ends."""
        word, third = None, self.lease_ms / 3000
        due = time.monotonic() + third
        while word != "end":
            with contextlib.suppress(queue.Empty):
                word = self._words.get(timeout=min(_BEAT, third))
                if word == "stop":
                    self._stopping.set()
            over = time.monotonic() >= due
            if over:
                due = time.monotonic() + third
            held = [one for one in self._held if not one.lost.is_set()]
            for one in held:
                if word == "end" or word and one._take():
                    self._try(db, one, "release(?, ?)")
            if word != "end":
                for one in held if over else self._gone(db, held):
                    self._try(db, one, "renew(?, ?, ?)", self.lease_ms)

    @staticmethod
    def _try(db, one, verb, *values):
        try:
            one._call(db, verb, *values)
            if verb.startswith("release"):
                one.lost.set()
        except Exception as error:
            log.warning("%s: %s: %s", one.what, verb.partition("(")[0], error)

    def _gone(self, db, held):
        """Those that are not held any more, and were not settled here: to renew
        them says so."""
        def gone(which, what):
            return db.execute("SELECT claimq_wait(0, ?, ?)",
                              [which, what]).fetchall()[0][0]

        try:
            ids = json.dumps([one.claim[0] for one in held[:_ASKED]])
            if not held or not gone("claims", ids):
                return []
            return [one for one in held
                    if gone("claim", one.claim[0]) and one in self._held]
        except Exception as error:
            log.warning("looking at what is held: %s", error)
            return []


class Loop(Holder):
    """For those who say what to claim (_claim, _wait), who handles it
    (_handler) and what all this is about (_about)."""
    handler = None

    def __init__(self, path, *, concurrency=1, **options):
        super().__init__(path, **options)
        self.concurrency = concurrency
        self._lock = threading.Lock()       # who changes _held
        self._looking = threading.Lock()    # who asks for work, for all
        self._drain, self._begun, self._trouble = False, 0, None

    def run(self):
        """Work until stop() or a signal; returns how much was begun."""
        return self._run(False)

    def drain(self):
        """Work until nothing can be claimed now: for tests."""
        return self._run(True)

    def _run(self, drain):
        self._drain, self._begun = drain, 0
        with contextlib.ExitStack() as at_end:      # the last comes first
            self._stop_by_signals(at_end)
            *dbs, keeper = [self._open(at_end)
                            for _ in range(1 + self.concurrency)]
            if not (keeper and all(dbs)):
                return 0                    # it was stopped
            self._remember_file()
            self._keep_what_is_held(at_end, keeper)
            log.info("worker %s begins: %s, concurrency %d", self.owner,
                     self._about(), self.concurrency)
            threads = [threading.Thread(target=self._work, args=[db],
                                        daemon=True) for db in dbs[1:]]
            for thread in threads:
                thread.start()
            self._work(dbs[0])
            for thread in threads:
                thread.join()
            log.info("worker %s ends: %d jobs", self.owner, self._begun)
        if self._trouble:
            raise self._trouble
        return self._begun

    def _work(self, db):
        """What each thread does; trouble of one ends them all."""
        try:
            while not self._stop:
                self._check_file()
                job = self._next() or self._look(db)
                if job:
                    job._begin(db, self.lease_ms)
                    self._settle(db, job, job._handle(self._handler(job)))
                elif self._drain:
                    break
        except BaseException as error:
            self._trouble = self._trouble or error
            self.stop()

    def _next(self):
        """A job that is held and not begun, which is now; or None."""
        with self._lock:
            job = next((job for job in self._held if job._take()), None)
            self._begun += job is not None
        return job

    def _look(self, db):
        """Claim; if there is nothing, wait, and claim the next time."""
        with self._looking:
            job = self._next()
            if job or self._stop:
                return job
            self._hold(self._patiently("looking for jobs",
                                       lambda: self._claim(db)) or [])
            job = self._next()
            if not (job or self._drain or self._stop):
                self._patiently("waiting for jobs", lambda: self._wait(
                    db, _WAIT_BUSY_MS if self._held else _WAIT_MS))
            return job

    def _handler(self, job):
        return self.handler

    @staticmethod
    def _rows(db, sql, *arguments):
        cursor = db.execute(sql, arguments)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def _hold(self, jobs, without=None):
        with self._lock:
            self._held = [job for job in self._held if job is not without
                          and not job.lost.is_set()] + jobs

    def _settle(self, db, job, calls):
        """Settle the job, and take the next ones with the same commit unless
        some are left.  It is done again until it is done, or the job is lost:
        the work is not to be repeated because of a lock."""
        def once():
            with claimq.transaction(db):
                job._settle(db, calls)
                left = self._stop or any(not other._taken.locked()
                                         for other in self._held)
                return [] if left else self._claim(db)

        jobs = self._patiently("settling " + job.what, once,
                               self.lease_ms / 1000)
        if jobs is not None:        # else it is given back at the end
            self._hold(jobs, without=job)
