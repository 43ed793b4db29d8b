"""Django's own tests of its backends, run against claimq's.

    python3 django_own.py DIRECTORY       tests/tasks of Django's source package

They are for two backends: one that keeps tasks and runs none, and one that runs
each when it is enqueued.  Both are claimq's here; the second runs what is due.
What is true of those two backends only is left out, with the reason.
"""
import os
import pathlib
import re
import sys
import unittest

import django
from django.conf import settings

import support

MEMORY = "it changes the results in the memory of Django's dummy backend"
LEFT_OUT = {
    "test_cannot_get_result": "claimq's backend has results",
    "test_cannot_refresh_result": "claimq's backend has results",
    "test_cannot_pass_run_after": "claimq's backend has run_after",
    "test_throws_keyboard_interrupt": "a task does not end a worker",
    "test_refresh_result": MEMORY,
    "test_refresh_result_async": MEMORY,
}
BACKENDS = '''
from claimq.django import ClaimqBackend, _tables, run_due
from claimq.django.models import Job
from django.db import connection


class DummyBackend(ClaimqBackend):
    @property
    def results(self):
        return [self.get_result(str(job.pk)) for job in Job.objects.all()]

    def clear(self):
        _tables.empty(connection)


class ImmediateBackend(ClaimqBackend):
    def enqueue(self, *arguments, **options):
        result = super().enqueue(*arguments, **options)
        run_due(self.alias)
        return self.get_result(result.id)
'''


def copy(source):
    """The tests as modules of tasks, with claimq's backends and a
    database."""
    own = pathlib.Path("tasks")
    own.mkdir(exist_ok=True)
    for file in pathlib.Path(source).glob("*.py"):
        text = file.read_text()
        text = re.sub(r"django\.tasks\.backends\.(dummy|immediate)\b",
                      "tasks.backends", text)
        text = re.sub(r"\bSimpleTestCase\b", "TransactionTestCase", text)
        text = text.replace("available_apps = []", "")
        (own / file.name).write_text(text)
    (own / "backends.py").write_text(BACKENDS)


class Result(support._Result):
    passed = left_out = 0

    def __init__(self):
        super().__init__()
        self.failed = set()

    def _say(self, word, test, text=""):
        print(word, test.id().split(".", 1)[-1] + text, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSkip(self, test, why):
        print("left out", test.id().split(".", 1)[-1] + ": " + why)
        self.left_out += 1

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed.add(test.id())

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            self.addFailure(test, error)


def main(source):
    copy(source)
    sys.path.insert(0, os.getcwd())
    # Some call get_result() in async code, which Django allows if no database
    # is behind it.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    settings.configure(
        SECRET_KEY="for tests", USE_TZ=True, LOGGING_CONFIG=None,
        INSTALLED_APPS=["claimq.django"],
        DATABASES={"default": {
            "ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:",
            "OPTIONS": {"transaction_mode": "IMMEDIATE"}}})
    django.setup()
    from django.test.utils import setup_databases, setup_test_environment
    setup_test_environment()
    setup_databases(verbosity=0, interactive=False)
    suite = unittest.defaultTestLoader.loadTestsFromNames([
        "tasks." + name
        for name in ("test_dummy_backend", "test_immediate_backend",
                     "test_tasks")])
    result = Result()
    for test in every(suite):
        why = LEFT_OUT.get(test._testMethodName)
        if why:
            kind, name = type(test), test._testMethodName
            setattr(kind, name, unittest.skip(why)(getattr(kind, name)))
    suite.run(result)
    print("note Django %s's own tests of backends: %d ran, %d passed, %d left out"
          % (django.get_version(), result.passed + len(result.failed),
             result.passed, result.left_out))
    print("end")


def every(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from every(test)
        else:
            yield test


if __name__ == "__main__":
    main(sys.argv[1])
