"""Durable steps in the Python Worker: job.step(), job.sleep(),
job.wait_for()."""
import logging
import time

import claimq
from support import HOUR, Case, run

logging.getLogger("claimq").propagate = False


class Steps(Case):
    def work(self, handler, times=1, **options):
        """Have a worker call the handler so often."""
        left = [times]

        def counted(job):
            left[0] -= 1
            if left[0] == 0:
                worker.stop()
            return handler(job)

        worker = claimq.Worker(self.path, "m", counted, **options)
        return worker.run()

    def state(self, id=1):
        return self.one("SELECT state FROM claimq_job WHERE job_id=?", id)

    def test_a_step_runs_once(self):
        self.submit("m", "x", "backoff_ms", 0)
        ran = []

        def handler(job):
            out = job.step("a", lambda: ran.append("a") or {"n": [1, None, "ä"]})
            job.step("nothing", lambda: ran.append("nothing"))
            if job.attempt < 2:
                raise claimq.Retry("again", delay_ms=0)
            return out

        self.work(handler, 3)
        self.assertEqual(ran, ["a", "nothing"])
        self.assertEqual(self.sql("SELECT state, result FROM claimq_job"),
                         [("completed", '{"n": [1, null, "\\u00e4"]}')])
        self.assertEqual(self.sql("SELECT name, value FROM claimq_steps"),
                         [("a", '{"n": [1, null, "\\u00e4"]}'),
                          ("nothing", "null")])

    def test_a_step_renews_the_lease(self):
        self.submit("m", "x")
        seen = []

        def handler(job):
            job.step("a", lambda: 1)
            seen.append(self.one("SELECT expires_at_ms-claimed_at_ms>=?"
                                 " FROM claimq_job", HOUR))

        self.work(handler, lease_ms=HOUR)
        self.assertEqual(seen, [1])

    def test_in_a_transaction_of_the_handler(self):
        self.submit("m", "x", "backoff_ms", 0)
        self.sql("CREATE TABLE mine(x)")

        def handler(job):
            with claimq.transaction(self.db):
                self.sql("INSERT INTO mine VALUES(?)", job.attempt)
                out = job.step("a", lambda: job.attempt, self.db)
                if job.attempt == 0:
                    raise ValueError("not yet")
            return out

        self.work(handler, 2)
        self.assertEqual(self.sql("SELECT x FROM mine"), [(1,)])
        self.assertEqual(self.one("SELECT result FROM claimq_job"), 1)

    def test_a_lost_job_stores_nothing(self):
        self.submit("m", "x")
        seen = []

        def handler(job):
            self.sql("SELECT claimq_cancel(1, 'force', 1)")
            try:
                job.step("a", lambda: 1)
            except claimq.Lost:
                seen.append(job.lost.is_set())
                raise

        self.work(handler)
        self.assertEqual(seen, [True])
        self.assertEqual(self.one("SELECT count(*) FROM claimq_steps"), 0)

    def test_sleep_gives_the_job_back_once(self):
        self.submit("m", "x")
        ran = []

        def handler(job):
            ran.append("begin")
            job.sleep(HOUR)
            ran.append("between")
            job.sleep(0)
            return "awake"

        self.work(handler)
        self.assertEqual(self.sql(
            "SELECT state, attempt_index, attempts, available_at_ms>?"
            " FROM claimq_job", int(time.time() * 1000) + HOUR - 60000),
            [("delayed", 0, 0, 1)])
        self.sql("UPDATE claimq_steps SET value=1 WHERE name='sleep-1'")
        self.sql("SELECT claimq_change(1, 'delay_ms', 0)")
        self.work(handler)
        self.assertEqual(ran, ["begin", "begin", "between"])
        self.assertEqual(self.one("SELECT result FROM claimq_job"), "awake")

    def test_a_handler_that_catches_everything_still_sleeps(self):
        self.submit("m", "x")

        def handler(job):
            try:
                job.sleep(HOUR)
            except Exception:
                return "not slept"

        self.work(handler)
        self.assertEqual(self.state(), "delayed")

    def test_a_parent_waits_for_its_children(self):
        self.submit("m", "parent")

        def handler(job):
            if job.payload != "parent":
                return job.payload
            children = job.step("children", lambda: [
                self.submit("m", name, "priority", 1) for name in "abc"])
            job.wait_for(children)
            return "".join(self.one("SELECT result FROM claimq_job"
                                    " WHERE job_id=?", id) for id in children)

        self.work(handler, 5)
        self.assertEqual(self.sql("SELECT state, result FROM claimq_job"),
                         [("completed", "abc"), ("completed", "a"),
                          ("completed", "b"), ("completed", "c")])

    def test_an_approval(self):
        self.submit("m", "x")
        asked = self.submit("approval", "may I?")

        def handler(job):
            job.wait_for(asked)
            return self.one("SELECT result FROM claimq_job WHERE job_id=?",
                            asked)

        self.work(handler)
        self.assertEqual(self.state(), "blocked")
        self.sql("SELECT claimq_resolve(?, 'yes')", asked)
        self.work(handler)
        self.assertEqual(self.one("SELECT result FROM claimq_job"), "yes")

    def test_a_job_that_never_was_is_an_error(self):
        self.submit("m", "x", "max_attempts", 1)
        self.work(lambda job: job.wait_for([99]))
        self.assertEqual(self.sql("SELECT state, last_error FROM claimq_job"),
                         [("failed", "cannot wait: after [99]")])


run(Steps)
