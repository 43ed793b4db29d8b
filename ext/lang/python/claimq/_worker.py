"""The worker of lanes.

    def handle(job):
        print(job.payload)

    claimq.Worker("app.db", "mail", handle).run()

What the handler does decides what becomes of the job: it returns (completed,
with what it returns as the result), raises Reject (to the dead letters),
Release (given back), or anything else (retried later; Retry says when).  A job
that it settles itself, in a transaction with its own writes (job.complete(db)),
is settled.  If somebody else has a job now, job.lost is set: the handler should
stop, nothing that it still does counts, and the worker goes on with the next.

SIGTERM and SIGINT, or stop(), end it: what is held and not begun is given back
at once, and the jobs at hand are finished.  The loop itself is in _loop.py.
"""
import json

from ._job import TASK, Job
from ._claim import Retry
from ._loop import Loop
from ._patience import log

_CLAIM = """SELECT * FROM claimq_lane
 WHERE lane=? AND owner=? AND lease_ms=? AND max=? AND capabilities=?
   AND partition=?"""
_WAIT = """SELECT claimq_wait(?, 'lanes', ?, 'capabilities', ?,
  'partition', ?)"""


class Worker(Loop):
    """Options: owner, lease_ms, concurrency, timeout, create and synchronous
    of every loop; batch, how many jobs to take at a time."""

    def __init__(self, path, lanes, handler=None, *, batch=1, capabilities=(),
                 partition=None, **options):
        super().__init__(path, **options)
        self.lanes = [lanes] if isinstance(lanes, str) else list(lanes)
        self.handler, self.tasks = handler, {}
        self.batch, self.capabilities = batch, list(capabilities)
        if isinstance(partition, (list, tuple)):    # else: one; None: all
            partition = json.dumps(partition)
        self.partition = partition

    def task(self, name, handler=None):
        """Have a handler for the jobs with this task; a decorator if the
        handler is not given.  Jobs with other tasks are left to others."""
        if handler is None:
            return lambda handler: self.task(name, handler)
        self.tasks[name] = handler
        return handler

    def _run(self, drain):
        if not (self.handler or self.tasks):
            raise ValueError("a worker needs a handler, or tasks")
        self._scope = [json.dumps(self.capabilities
                                  + [TASK + name for name in self.tasks]),
                       self.partition]
        return super()._run(drain)

    def _about(self):
        return "lanes " + ", ".join(self.lanes)

    def _claim(self, db):
        """Jobs of the first lane that has any."""
        for lane in self.lanes:
            rows = self._rows(db, _CLAIM, lane, self.owner, self.lease_ms,
                              self.batch, *self._scope)
            if rows:
                return [Job(row, self._stopping) for row in rows]
        return []

    def _wait(self, db, ms):
        db.execute(_WAIT, [ms, json.dumps(self.lanes),
                           *self._scope]).fetchall()

    def _handler(self, job):
        return self.tasks.get(job.task, self.handler) or _nobody


def _nobody(job):
    log.warning("job %d: no handler for jobs without a task", job.id)
    raise Retry("no handler for jobs without a task")
