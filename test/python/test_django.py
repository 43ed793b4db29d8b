"""The backend, the worker, the migration, the checks and the models of
claimq.django, in a project (test/packages/django) with a real database.

    PYTHON=... python3 test_django.py

PYTHON runs the workers.  Where django-tasks-db is there, too, what becomes of its
task when a worker is killed is printed, as a note.
"""
import datetime
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import claimq
import claimq.django
import django
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone

from support import LIMIT, run

PYTHON = os.environ.get("PYTHON", sys.executable)
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
os.environ["DATABASE"] = os.path.abspath("shop.db")
django.setup()

from claimq.django.backend import (BaseTaskBackend, TaskResultDoesNotExist,
                                   TaskResultStatus, task_backends,
                                   task_finished)
from claimq.django.models import Attempt, Job, Letter
from shop import tasks
from shop.models import Order


def manage(*arguments, **environment):
    return subprocess.Popen([PYTHON, "-m", "django", *arguments],
                            env={**os.environ, **environment},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def until(question):
    end = time.monotonic() + 2 * LIMIT
    while time.monotonic() < end:
        found = question()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("still not true after %d s" % (2 * LIMIT))


class Tests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        call_command("migrate", run_syncdb=True, verbosity=0)

    def setUp(self):
        call_command("flush", interactive=False, verbosity=0)
        self.file = os.path.abspath(self.id().split(".")[-1])
        if os.path.exists(self.file):
            os.remove(self.file)

    def worker(self, *arguments, **environment):
        """A process; it is ended when the test is."""
        process = manage("claimq_worker", *arguments, **environment)
        self.addCleanup(self.end, process)
        return process

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        out = process.communicate(timeout=2 * LIMIT)[0].decode()
        return process.returncode, out

    def finish(self, result):
        """Wait for the end of a task."""
        def ended():
            result.refresh()
            return result.is_finished
        until(ended)
        return result

    def check(self):
        with connection.cursor() as cursor:
            self.assertEqual(cursor.execute(
                "SELECT * FROM claimq_check").fetchall(), [])

    def test_the_order_and_its_task_both(self):
        with transaction.atomic():
            Order.objects.create(number=7)
            tasks.add.enqueue(7)
        self.assertEqual((Order.objects.count(), Job.objects.count()), (1, 1))

    def test_the_order_and_its_task_neither(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            Order.objects.create(number=7)
            tasks.add.enqueue(7)
            1 / 0
        self.assertEqual((Order.objects.count(), Job.objects.count()), (0, 0))
        self.check()

    def test_what_is_enqueued_is_read_back(self):
        when = timezone.now() + datetime.timedelta(hours=1)
        result = tasks.add.using(priority=5, queue_name="mail",
                                 run_after=when).enqueue(1, b=[2, None])
        self.assertEqual(task_backends["default"].get_result(result.id), result)
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual((result.args, result.kwargs), ([1], {"b": [2, None]}))
        self.assertEqual((result.task.priority, result.task.queue_name),
                         (5, "mail"))
        job = Job.objects.get()
        self.assertEqual((job.lane, job.priority), ("mail", 5))
        self.assertEqual(json.loads(job.payload), {
            "task": "shop.tasks.add", "args": [1], "kwargs": {"b": [2, None]}})
        early = job.available_at_ms - when.timestamp() * 1000
        self.assertTrue(-0.01 < early < 1.01, early)    # rounded up
        self.assertEqual(claimq.django.run_due(), 0)

    def test_what_is_no_result(self):
        Job.objects.create(lane="default", payload="not Django's")
        job = Job.objects.get()
        for id in ("0", "12345", "abc", "", str(2**70), None, str(job.pk)):
            with self.assertRaises(TaskResultDoesNotExist):
                task_backends["default"].get_result(id)

    def test_priority_decides(self):
        for n in (0, -100, 100):
            tasks.add.using(priority=n).enqueue(n)
        claimq.django.run_due()
        with connection.cursor() as cursor:
            self.assertEqual(cursor.execute(
                "SELECT priority FROM claimq_event JOIN claimq_job"
                " USING(job_id) ORDER BY event_id").fetchall(),
                [(100,), (0,), (-100,)])

    def test_a_worker_runs_tasks_and_stops(self):
        results = [tasks.add.enqueue(1, b=2), tasks.double.enqueue(4),
                   tasks.add.using(queue_name="mail").enqueue(5),
                   tasks.attempt.enqueue("x"), tasks.steps.enqueue()]
        worker = self.worker()
        values = [self.finish(result).return_value for result in results]
        self.assertEqual(values, [3, {"double": 8}, 5,
                                  [1, results[3].id, "x"], 42])
        for result in results:
            self.assertEqual(result.attempts, 1)
            self.assertTrue(result.enqueued_at <= result.started_at
                            <= result.finished_at)
        code, out = self.end(worker)
        self.assertEqual(code, 0, out)
        self.assertIn(": default, mail", out)

    def test_tasks_run_at_the_same_time(self):
        """Each of the two waits for the other."""
        names = [self.file + "-1", self.file + "-2"]
        for name in names:
            if os.path.exists(name):
                os.remove(name)
        results = [tasks.meet.enqueue(*pair) for pair in
                   (names, names[::-1])]
        self.worker("--concurrency", "2")
        self.assertEqual([self.finish(result).return_value
                          for result in results], ["met", "met"])

    def test_the_status_of_a_task(self):
        result = tasks.add.enqueue(1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT claim_id, lease_token, lease_ms"
                           " FROM claimq_lane('default', 'me', 3600000)")
            (claim, token, _), = cursor.fetchall()
            result.refresh()
            self.assertEqual((result.status, result.worker_ids),
                             (TaskResultStatus.RUNNING, ["me"]))
            cursor.execute("SELECT claimq_release(%s, %s)", [claim, token])
            cursor.fetchall()
            result.refresh()
            self.assertEqual((result.status, result.attempts),
                             (TaskResultStatus.READY, 0))
            cursor.execute("SELECT claimq_cancel(%s)", [int(result.id)])
            cursor.fetchall()
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertEqual(result.errors[0].exception_class, claimq.Reject)

    def test_a_task_that_raises_has_failed(self):
        result = tasks.fail.enqueue()
        heard = []
        def hear(task_result, **_):
            heard.append((task_result.status, len(task_result.errors)))
        task_finished.connect(hear)
        with self.assertLogs("claimq") as log:
            claimq.django.run_due()
        task_finished.disconnect(hear)
        self.assertIn("KeyError: 'user_id'", log.output[0])
        result.refresh()
        self.assertEqual(heard, [(TaskResultStatus.FAILED, 1)])
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        error, = result.errors
        self.assertEqual(error.exception_class, KeyError)
        self.assertIn("in fail\n", error.traceback)
        self.assertIn("KeyError: 'user_id'", error.traceback)
        letter = Letter.objects.get()
        self.assertEqual(letter.error_class, "KeyError")
        self.assertTrue(letter.reason.startswith(
            "builtins.KeyError: 'user_id'\n"))

    def test_a_task_that_may_be_tried_again(self):
        result = tasks.fail_soon.enqueue()
        heard = []
        def hear(task_result, **_):
            heard.append(task_result.attempts)
        task_finished.connect(hear)
        self.assertEqual(claimq.django.run_due("patient"), 2)
        task_finished.disconnect(hear)
        result.refresh()
        self.assertEqual((result.status, result.attempts, len(result.errors)),
                         (TaskResultStatus.FAILED, 2, 2))
        self.assertEqual(heard, [2])

    def test_a_task_that_rejects(self):
        result = tasks.refuse.enqueue()
        claimq.django.run_due()
        result.refresh()
        self.assertEqual((result.status, result.errors[0].exception_class),
                         (TaskResultStatus.FAILED, claimq.Reject))

    def test_what_is_no_task_is_rejected(self):
        for path in ("shop.tasks.missing", "no.such.module", "os.system",
                     "shop.tasks.no_task"):
            Job.objects.create(lane="default", payload=json.dumps(
                {"task": path, "args": [], "kwargs": {}}))
        Job.objects.create(lane="default", payload="hello")
        tasks.add.enqueue(1)
        self.assertEqual(claimq.django.run_due(), 6)
        self.assertEqual([letter.reason for letter in Letter.objects.all()], [
            'there is no task shop.tasks.missing: Module "shop.tasks" does not '
            'define a "missing" attribute/class',
            "there is no task no.such.module: No module named 'no'",
            "os.system is not a task: it has no @task",
            "shop.tasks.no_task is not a task: it has no @task",
            "the payload is no task of Django's: it has to be JSON, such as "
            '{"task": "shop.tasks.mail", "args": [], "kwargs": {}}'])

    def test_a_killed_worker_and_its_task(self):
        """The order and the end of its job are one transaction: the order that
        the killed worker had written is gone, and the next one is there once."""
        with transaction.atomic():
            result = tasks.ship.enqueue(42, self.file)
        first = self.worker("--lease", "1", "--verbosity", "0")
        until(lambda: os.path.exists(self.file))
        self.assertEqual(self.end(first, signal.SIGKILL)[0], -signal.SIGKILL)
        self.worker()
        self.finish(result)
        self.assertEqual((result.status, result.return_value, result.attempts),
                         (TaskResultStatus.SUCCESSFUL, "shipped", 2))
        self.assertEqual([order.number for order in Order.objects.all()], [42])
        self.assertEqual(list(Attempt.objects.values_list("outcome", flat=True)),
                         ["interrupted_reclaimed", "success"])
        self.check()

    @unittest.skipUnless(importlib.util.find_spec("django_tasks_db"),
                         "there is no django-tasks-db")
    def test_a_killed_worker_beside_it(self):
        """The same with django-tasks-db: its outcome is printed."""
        beside = {"BESIDE": "1", "DATABASE": os.path.abspath("beside.db"),
                  "PYTHONWARNINGS": "ignore"}
        code = ("import django; django.setup(); from shop import tasks; "
                "tasks.ship_plainly.enqueue(42, %r)" % self.file)
        manage("migrate", "--run-syncdb", "-v0", **beside).communicate()
        subprocess.run([PYTHON, "-c", code], env={**os.environ, **beside},
                       check=True)
        options = ("db_worker", "--no-startup-delay", "--no-reload")
        first = manage(*options, **beside)
        until(lambda: os.path.exists(self.file) or first.poll() is not None)
        first.kill()
        first.communicate()
        time.sleep(1)                   # the lease that the test above has
        manage(*options, "--batch", **beside).communicate()
        db = claimq.connect("beside.db")
        found = db.execute("SELECT status, (SELECT count(*) FROM shop_order)"
                           " FROM django_tasks_database_dbtaskresult").fetchall()
        db.close()
        print("note django-tasks-db after kill -9: task %s, %d orders; "
              "claimq: SUCCESSFUL, 1 order" % found[0])

    def test_the_programs_of_the_readme(self):
        """The settings, and two modules, as they stand there."""
        with open(os.environ["CLAIMQ_README"], encoding="utf-8") as file:
            text = file.read().partition("\n## Django\n")[2]
        settings, buy, ship, *_ = re.findall(
            r"(?ms)^```python\n(.*?)^```$", text)
        if django.VERSION < (6,):
            buy, ship = (block.replace("from django.tasks", "from django_tasks")
                         for block in (buy, ship))
            settings += "INSTALLED_APPS += ['django_tasks']\n"
        settings += ("MIGRATION_MODULES = {'shop': None}\nSECRET_KEY = 'x'\n"
                     "DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'\n")
        for name, block in (("set", settings), ("buy", buy), ("ship", ship)):
            with open("readme_%s.py" % name, "w") as file:
                file.write(block)
        code = ("import django; django.setup(); import readme_buy, readme_ship;"
                " readme_buy.buy(42); readme_ship.ship.enqueue(43)")
        here = {"DJANGO_SETTINGS_MODULE": "readme_set",
                "PYTHONPATH": ".:" + os.environ["PYTHONPATH"]}
        process = manage("migrate", "--run-syncdb", "-v0", **here)
        self.assertEqual(process.communicate()[0], b"")
        subprocess.run([PYTHON, "-c", code], env={**os.environ, **here},
                       check=True)
        out = manage("claimq_worker", "--batch", **here).communicate()[0]
        self.assertIn("mail for order 42\n", out.decode())
        db = claimq.connect("app.db")
        self.addCleanup(db.close)
        self.assertEqual(db.execute(
            "SELECT number, (SELECT group_concat(result) FROM claimq_job)"
            " FROM shop_order").fetchall(),
            [(42, 'null,"shipped"'), (43, 'null,"shipped"')])

    def test_completed_outside_of_a_transaction(self):
        with self.assertRaises(LookupError):
            claimq.django.complete()

    def test_flush_empties_the_queue(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT claimq_policy('mail', 'max_active', 2)")
            cursor.fetchall()
        tasks.fail.enqueue()
        claimq.django.run_due()
        tasks.add.enqueue(1)
        Order.objects.create(number=1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM claimq_lane('default', 'w')")
            self.assertEqual(len(cursor.fetchall()), 1)
        call_command("flush", interactive=False, verbosity=0)
        self.assertEqual([model.objects.count() for model in
                          (Order, Job, Attempt, Letter)], [0, 0, 0, 0])
        self.assertEqual(tasks.add.enqueue(1).id, "1")
        self.assertEqual(claimq.django.run_due(), 1)
        self.check()

    def test_a_flush_that_is_not_confirmed(self):
        tasks.add.enqueue(1)
        with unittest.mock.patch("builtins.input", return_value="no"):
            call_command("flush", stdout=io.StringIO())
        self.assertEqual(Job.objects.count(), 1)

    def test_the_tests_of_a_project(self):
        out = manage("test", "shop").communicate()[0].decode()
        self.assertIn("Ran 4 tests", out)
        self.assertIn("\nOK\n", out)

    def test_migrations_and_back(self):
        path = os.path.abspath("back.db")
        for arguments, tables in ((("migrate",), True),
                                  (("migrate", "claimq", "zero"), False),
                                  (("migrate",), True)):
            process = manage(*arguments, DATABASE=path)
            out = process.communicate()[0].decode()
            self.assertEqual(process.returncode, 0, out)
            db = claimq.connect(path, init=False)
            found = db.execute("SELECT name FROM sqlite_schema WHERE name GLOB"
                               " 'claimq*'").fetchall()
            db.close()
            self.assertEqual(bool(found), tables)
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)

    def test_a_producer_without_the_extension(self):
        """In another process, whose Python cannot load it."""
        code = """import claimq
def load(_): raise RuntimeError("cannot")
claimq.load = load
import django; django.setup()
from shop import tasks
from claimq.django.models import Job
tasks.add.enqueue(1, b=1)
django.db.connection.close()
Job.objects.create(lane="mail", payload=b"\\x00")
"""
        done = subprocess.run([PYTHON, "-W", "ignore", "-c", code], check=True,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.stderr, b"claimq was not loaded: cannot\n")
        self.assertEqual(Job.objects.get(lane="mail").payload, b"\x00")
        Job.objects.filter(lane="mail").delete()
        self.assertEqual(claimq.django.run_due(), 1)
        self.assertEqual(task_backends["default"].get_result(
            str(Job.objects.get().pk)).return_value, 2)

    def test_checks_are_quiet(self):
        call_command("check", databases=["default"], fail_level="WARNING",
                     stdout=io.StringIO())

    def test_checks_warn(self):
        def found(**environment):
            code = ("import django; from django.conf import settings; "
                    "settings.DATABASES['default']['OPTIONS'] = {}; "
                    "import claimq; %s"
                    "django.setup(); from django.core.management import "
                    "call_command as call; call('check', databases=['default'])"
                    % environment.pop("do", ""))
            return subprocess.run(
                [PYTHON, "-c", code], capture_output=True,
                env={**os.environ, **environment}).stderr.decode()
        path = {"DATABASE": os.path.abspath("plain.db")}
        out = found(**path)
        self.assertIn("(claimq.W001) transactions of DATABASES['default'] begin"
                      " as readers", out)
        self.assertIn("(claimq.W002) the journal mode of DATABASES['default'] "
                      "is delete", out)
        self.assertNotIn("claimq.E001", out)
        out = found(do="claimq.loadable_path = lambda: 'missing'; ", **path)
        self.assertIn("(claimq.E001) the extension cannot be loaded", out)

    def test_the_app_is_missing(self):
        with override_settings(INSTALLED_APPS=[]):
            errors = list(task_backends["default"].check())
        self.assertEqual([error.id for error in errors], ["claimq.E003"])

    def test_an_unknown_option(self):
        code = ("import django; from django.conf import settings; "
                "settings.TASKS['default']['OPTIONS'] = {'lane': 1}; "
                "django.setup(); from shop import tasks")
        done = subprocess.run([PYTHON, "-c", code], capture_output=True)
        self.assertIn("unknown OPTIONS of TASKS['default']: lane; there are "
                      "database, max_attempts", done.stderr.decode())

    def test_a_worker_for_another_backend(self):
        dummy = (BaseTaskBackend.__module__.replace(".base", ".dummy")
                 + ".DummyBackend")
        with override_settings(TASKS={"default": {"BACKEND": dummy}}):
            with self.assertRaisesRegex(CommandError, "not claimq's backend"):
                call_command("claimq_worker")

    def test_batch_ends_when_nothing_is_due(self):
        later = timezone.now() + datetime.timedelta(hours=1)
        for n in range(3):
            tasks.add.enqueue(n)
            tasks.add.using(queue_name="mail").enqueue(n)
            tasks.add.using(run_after=later).enqueue(n)
        process = self.worker("--batch")
        out = process.communicate(timeout=2 * LIMIT)[0].decode()
        self.assertEqual(process.returncode, 0, out)
        self.assertEqual(Job.objects.filter(state="completed").count(), 6)
        self.assertEqual(Job.objects.exclude(state="completed").count(), 3)


if __name__ == "__main__":
    run(Tests)
    connections.close_all()
