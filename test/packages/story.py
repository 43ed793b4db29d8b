"""The story of tcl/story.tcl, told with the installed Python package.

    python3 story.py calls DATABASE
    python3 story.py worker DATABASE LANE LEASE_MS BATCH
"""
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


def handle(job):
    word, _, name = job.payload.partition(" ")
    if word == "count":
        db.execute("INSERT INTO done VALUES (?)", [job.id])
    elif word == "fail" and job.attempt == 0:
        raise ValueError("no luck")
    elif word == "later" and job.attempt == 0:
        raise claimq.Retry("later", delay_ms=1)
    elif word == "reject":
        raise claimq.Reject("poison")
    elif word == "hold":
        write(name + ".begun", "")
        wait_for(name + ".go")
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
    db = claimq.connect(path)
    begun = claimq.Worker(path, lane, handle, lease_ms=int(lease_ms),
                          batch=int(batch)).run()
    print("begun", begun)
