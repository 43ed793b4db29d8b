"""What the tests of the Python package share.

    class Tests(Case):
        def test_something(self):
            self.db ...                   # a new database, with claimq's tables

    run(Tests)

Every test has a database file of its own in the present directory.  Nothing
depends on speed: leases and delays are an hour long or over, and what takes
time is waited for, for five minutes at most.
"""
import json
import os
import subprocess
import sys
import time
import traceback
import unittest

import claimq

LIMIT = 300
HOUR = 3600000


class Case(unittest.TestCase):
    patience = LIMIT

    def setUp(self):
        self.path = os.path.abspath(self.id().split(".")[-1] + ".db")
        for end in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(self.path + end):
                os.remove(self.path + end)
        self.db = claimq.connect(self.path)
        self.addCleanup(self.db.close)

    def sql(self, sql, *arguments):
        return self.db.execute(sql, arguments).fetchall()

    def one(self, sql, *arguments):
        return self.sql(sql, *arguments)[0][0]

    def submit(self, lane, payload, *options):
        return self.one("SELECT claimq_submit(?, ?%s)" % (", ?" * len(options)),
                        lane, payload, *options)

    def claim(self, lane, owner="w", ttl=HOUR, n=1):
        """[(job_id, claim_id, lease_token)]"""
        return self.sql("SELECT job_id, claim_id, lease_token"
                        " FROM claimq_lane(?, ?, ?, ?)", lane, owner, ttl, n)

    def letter(self, lane, payload, reason, error_class=None):
        """A dead letter; returns its id."""
        self.submit(lane, payload, "priority", 1000)
        (_, claim, token), = self.claim(lane)
        self.sql("SELECT claimq_reject(?, ?, ?, 'error_class', ?)",
                 claim, token, reason, error_class)
        return self.one("SELECT max(letter_id) FROM claimq_letter")

    def wait(self, question):
        """Until it answers something that is true; returns that."""
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            found = question()
            if found:
                return found
            time.sleep(0.02)
        self.fail("still not true after %d s" % self.patience)


def command(*arguments):
    """(exit code, output, errors) of `claimq ...`"""
    done = subprocess.run([sys.executable, "-m", "claimq", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=2 * LIMIT)
    return (done.returncode, done.stdout.decode(), done.stderr.decode())


def command_json(*arguments):
    code, out, errors = command(*arguments, "--json")
    return code, json.loads(out)


class _Result(unittest.TestResult):
    def _say(self, word, test, text=""):
        print(word, test.id().split(".")[-1] + text, flush=True)

    def addSuccess(self, test):
        self._say("ok", test)

    def addSkip(self, test, why):
        self._say("SKIPPED", test, ": " + why)

    def addFailure(self, test, error):
        lines = "".join(traceback.format_exception(*error)).splitlines()
        self._say("failed", test, ": " + " | ".join(lines[-8:]))

    addError = addFailure


def run(*cases):
    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case)
        for case in cases)
    suite.run(_Result())
    print("end")
