"""The backend: `TASKS = {"default": {"BACKEND": "claimq.django.ClaimqBackend"}}`.

A task is a job: its queue is the lane, and the payload is a JSON object with
`task` (the path of the function), `args` and `kwargs`.  It is added by a plain
INSERT on Django's own connection, so it belongs to the transaction that is open
there, and needs no extension.
"""
import datetime
import json

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone
from django.utils.module_loading import import_string

from ._tables import now_ms

try:
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (Task, TaskContext, TaskError, TaskResult,
                                   TaskResultStatus)
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import (task_enqueued, task_finished,
                                      task_started)
    from django.utils.json import normalize_json
except ImportError:                     # before Django 6
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (Task, TaskContext, TaskError, TaskResult,
                                   TaskResultStatus)
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import (task_enqueued, task_finished,
                                      task_started)
    from django_tasks.utils import normalize_json

__all__ = ["ClaimqBackend", "InvalidTask", "TaskContext", "TaskResultStatus",
           "normalize_json", "task_backends", "task_finished", "task_started"]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_STATUS = {"completed": TaskResultStatus.SUCCESSFUL,
           "failed": TaskResultStatus.FAILED,
           "cancelled": TaskResultStatus.FAILED}
_OPTIONS = {"database": DEFAULT_DB_ALIAS, "max_attempts": 1}


class ClaimqBackend(BaseTaskBackend):
    """OPTIONS: `database`, the alias of the database with the queue, and
    `max_attempts`, after which a task that raises has failed; 1 unless it is
    given, as in Django's own backends.  None: as the policy of the lane says."""
    supports_async_task = True
    supports_defer = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias, params):
        super().__init__(alias, params)
        unknown = set(self.options) - set(_OPTIONS)
        if unknown:
            raise ImproperlyConfigured(
                "unknown OPTIONS of TASKS[%r]: %s; there are %s" % (
                    alias, ", ".join(sorted(unknown)), ", ".join(_OPTIONS)))
        self.database, self.max_attempts = {**_OPTIONS,
                                            **self.options}.values()

    def check(self, **_):
        if not apps.is_installed("claimq.django"):
            yield checks.Error(
                "TASKS[%r] needs an app that is not installed" % self.alias,
                hint="Add 'claimq.django' to INSTALLED_APPS.",
                id="claimq.E003")

    def enqueue(self, task, args, kwargs):
        from .models import Job
        self.validate_task(task)
        job = Job.objects.using(self.database).create(
            lane=task.queue_name, priority=task.priority,
            available_at_ms=task.run_after and _ms(task.run_after),
            max_attempts=self.max_attempts,
            payload=json.dumps({"task": task.module_path,
                                "args": normalize_json(args),
                                "kwargs": normalize_json(kwargs)}))
        result = self._result(job)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id):
        from .models import Job
        try:
            job = Job.objects.using(self.database).get(pk=int(result_id))
            return self._result(job)
        except (Job.DoesNotExist, ValueError, TypeError, OverflowError) as error:
            raise TaskResultDoesNotExist(result_id) from error

    def _result(self, job):
        """What Django calls a result.  ValueError: the job is no task."""
        call = read_payload(job.payload)
        task = find_task(call["task"]).using(
            priority=job.priority, queue_name=job.lane, backend=self.alias,
            run_after=_time(job.available_at_ms))
        made = [] if job.fencing_token == 0 else [
            attempt for attempt in job.history.order_by("attempt_index")
            if attempt.outcome != "released"]
        status = _STATUS.get(job.state, TaskResultStatus.READY)
        if job.is_held:
            status = TaskResultStatus.RUNNING
        errors = [read_error(attempt.error) for attempt in made if attempt.error]
        if status == TaskResultStatus.FAILED and not errors:
            errors = [read_error(job.last_error or job.state)]
        result = TaskResult(
            task=task, id=str(job.pk), status=status,
            enqueued_at=_time(job.created_at_ms),
            started_at=_time(made[0].started_at_ms) if made else None,
            last_attempted_at=_time(made[-1].started_at_ms) if made else None,
            finished_at=_time(job.terminal_at_ms),
            args=call["args"], kwargs=call["kwargs"], backend=self.alias,
            errors=errors, worker_ids=[attempt.owner for attempt in made])
        if job.result is not None:
            object.__setattr__(result, "_return_value", json.loads(job.result))
        return result


def read_payload(payload):
    """{"task", "args", "kwargs"}, or ValueError."""
    try:
        call = json.loads(payload)
        if (isinstance(call["task"], str) and isinstance(call["args"], list)
                and isinstance(call["kwargs"], dict)):
            return call
    except (ValueError, TypeError, KeyError):
        pass
    raise ValueError("the payload is no task of Django's: it has to be JSON, "
                     'such as {"task": "shop.tasks.mail", "args": [], '
                     '"kwargs": {}}')


def find_task(path):
    """The task of that path, or ValueError."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise ValueError("there is no task %s: %s" % (path, error)) from error
    if not isinstance(found, Task):
        raise ValueError("%s is not a task: it has no @task" % path)
    return found


def read_error(text):
    """An error as _run.describe() has written it: its class, up to the first
    colon.  What claimq itself has written becomes a claimq.Reject."""
    path, colon, _ = text.partition(": ")
    if not (colon and "." in path and path.isprintable() and " " not in path):
        path = "claimq.Reject"
    return TaskError(exception_class_path=path,
                     traceback=text.partition("\n")[2] or text)


def now():
    return _time(now_ms())


def _ms(when):
    """Rounded up: not before that time."""
    if timezone.is_naive(when):
        when = timezone.make_aware(when)
    return -(-(when - _EPOCH) // datetime.timedelta(milliseconds=1))


def _time(ms):
    if ms is None:
        return None
    when = _EPOCH + datetime.timedelta(milliseconds=ms)
    return when if settings.USE_TZ else timezone.make_naive(when)
