"""The story of tcl/test/story.tcl, with the installed Python package.

    python3 story.py calls DATABASE
    python3 story.py worker DATABASE LANE LEASE_MS BATCH
"""
import functools
import os
import sys
import time

import claimq


def calls(path):
    db = claimq.connect(path)
    print("version", db.execute("SELECT claimq_version()").fetchone()[0])
    print("journal", db.execute("PRAGMA journal_mode").fetchone()[0])

    # A stale worker is refused, and recognised.
    claim = "SELECT * FROM claimq_lane('stale', ?, 1000) WHERE now_ms=?"
    db.execute("SELECT claimq_submit('stale', 'x', 'now_ms', 1000)")
    db.row_factory = lambda c, row: dict(zip([d[0] for d in c.description],
                                             row))
    mine = db.execute(claim, ["a", 1000]).fetchall()
    db.execute(claim, ["b", 2000]).fetchall()
    try:
        db.execute("SELECT claimq_complete(?, ?)",
                   [mine[0]["claim_id"], mine[0]["lease_token"]])
    except Exception as error:
        print("stale", claimq.code(error))
    try:
        db.execute("SELECT nonsense()")
    except Exception as error:
        print("other", claimq.code(error) or "none")

    # An order and its job, in one transaction.
    db.execute("CREATE TABLE orders(id)")
    try:
        with claimq.transaction(db):
            db.execute("SELECT claimq_submit('orders', 'x')").fetchall()
            db.execute("INSERT INTO orders VALUES (1)")
            raise KeyError("something else goes wrong")
    except KeyError:
        pass
    with claimq.transaction(db):
        db.execute("SELECT claimq_submit('orders', 'y')").fetchall()
        db.execute("INSERT INTO orders VALUES (2)")


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)


def write(name, text):
    with open(name + ".tmp", "w") as file:
        file.write(text)
    os.rename(name + ".tmp", name)


@functools.lru_cache(None)
def connection():
    return claimq.connect(path)


class Odd(Exception):
    delay_ms = "soon"

    def __str__(self):
        raise RuntimeError("no text")


def odd(attempt):
    if attempt == 0:
        raise claimq.Retry("negative", delay_ms=-1)
    if attempt == 1:
        raise claimq.Retry("half", delay_ms=0.5)
    if attempt == 2:
        raise Odd


def note(name, word, value):
    with open(name + ".log", "a") as file:
        file.write(word + "\n")
    return value


def steps(job, name):
    first = job.step("one", lambda: note(name, "one", {"n": 1}))
    if job.attempt == 0:
        raise claimq.Retry("again", delay_ms=1)
    job.sleep(1)
    child = job.step("child", lambda: note(name, "child", connection().execute(
        "SELECT claimq_submit(?, 'count')", [lane]).fetchone()[0]))
    job.wait_for([child])
    job.step("two", lambda: note(name, "two", first["n"] + 1))


def agent(job, name, n):
    def function(i):
        global functions
        functions += 1
        while functions > most:
            time.sleep(1)               # until it is killed
        return note(name, "s%d" % i, i)

    return sum(job.step("s%d" % i, lambda: function(i)) for i in range(int(n)))


def fan(job, name, n):
    children = job.step("children", lambda: [
        claimq.submit(connection(), name, "part %d" % i)
        for i in range(1, int(n) + 1)])
    job.wait_for(children)
    return connection().execute(
        "SELECT sum(result) FROM claimq_job WHERE lane=?", [name]).fetchone()[0]


def ask(job, id):
    job.wait_for(int(id))
    return connection().execute(
        "SELECT result FROM claimq_job WHERE job_id=?", [id]).fetchone()[0]


def handle(job):
    word, _, name = job.payload.partition(" ")
    if word == "odd":
        odd(job.attempt)
    elif word == "never":
        raise claimq.Retry("never", delay_ms=2**70)
    elif word == "what":
        return {"what": object()}
    elif word == "count":
        connection().execute("INSERT INTO done VALUES (?)", [job.id])
    elif word == "fail" and job.attempt == 0:
        raise ValueError("no luck")
    elif word == "later" and job.attempt == 0:
        raise claimq.Retry("later", delay_ms=1)
    elif word == "reject":
        raise claimq.Reject("poison")
    elif word == "hold":
        write(name + ".begun", "")
        wait_for(name + ".go")
    elif word == "steps":
        steps(job, name)
    elif word == "agent":
        return agent(job, *name.split())
    elif word == "fan":
        return fan(job, *name.split())
    elif word == "part":
        return int(name)
    elif word == "ask":
        return ask(job, name)
    elif word == "lost":
        write(name + ".begun", "")
        job.lost.wait()
        write(name + ".lost", "")
        job.check()
    return "did " + job.payload


if sys.argv[1] == "calls":
    calls(sys.argv[2])
else:
    path, lane, lease_ms, batch = sys.argv[2:]
    functions, most = 0, float(os.environ.get("STORY_FUNCTIONS", "inf"))
    timeout_ms = int(os.environ.get("STORY_TIMEOUT_MS", 30000))
    begun = claimq.Worker(path, lane, handle, lease_ms=int(lease_ms),
                          batch=int(batch), timeout=timeout_ms / 1000,
                          concurrency=int(os.environ.get("STORY_CONCURRENCY",
                                                         1))).run()
    print("begun", begun)
