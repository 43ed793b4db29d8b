"""Running tasks: what the worker does with a job."""
import contextvars
import json
import logging
import threading
import traceback

from django.db import close_old_connections, connections

import claimq

_LEASE_MS = 3600000     # of run_due()
log = logging.getLogger("claimq")
_job = contextvars.ContextVar("claimq job")


def current_job():
    """The claimq.Job of the task that runs here: its lease (`lost`, `check()`),
    its steps.  LookupError outside of a task."""
    return _job.get()


def complete(result=None, using=None):
    """Complete the job of this task in the transaction that is open: what the
    task has written and the end of its job are committed together, so the work
    is done once even if the worker is killed right after.  Return the same
    result from the task."""
    from .backend import normalize_json
    job = current_job()
    connection = connections[using or job.database]
    if not connection.in_atomic_block:
        raise RuntimeError("claimq.django.complete() belongs inside "
                           "transaction.atomic()")
    job.complete(connection.connection, json.dumps(normalize_json(result)))


def handler(backend):
    """The handler of claimq.Worker that runs the tasks of a backend."""
    def handle(job):
        close_old_connections()
        try:
            return run(backend, job)
        finally:
            close_old_connections()
    return handle


def run(backend, job):
    """Run the task that the job is; returns the result, as it is stored."""
    job.database = backend.database
    token = _job.set(job)
    try:
        return _run(backend, job)
    finally:
        _job.reset(token)


def _run(backend, job):
    from . import backend as tasks
    try:
        result = backend.get_result(str(job.id))
    except tasks.TaskResultDoesNotExist as error:   # as a task
        raise claimq.Reject(str(error.__cause__)) from error
    except tasks.InvalidTask as error:
        raise claimq.Reject(str(error)) from error
    context = ([tasks.TaskContext(task_result=result)]
               if result.task.takes_context else [])

    def finished(status, value=None):
        for name, what in (("status", status), ("_return_value", value),
                           ("finished_at", tasks.now())):
            object.__setattr__(result, name, what)
        tasks.task_finished.send_robust(type(backend), task_result=result)

    tasks.task_started.send_robust(type(backend), task_result=result)
    try:
        value = tasks.normalize_json(
            result.task.call(*context, *result.args, **result.kwargs))
        stored = json.dumps(value)
    except (claimq.Pause, claimq.Release, claimq.Lost):
        raise
    except BaseException as error:
        text, rejected = describe(error), isinstance(error, claimq.Reject)
        result.errors.append(tasks.read_error(text))
        if rejected or _is_last(backend, job):
            finished(tasks.TaskResultStatus.FAILED)
        if rejected:
            raise claimq.Reject(text) from error
        kind = None
        if not isinstance(error, claimq.Retry):
            kind = type(error).__name__
            log.warning("job %d failed", job.id, exc_info=True)
        raise claimq.Retry(text, getattr(error, "delay_ms", None),
                           kind) from error
    finished(tasks.TaskResultStatus.SUCCESSFUL, value)
    return stored


def describe(error):
    """`module.Class: text`, and the traceback below it."""
    kind = type(error)
    return "%s.%s: %s\n%s" % (
        kind.__module__, kind.__qualname__,
        next(iter(str(error).splitlines()), ""),
        "".join(traceback.format_exception(kind, error, error.__traceback__)))


def _is_last(backend, job):
    """Is a job that fails now not tried again?"""
    with connections[backend.database].cursor() as cursor:
        most, = cursor.execute(
            "SELECT coalesce(max_attempts, (SELECT max_attempts FROM "
            "claimq_policy p WHERE p.lane=j.lane), (SELECT max_attempts FROM "
            "claimq_policy WHERE lane IS NULL), 20) FROM claimq_job j"
            " WHERE job_id=%s", [job.id]).fetchone()
    return job.attempt + 1 >= most


def run_due(backend="default"):
    """For tests: run the tasks that are due, here, on Django's own connection,
    until none is left; returns how many were begun.  Unlike a worker it needs no
    file, works inside a TestCase, and renews no lease."""
    from .backend import task_backends
    backend = task_backends[backend]
    connection = connections[backend.database]
    begun = 0
    while True:
        lanes = backend.queues or _lanes(connection)    # none: all
        job = next(filter(None, (_claim(connection, lane)
                                 for lane in sorted(lanes))), None)
        if job is None:
            return begun
        begun += 1
        calls = job._handle(lambda job: run(backend, job))
        job._settle(connection.connection, calls)


def _lanes(connection):
    with connection.cursor() as cursor:
        return [lane for lane, in cursor.execute(
            "SELECT DISTINCT lane FROM claimq_job").fetchall()]


def _claim(connection, lane):
    connection.ensure_connection()
    cursor = connection.connection.execute(
        "SELECT * FROM claimq_lane WHERE lane=? AND owner=? AND lease_ms=?",
        [lane, "run_due", _LEASE_MS])
    names = [column[0] for column in cursor.description]
    for row in cursor.fetchall():
        job = claimq.Job(dict(zip(names, row)), threading.Event())
        return job._begin(connection.connection, _LEASE_MS)
