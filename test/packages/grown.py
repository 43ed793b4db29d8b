"""A worker with everything, with the installed Python package.

    python3 grown.py DATABASE

Prints a line for each thing, which test/package_python.test compares.  Nothing
depends on speed: what takes time is waited for, for five minutes at most.
"""
import logging
import sys
import threading

import claimq

LIMIT = 300
path = sys.argv[1]
said = []
logger = logging.getLogger("claimq")
logger.setLevel(logging.INFO)
logger.propagate = False
handler = logging.Handler()
handler.emit = lambda record: said.append(
    record.getMessage() + (" with its trace" if record.exc_info else ""))
logger.addHandler(handler)

# A mistyped path is an error, and no new file.
try:
    claimq.Worker(path, "jobs", print).run()
except FileNotFoundError as error:
    print("no file:", type(error).__name__)

# Submit: JSON, bytes, tasks, headers, options of claimq_submit.
db = claimq.connect(path)
print("submitted:",
      claimq.submit(db, "jobs", {"to": "ann"}, task="mail.welcome",
                    max_attempts=3),
      claimq.submit(db, "jobs", b"bytes", headers={"trace": "abc"}),
      claimq.submit(db, "jobs", "give back", task="release"),
      claimq.submit(db, "jobs", "x", task="cancel", priority=1),
      claimq.submit(db, "jobs", {}, task="not.yet.known"),
      claimq.submit(db, "jobs", {}, task="fails", max_attempts=1),
      claimq.submit(db, "urgent", ["high"], priority=-1))

# Several lanes, the first of them first; three handlers at once.
lines, together = {}, threading.Barrier(3, timeout=LIMIT)
cancelling = threading.Event()


def meet(job):
    """The first three jobs that are begun wait for each other."""
    if job.id in (7, 4, 1):
        together.wait()
        lines["at once"] = 3


def plain(job):
    meet(job)
    if job.lane == "urgent":
        lines["pair"] = job.json[0]
    else:
        lines["plain"] = "%s %s" % (bytes(job.payload).decode(), job.headers)


worker = claimq.Worker(path, ["urgent", "jobs"], plain, concurrency=3,
                       lease_ms=600000)


@worker.task("mail.welcome")
def welcome(job):
    meet(job)
    lines[job.task] = job.json["to"]


@worker.task("release")
def release(job):
    if "given back" not in lines:
        lines["given back"] = True
        raise claimq.Release()
    lines["released, then done"] = job.attempt


@worker.task("cancel")
def cancel(job):
    meet(job)
    cancelling.set()
    lines["lost at once"] = job.lost.wait(LIMIT)


@worker.task("fails")
def fails(job):
    return {}["user"]


def canceller():
    other = claimq.connect(path)
    cancelling.wait(LIMIT)
    other.execute("SELECT claimq_cancel(4, 'force', 1)").fetchall()
    other.close()


thread = threading.Thread(target=canceller)
thread.start()
worker.drain()
thread.join()
lines["unknown"] = db.execute("SELECT state FROM claimq_job WHERE job_id=5"
                              ).fetchall()[0][0]
lines["letter"] = "%s %s" % db.execute(
    "SELECT error_class, substr(reason, 1, 16) FROM claimq_letter"
    ).fetchall()[0]
for name in ("at once", "mail.welcome", "plain", "released, then done",
             "lost at once", "unknown", "letter", "pair"):
    print(name + ":", lines.get(name))
print("again:", worker.drain())

# A newer worker knows more.
levels = []
newer = claimq.Worker(path, "jobs")
newer.task("not.yet.known", lambda job: levels.append(
    job._db.execute("PRAGMA synchronous").fetchall()[0][0]))
print("newer:", newer.drain())
print("sync:", *levels, db.execute("PRAGMA synchronous").fetchall()[0][0])
print("begins", sum("begins: lanes urgent, jobs, concurrency 3" in line
                    for line in said[:1]),
      "ends", sum("ends: 7 jobs" in line for line in said),
      "failed", sum("job 6 failed with its trace" in line for line in said))
