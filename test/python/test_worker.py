"""What the Python Worker does when a handler, a lock, the disk or the file is
not as it expects.  (What every language does is in tcl/story.tcl.)"""
import contextlib
import logging
import math
import os
import sys
import threading
import time

import claimq
from support import HOUR, LIMIT, Case, run

logging.getLogger("claimq").propagate = False


class Log(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())

    def count(self, *words):
        return sum(all(word in line for word in words) for line in self.lines)


class Workers(Case):
    def setUp(self):
        super().setUp()
        self.log = Log()
        logger = logging.getLogger("claimq")
        logger.addHandler(self.log)
        self.addCleanup(logger.removeHandler, self.log)

    def work(self, handler, **options):
        """Have a worker begin what is ready in the lane m, once each."""
        left = self.one("SELECT count(*) FROM claimq_job WHERE state='ready'")
        seen = []

        def once(job):
            seen.append(job.id)
            if len(seen) == left:
                worker.stop()
            return handler(job)

        worker = claimq.Worker(self.path, "m", once, **options)
        return worker.run()

    @contextlib.contextmanager
    def worker(self, handler=None, lanes="m", tasks=(), **options):
        """A worker in a thread; yields what run() returned or raised."""
        out = []
        worker = claimq.Worker(self.path, lanes, handler, **options)
        for name, function in dict(tasks).items():
            worker.task(name, function)

        def body():
            try:
                out.append(worker.run())
            except BaseException as error:
                out.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        try:
            yield worker, out
        finally:
            worker.stop()
            thread.join(LIMIT)
        self.assertFalse(thread.is_alive())

    def job(self, columns="state, attempt_index"):
        return self.sql("SELECT %s FROM claimq_job" % columns)[0]

    #-----------------------------------------------------------------------
    # What is claimed

    def test_all_partitions_or_those_that_are_named(self):
        for partition in (0, 1, 5, -7):
            self.submit("m", str(partition), "partition", partition)
        for partition, expected in ((5, ["5"]), ([1, 9], ["1"]),
                                    (None, ["0", "-7"])):
            got = []

            def handler(job):
                got.append(job.payload)

            with self.worker(handler, partition=partition):
                self.wait(lambda: len(got) == len(expected))
            self.assertEqual(got, expected)

    def test_lanes_are_asked_in_order(self):
        for lane in ("low", "high", "low", "high"):
            self.submit(lane, lane)
        got = []
        worker = claimq.Worker(self.path, ["high", "low"],
                               lambda job: got.append(job.lane))
        self.assertEqual(worker.drain(), 4)
        self.assertEqual(got, ["high", "high", "low", "low"])
        with self.worker(lambda job: got.append(job.lane), ("a", "low")):
            self.submit("low", "x")         # which it waits for, too
            self.wait(lambda: got[4:] == ["low"])

    def test_submit(self):
        """Values, options, and what becomes of them in the job."""
        seen = {}

        def handler(job):
            seen[job.id] = (job.payload, job.headers, job.task, job.lane)

        first = claimq.submit(self.db, "m", "text", priority=5, headers=None)
        ids = [claimq.submit(self.db, "m", payload, **options)
               for payload, options in (
            (b"bytes", {"headers": {"a": [1]}}),
            ({"n": 1}, {"capabilities": {"gpu"}, "after": [first]}),
            ([1, None], {"capabilities": '["gpu"]', "task": "t.x"}),
            (None, {}), (7, {"max_attempts": 1, "source_key": "k"}))]
        self.assertEqual(claimq.submit(self.db, "m", 8, source_key="k"),
                         ids[-1])
        worker = claimq.Worker(self.path, "m", handler, capabilities=["gpu"])
        worker.task("t.x", handler)
        self.assertEqual(worker.drain(), 6)
        self.assertEqual([seen[first], *[seen[id] for id in ids]], [
            ("text", {}, None, "m"), (b"bytes", {"a": [1]}, None, "m"),
            ('{"n": 1}', {}, None, "m"), ("[1, null]", {}, "t.x", "m"),
            ("null", {}, None, "m"), ("7", {}, None, "m")])
        with self.assertRaises(Exception) as caught:
            claimq.submit(self.db, "m", "x", nonsense=1)
        self.assertEqual(claimq.code(caught.exception), "bad_argument")

    def test_json(self):
        got = []
        for payload in ({"ä": [1, 2.5]}, [], b'{"b":1}', "[3]", None):
            claimq.submit(self.db, "m", payload)
        self.submit("m", 17)                # by SQL: an integer
        self.submit("m", "no JSON", "max_attempts", 1)
        claimq.Worker(self.path, "m", lambda job: got.append(job.json)).drain()
        self.assertEqual(got, [{"ä": [1, 2.5]}, [], {"b": 1}, [3], None, 17])
        self.assertEqual(self.one("SELECT error_class FROM claimq_letter"),
                         "JSONDecodeError")

    def test_tasks_are_for_those_who_know_them(self):
        got = []
        old = claimq.Worker(self.path, "m", lambda job: got.append(job.task))

        @old.task("mail.welcome")
        def welcome(job):
            got.append("welcome " + job.json["to"])

        new = claimq.Worker(self.path, "m")
        new.task("mail.new", lambda job: got.append("new"))
        claimq.submit(self.db, "m", {"to": "ann"}, task="mail.welcome")
        unknown = claimq.submit(self.db, "m", {}, task="mail.new")
        plain = claimq.submit(self.db, "m", {})
        self.assertEqual(old.drain(), 2)
        self.assertEqual(got, ["welcome ann", None])
        self.assertEqual(self.sql(
            "SELECT state FROM claimq_job WHERE job_id=?", unknown),
            [("ready",)])
        self.assertEqual(self.sql("SELECT reason FROM claimq_why('lane', 'm')"),
                         [("capability",)])
        self.assertEqual(new.drain(), 1)
        self.assertEqual(got[2:], ["new"])
        with self.assertRaises(ValueError):
            claimq.Worker(self.path, "m").run()

    def test_a_job_without_a_task_needs_a_handler(self):
        self.submit("m", "x", "max_attempts", 1)
        worker = claimq.Worker(self.path, "m")
        worker.task("t", print)
        worker.drain()
        self.assertEqual(self.one("SELECT reason FROM claimq_letter"),
                         "no handler for jobs without a task")
        self.assertEqual(self.log.count("no handler for jobs without"), 1)

    #-----------------------------------------------------------------------
    # Loops

    def test_handlers_run_at_once(self):
        """Each of them waits until all have begun."""
        for batch, many in ((1, 4), (3, 3)):
            for _ in range(2 * many):
                self.submit("m", "x")
            together = threading.Barrier(many)
            worker = claimq.Worker(
                self.path, "m", lambda job: together.wait(LIMIT) and None,
                batch=batch, concurrency=many)
            self.assertEqual(worker.drain(), 2 * many)
        self.assertEqual(self.sql("SELECT state, attempt_index, count(*)"
                                  " FROM claimq_job"), [("completed", 0, 14)])

    def test_many_jobs_are_done_once_each(self):
        for n in range(300):
            self.submit("m", n)
        seen = []
        with self.worker(lambda job: seen.append(job.payload), concurrency=4,
                         batch=2) as (_, out):
            self.wait(lambda: len(seen) == 300)
        self.assertEqual(out, [300])
        self.assertEqual(sorted(seen), list(range(300)))
        self.assertEqual(self.one("SELECT count(*) FROM claimq_job WHERE"
                                  " state<>'completed'"), 0)

    def test_one_at_a_time_runs_in_the_thread_of_the_caller(self):
        self.submit("m", "x")
        got = []
        claimq.Worker(self.path, "m", lambda job: got.append(
            threading.current_thread())).drain()
        self.assertEqual(got, [threading.current_thread()])

    def test_stop_finishes_what_is_begun_and_gives_back_the_rest(self):
        for _ in range(10):
            self.submit("m", "x")
        go, begun = threading.Event(), []

        def handler(job):
            begun.append(job)
            go.wait(LIMIT)

        with self.worker(handler, batch=4, concurrency=2,
                         lease_ms=HOUR) as (worker, out):
            self.wait(lambda: len(begun) == 2)
            self.wait(lambda: self.one("SELECT count(*) FROM claimq_job"
                                       " WHERE state='active'") == 4)
            worker.stop()
            self.wait(lambda: self.one("SELECT count(*) FROM claimq_job"
                                       " WHERE state='ready'") == 8)
            go.set()
            self.wait(lambda: out)
        self.assertEqual(out, [2])
        self.assertEqual(self.sql(
            "SELECT state, attempt_index, attempts, count(*) FROM claimq_job"
            " GROUP BY 1, 2, 3"), [("completed", 0, 1, 2), ("ready", 0, 0, 8)])

    def test_trouble_of_one_thread_ends_all(self):
        for _ in range(2):
            self.submit("m", "x")
        go = threading.Event()

        def handler(job):           # the second waits for the end of the first
            (go if job.id == 1 else job.stopping).wait(LIMIT)

        with self.worker(handler, concurrency=2) as (_, out):
            self.wait(lambda: self.one("SELECT count(*) FROM claimq_job"
                                       " WHERE state='active'") == 2)
            self.db.close()
            os.rename(self.path, self.path + ".old")
            go.set()
            self.wait(lambda: out)
        self.assertIn("was removed or replaced", str(out[0]))
        self.db = claimq.connect(self.path)

    def test_a_cancelled_job_is_lost_at_once(self):
        """With a lease of ten minutes, and others that go on."""
        for word in ("cancel", "revoke", "stay"):
            self.submit("m", word)
        ended, go = [], threading.Event()

        def handler(job):
            if job.attempt:         # what was revoked is claimed again
                return
            if job.payload == "stay":
                go.wait(LIMIT)
            else:
                job.lost.wait(LIMIT)
            ended.append((job.payload, job.lost.is_set()))

        with self.worker(handler, lease_ms=600000, concurrency=3):
            self.wait(lambda: self.one("SELECT count(*) FROM claimq_job"
                                       " WHERE state='active'") == 3)
            before = self.one("SELECT expires_at_ms FROM claimq_job"
                              " WHERE payload='stay'")
            self.assertEqual(self.one("SELECT claimq_cancel(1, 'force', 1)"),
                             "cancelled")
            self.wait(lambda: ended == [("cancel", True)])
            self.assertEqual(self.one("SELECT claimq_revoke(2)"), "revoked")
            self.wait(lambda: len(ended) == 2)
            self.assertEqual(before, self.one(      # it was not renewed
                "SELECT expires_at_ms FROM claimq_job WHERE payload='stay'"))
            go.set()
            self.wait(lambda: len(ended) == 3)
        self.assertEqual(sorted(ended), [("cancel", True), ("revoke", True),
                                         ("stay", False)])

    def test_drain_can_be_repeated_and_does_not_wait(self):
        got = []
        worker = claimq.Worker(self.path, "m",
                               lambda job: got.append(job.payload))
        self.assertEqual(worker.drain(), 0)
        self.submit("m", "a")
        self.submit("m", "later", "delay_ms", HOUR)
        self.assertEqual(worker.drain(), 1)
        self.submit("m", "b")
        self.assertEqual(worker.drain(), 1)
        self.assertEqual(got, ["a", "b"])

    def test_start_and_stop_are_logged(self):
        logger = logging.getLogger("claimq")
        logger.setLevel(logging.INFO)
        self.addCleanup(logger.setLevel, logging.NOTSET)
        self.submit("a", "x")
        claimq.Worker(self.path, ["a", "b"], str, owner="me",
                      concurrency=2).drain()
        self.assertEqual(self.log.lines, [
            "worker me begins: lanes a, b, concurrency 2",
            "worker me ends: 1 jobs"])

    def test_a_file_that_is_not_there_is_created_if_asked(self):
        path = self.path + ".new"
        with self.assertRaises(FileNotFoundError) as caught:
            claimq.Worker(path, "m", print).drain()
        self.assertIn("there is no file " + path, str(caught.exception))
        self.assertFalse(os.path.exists(path))
        self.addCleanup(os.remove, path)
        self.assertEqual(claimq.Worker(path, "m", print, create=True).drain(),
                         0)

    def test_synchronous(self):
        got = []

        def handler(job):
            got.append(job._db.execute("PRAGMA synchronous").fetchall()[0][0])

        for options in ({}, {"synchronous": "full"}):
            self.submit("m", "x")
            claimq.Worker(self.path, "m", handler, **options).drain()
        self.assertEqual(got, [1, 2])
        self.assertEqual(self.one("PRAGMA synchronous"), 2)
        with self.assertRaises(ValueError):
            claimq.Worker(self.path, "m", handler, synchronous="off")

    #-----------------------------------------------------------------------
    # Handlers

    def test_release_uses_no_attempt(self):
        def handler(job):
            if job.payload == "return":
                return claimq.Release()
            raise claimq.Release(delay_ms=given)

        self.submit("m", "return")
        self.work(handler)
        self.assertEqual(self.job("state, attempt_index, attempts"),
                         ("ready", 0, 0))
        self.sql("DELETE FROM claimq_job")
        for given, delay in ((HOUR, HOUR), (HOUR - .5, HOUR), (2**70, 2**53-1)):
            self.submit("m", "x")
            self.work(handler)
            state, attempt, attempts, at = self.job(
                "state, attempt_index, attempts, available_at_ms")
            self.assertEqual((attempt, attempts), (0, 0))
            self.assertGreater(at, time.time() * 1000 + delay - 60000)
            self.sql("DELETE FROM claimq_job")
        given = "soon"
        self.submit("m", "x")
        self.work(handler)
        self.assertEqual(self.job(), ("ready", 0))
        self.assertEqual(self.log.count("Release is no finite number"), 1)

    def raising(self, error):
        """Submit a job whose handler raises; returns what it is then."""
        def handler(job):
            raise error

        self.sql("DELETE FROM claimq_job")
        self.submit("m", "x", "backoff_ms", HOUR, "backoff_max_ms", HOUR)
        self.assertEqual(self.work(handler), 1)
        state, attempt, delay = self.job(
            "state, attempt_index, available_at_ms - settled_at_ms")
        self.assertEqual((state, attempt), ("delayed", 1))
        return delay

    def test_a_delay_is_whole_and_not_negative(self):
        for given, used in ((5000, 5000), (4999.5, 5000), (-7, 0),
                            (-1e300, 0), (2**70, 2**53 - 1),
                            (1e300, 2**53 - 1), (True, 1)):
            self.assertEqual(self.raising(claimq.Retry("r", delay_ms=given)),
                             used, given)

    def test_a_delay_that_is_no_number_is_the_backoff(self):
        for given in ("soon", math.nan, math.inf, object(), [1], b"1"):
            delay = self.raising(claimq.Retry("r", delay_ms=given))
            self.assertGreaterEqual(delay, HOUR // 2, given)
        self.assertEqual(self.log.count("no finite number"), 6)
        self.assertGreaterEqual(self.raising(claimq.Retry("r")), HOUR // 2)
        self.assertEqual(self.log.count("no finite number"), 6)

    def test_the_class_of_a_retry(self):
        for given, stored in (("Timeout", "Timeout"), ("x" * 70, "x" * 64),
                              (None, None), (1, None)):
            self.raising(claimq.Retry("r", 0, given))
            self.assertEqual(self.one("SELECT error_class FROM claimq_job"
                                      " ORDER BY job_id DESC"), stored)

    def test_a_delay_of_a_foreign_error_is_not_one(self):
        error = OSError("http 429")
        error.delay_ms = 1
        self.assertGreaterEqual(self.raising(error), HOUR // 2)

    def test_whatever_is_raised_is_a_failed_attempt(self):
        class Mute(Exception):
            def __str__(self):
                raise SystemExit

        class Wrong(Exception):
            def __str__(self):
                return 5

        class Evil(claimq.Retry):
            @property
            def delay_ms(self):
                raise KeyError("delay_ms")

            @delay_ms.setter
            def delay_ms(self, value):
                pass

        long = type("L" * 100, (Exception,), {})
        for error in (Mute(), Wrong(), Evil(), long("x"), Exception("\ud800"),
                      SystemExit(3), KeyboardInterrupt(), GeneratorExit(),
                      RecursionError("deep"), MemoryError(), Exception("\0"),
                      claimq.Lost("gone"), claimq.Retry("\udcff")):
            self.raising(error)

    def test_a_failure_has_class_text_and_the_end_of_the_trace(self):
        def handler(job):
            return {}["user_id"]

        self.submit("m", "x", "max_attempts", 1)
        self.work(handler)
        reason, kind = self.sql("SELECT reason, error_class FROM"
                                " claimq_letter")[0]
        self.assertEqual(kind, "KeyError")
        self.assertEqual(reason.splitlines()[0], "KeyError: 'user_id'")
        self.assertIn('return {}["user_id"]', reason)
        self.assertEqual(self.log.count("job 1 failed"), 1)

    def test_whatever_is_rejected_is_a_letter(self):
        for error in (claimq.Reject(None), claimq.Reject("\ud800"),
                      claimq.Reject(), claimq.Reject(object())):
            self.submit("m", "x")
            self.work(lambda job, error=error: (_ for _ in ()).throw(error))
        self.assertEqual(self.one("SELECT count(*) FROM claimq_letter"), 4)

    def test_a_result_that_cannot_be_stored_is_no_failure(self):
        around = {}
        around["it"] = around

        class Deep(dict):
            def items(self):
                raise SystemExit

        for result in (around, object(), {"x": object()}, {1, 2},
                       memoryview(b"abcd")[::2], Deep(a=1)):
            self.sql("DELETE FROM claimq_job")
            self.submit("m", "x")
            self.work(lambda job, result=result: result)
            self.assertEqual(self.job("state, attempt_index, result"),
                             ("completed", 0, None), result)
        self.assertEqual(self.log.count("job"), 6)

    def test_other_results_are_stored(self):
        for result, stored in ((7, 7), (1.5, 1.5), ("x", "x"), (b"x", b"x"),
                               (bytearray(b"x"), b"x"), (None, None),
                               (2**63, "9223372036854775808"),
                               ("\ud800", '"\\ud800"'), ([1], "[1]"),
                               (type("S", (str,), {})("x"), "x")):
            self.sql("DELETE FROM claimq_job")
            self.submit("m", "x")
            self.work(lambda job, result=result: result)
            self.assertEqual(self.job("state, result"), ("completed", stored))
        self.assertEqual(self.log.lines, [])

    #-----------------------------------------------------------------------
    # Locks, disks and files

    def test_an_idle_worker_waits_for_a_lock(self):
        done = threading.Event()
        with self.worker(lambda job: done.set(), timeout=0.01) as (_, out):
            self.submit("m", "x")
            self.wait(done.is_set)
            self.sql("BEGIN IMMEDIATE")
            done.clear()
            self.submit("m", "x")       # which is not to be seen yet
            self.sql("COMMIT")
            self.wait(done.is_set)
        self.assertEqual(out, [2])

    def test_a_worker_that_begins_waits_for_a_lock(self):
        self.submit("m", "x")
        self.sql("BEGIN IMMEDIATE")
        done = threading.Event()
        with self.worker(lambda job: done.set(), timeout=0.01) as (_, out):
            self.wait(lambda: self.log.count("database is locked") > 2)
            self.sql("COMMIT")
            self.wait(done.is_set)
        self.assertEqual(out, [1])

    def test_a_worker_that_waits_for_a_lock_can_be_stopped(self):
        self.submit("m", "x")
        self.sql("BEGIN IMMEDIATE")
        with self.worker(print, timeout=0.01) as (_, out):
            self.wait(lambda: self.log.count("database is locked"))
        self.sql("COMMIT")
        self.assertEqual(out, [0])

    def locked_settle(self, lease_ms):
        """The handler takes the lock, from another connection."""
        self.submit("m", "x")
        other = claimq.connect(self.path, check_same_thread=False)
        self.addCleanup(other.close)
        runs = []

        def handler(job):
            runs.append(job.id)
            other.execute("BEGIN IMMEDIATE")

        return other, runs, self.worker(handler, timeout=0.01,
                                        lease_ms=lease_ms)

    def test_what_is_done_is_settled_after_a_lock(self):
        other, runs, worker = self.locked_settle(HOUR)
        with worker as (_, out):
            self.wait(lambda: self.log.count("settling job 1", "locked") > 2)
            other.execute("COMMIT")
            self.wait(lambda: self.job() == ("completed", 0))
        self.assertEqual((out, runs), ([1], [1]))

    def test_a_stopped_worker_gives_up_after_a_lease(self):
        other, runs, worker = self.locked_settle(100)
        with worker as (it, out):
            self.wait(lambda: self.log.count("settling job 1", "locked"))
            it.stop()
            self.wait(lambda: out)
        other.execute("COMMIT")
        self.assertEqual(out, [1])
        self.assertEqual(self.log.count("settling job 1", "given up"), 1)
        self.assertEqual(self.job(), ("active", 0))

    def test_a_job_that_is_lost_meanwhile_is_let_go(self):
        other, runs, worker = self.locked_settle(HOUR)
        with worker as (_, out):
            self.wait(lambda: self.log.count("settling job 1", "locked"))
            other.execute("SELECT claimq_revoke(1)").fetchall()
            other.execute("SELECT * FROM claimq_lane('m', 'o', ?)",
                          [HOUR]).fetchall()
            other.execute("COMMIT")
            self.submit("m", "y")
            self.wait(lambda: runs == [1, 2])
            other.execute("COMMIT")
            self.wait(lambda: self.one("SELECT state FROM claimq_job"
                                       " WHERE job_id=2") == "completed")
        self.assertEqual(self.job("state, attempt_index, owner"),
                         ("active", 1, "o"))

    def test_a_full_disk_is_waited_out(self):
        opened = []
        connect = claimq.connect

        def remember(*arguments, **options):
            opened.append(connect(*arguments, **options))
            return opened[-1]

        full, free = threading.Event(), threading.Event()
        runs = []

        def handler(job):
            runs.append(job.id)
            if job.id == 1:
                full.set()
                free.wait(LIMIT)
            return "x" * 100000

        claimq.connect = remember
        self.addCleanup(setattr, claimq, "connect", connect)
        self.submit("m", "a")
        self.submit("m", "b")
        with self.worker(handler) as (_, out):
            self.wait(full.is_set)
            opened[0].execute("PRAGMA max_page_count=1").fetchall()
            free.set()
            self.wait(lambda: self.log.count("settling job 1", "full") > 2)
            # sqlite3 lets two threads use a connection, one at a time.
            opened[0].execute("PRAGMA max_page_count=1000000").fetchall()
            self.wait(lambda: self.one("SELECT count(*) FROM claimq_job"
                                       " WHERE state='completed'") == 2)
        self.assertEqual((out, runs), ([2], [1, 2]))

    def test_a_file_that_was_replaced_ends_it(self):
        done = threading.Event()
        self.submit("m", "x")
        with self.worker(lambda job: done.set()) as (_, out):
            self.wait(done.is_set)
            self.db.close()
            os.rename(self.path, self.path + ".old")
            claimq.connect(self.path).close()
            self.wait(lambda: out)
        self.assertIn("was removed or replaced", str(out[0]))
        self.db = claimq.connect(self.path)

    def test_a_handler_may_change_the_directory(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        self.submit("m", "x")
        self.submit("m", "y")
        os.chdir(os.path.dirname(self.path))
        self.path = os.path.basename(self.path)
        self.assertEqual(self.work(lambda job: os.chdir("/")), 2)

    def test_what_waiting_does_not_cure_ends_it(self):
        with open(self.path + ".txt", "w") as file:
            file.write("this is not a database " * 100)
        for path in (self.path + ".txt", "/nowhere/at/all.db"):
            with self.assertRaises((claimq.sqlite3.Error, OSError)):
                claimq.Worker(path, "m", print).run()


run(Workers)
