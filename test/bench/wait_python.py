# wait_python.py: how soon a Python worker is woken, by claimq and by honker.
#
#     PYTHONPATH=build/peers/py python3 wait_python.py WAY DIR SO QUICK
#
# WAY is claimq or honker.  Prints JSON objects, one a line, as bench_wait.c
# does, which explains what is measured: latency with 1 and 8 waiters, processor
# time of one waiter while nothing happens, and while 1,000 commits a second
# concern somebody else.  The waiters are processes of their own; the writer is
# this one, the same for both ways: Python's sqlite3, WAL, synchronous NORMAL.
#
# claimq waits by SELECT claimq_wait(60000), honker by its update_events(); for
# work of their own they wait by claimq_wait(60000, 'lane', 'mine') and by the
# iterator queue.claim().  The language is in both figures.

import asyncio
import glob
import json
import mmap
import os
import random
import shutil
import sqlite3
import sys
import time


def connect(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


class Claimq:
    """The two ways to wait.  prepare() makes the tables; wait() returns when
    another connection has committed, work() when there is work."""

    def __init__(self, path, so):
        self.db = connect(path)
        self.db.enable_load_extension(True)
        self.db.load_extension(so)

    def prepare(self):
        self.db.execute("SELECT claimq_init()")

    def name(self):
        v = self.db.execute("SELECT claimq_version()").fetchone()[0]
        return "claimq %s (Python)" % v

    def run(self, ready, woken, work):
        sql = "SELECT claimq_wait(60000%s)" % (",'lane','mine'" if work else "")
        if not work:
            self.db.execute(sql).fetchone()    # the first returns at once
        ready()
        while woken(self.db.execute(sql).fetchone()):
            pass

    def put(self):
        self.db.execute("SELECT claimq_submit('mine', 'x')").fetchone()

    def close(self):
        self.db.close()


class Honker:
    def __init__(self, path, so):
        import honker
        self.db = honker.open(path)

    def prepare(self):
        self.db.queue("mine")

    def name(self):
        from importlib.metadata import version
        return "honker %s (Python)" % version("honker")

    def run(self, ready, woken, work):
        async def loop():
            source = (self.db.queue("mine").claim("w") if work
                      else self.db.update_events())
            ready()
            async for item in source:
                if not woken(item):
                    break
        asyncio.run(loop())

    def put(self):
        self.db.queue("mine").enqueue("x")

    def close(self):
        self.db.close()


class Crowd:
    """Waiters, and what they share with the writer: a byte for each that is
    ready, and one that says stop."""

    def __init__(self, way, path, so, n, work=False):
        self.path, self.shared = path, mmap.mmap(-1, 64)
        first = way(path, so)
        first.prepare()
        self.name = first.name()
        first.close()
        self.pids = []
        for i in range(n):
            pid = os.fork()
            if pid == 0:
                self.waiter(way, so, i, work)
            self.pids.append(pid)
        while self.shared[:n].count(1) < n:
            time.sleep(0.001)
        time.sleep(0.3)
        self.writer = connect(path)
        self.writer.execute("CREATE TABLE IF NOT EXISTS t(x)")
        self.way, self.so = way, so

    def waiter(self, way, so, i, work):
        times = []
        queue = way(self.path, so)

        def ready():
            self.shared[i] = 1

        def woken(_):
            times.append(time.monotonic())
            return self.shared[63] == 0

        queue.run(ready, woken, work)
        with open("%s.%d" % (self.path, i), "w") as f:
            json.dump(times, f)
        os._exit(0)

    def commits(self, n, least, most):
        """n commits of somebody else's: when each began and was done."""
        rnd, out = random.Random(1), []
        for _ in range(n):
            time.sleep(rnd.uniform(least, most))
            self.writer.execute("BEGIN IMMEDIATE")
            self.writer.execute("INSERT INTO t VALUES(1)")
            begin = time.monotonic()
            self.writer.execute("COMMIT")
            out.append((begin, time.monotonic()))
        return out

    def cpu(self):
        """Milliseconds of processor time of the first waiter, all threads."""
        ns = 0
        for f in glob.glob("/proc/%d/task/*/schedstat" % self.pids[0]):
            with open(f) as fd:
                ns += int(fd.read().split()[0])
        return ns / 1e6

    def stop(self):
        """Ends all of them; returns their lists of times."""
        self.shared[63] = 1
        end = self.way(self.path, self.so)
        for _ in self.pids:
            end.put()
        for pid in self.pids:
            if os.waitpid(pid, 0)[1] != 0:
                raise SystemExit("a waiter failed")
        end.close()
        self.writer.close()
        out = []
        for i in range(len(self.pids)):
            with open("%s.%d" % (self.path, i)) as f:
                out.append(json.load(f))
        return out


def report(crowd, name, unit, p50, p99):
    print(json.dumps({
        "group": "wait", "name": name, "place": "tmpfs",
        "param": {"way": crowd.name, "journal": "wal",
                  "waiters": len(crowd.pids)},
        "p50": round(p50, 2), "p99": round(p99, 2), "unit": unit}), flush=True)


def latency(way, path, so, waiters, n):
    crowd = Crowd(way, path, so, waiters)
    done = crowd.commits(n, 0.003, 0.007)
    time.sleep(0.1)
    all_late = []
    for times in crowd.stop():
        k = 0
        for begin, end in done:
            while k < len(times) and times[k] < begin:
                k += 1
            if k < len(times):
                all_late.append(1e6 * (times[k] - end))
    all_late.sort()
    report(crowd, "commit to awake", "us", all_late[len(all_late) // 2],
           all_late[len(all_late) * 99 // 100])


def idle(way, path, so, seconds):
    crowd = Crowd(way, path, so, 1)
    cpu, start = crowd.cpu(), time.monotonic()
    time.sleep(seconds)
    ms = (crowd.cpu() - cpu) / (time.monotonic() - start)
    crowd.stop()
    report(crowd, "idle", "ms/s", ms, ms)


def around(way, path, so, n):
    crowd = Crowd(way, path, so, 1, work=True)
    cpu, start = crowd.cpu(), time.monotonic()
    crowd.commits(n, 0.0007, 0.0011)
    ms = (crowd.cpu() - cpu) / (time.monotonic() - start)
    crowd.stop()
    report(crowd, "1,000 commits/s", "ms/s", ms, 0)


def main(name, where, so, quick):
    way = {"claimq": Claimq, "honker": Honker}[name]
    quick = quick != "0"
    parts = [
        lambda path: latency(way, path, so, 1, 200 if quick else 500),
        lambda path: latency(way, path, so, 8, 200 if quick else 500),
        lambda path: idle(way, path, so, 2 if quick else 6),
        lambda path: around(way, path, so, 1000 if quick else 3000),
    ]
    for part in parts:
        os.makedirs(where)
        try:
            part(os.path.join(where, "wait.db"))
        finally:
            shutil.rmtree(where)


main(*sys.argv[1:])
