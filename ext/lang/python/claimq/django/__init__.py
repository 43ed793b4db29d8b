"""claimq for Django: the queue is in the database of the models.

    INSTALLED_APPS = [..., "claimq.django"]
    TASKS = {"default": {"BACKEND": "claimq.django.ClaimqBackend"}}

A task that is enqueued inside transaction.atomic() is there if and only if that
is committed.  `manage.py migrate` creates the tables, `manage.py claimq_worker`
runs the tasks.
"""
from ._run import complete, current_job, run_due

__all__ = ["ClaimqBackend", "complete", "current_job", "run_due"]


def __getattr__(name):
    if name == "ClaimqBackend":         # needs Django 6, or django-tasks
        from .backend import ClaimqBackend
        return ClaimqBackend
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
