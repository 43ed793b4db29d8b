"""worker.py: a complete claimq worker that needs only the standard library.

    python3 worker.py DATABASE LANE [EXTENSION [LEASE_MS]]

It takes the jobs of a lane one by one, keeps the lease alive while it works,
and completes or retries each job.  SIGTERM or SIGINT ends it: the job at hand
is finished or given back, and no other is taken.  Start as many as you like.
Put your own work in the place of handle().
"""
import os, re, signal, socket, sqlite3, sys, threading


class GiveBack(Exception):
    """handle() raises it to give the job back without using up an attempt."""


class Job:
    def __init__(self, payload, attempt, claim_id, lease_token):
        self.payload, self.attempt = payload, attempt
        self.claim = (claim_id, lease_token)
        self.stop = threading.Event()  # the worker ends, or has lost the job


def handle(job):
    """The work.  Any exception but GiveBack has the job retried later."""
    verb, _, seconds = str(job.payload).partition(" ")
    if verb == "take" and job.stop.wait(float(seconds)):
        raise GiveBack
    if verb == "flaky" and job.attempt == 0:
        raise RuntimeError("the first attempt fails")
    print("done:", job.payload, flush=True)


def connect(path, extension):
    db = sqlite3.connect(path, timeout=5, isolation_level=None,
                         check_same_thread=False)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def error_code(error):
    """'claim_lost' and the like; None if the error is not one of claimq's."""
    found = re.search(r"\bclaimq: ([a-z_]+): ", str(error))
    return found and found[1]


class Worker:
    def __init__(self, path, lane, extension="./claimq", lease_ms="30000"):
        self.database = path, extension
        self.lane, self.lease_ms = lane, int(lease_ms)
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self.ending, self.over = False, threading.Event()
        self.job = None                # the job at hand

    def end(self, *_):
        self.ending = True
        if self.job:
            self.job.stop.set()

    def heartbeat(self, db):
        """A thread with a connection of its own: renew three times a lease."""
        while not self.over.wait(self.lease_ms / 3000):
            job = self.job
            try:
                if job:
                    db.execute("SELECT claimq_renew(?, ?, ?)",
                               [*job.claim, self.lease_ms]).fetchall()
            except sqlite3.OperationalError as error:
                if error_code(error) == "claim_lost":
                    job.stop.set()

    def work(self, db, job):
        self.job = job
        if self.ending:
            job.stop.set()
        try:
            handle(job)
            verb = "SELECT claimq_complete(?, ?)", [*job.claim]
        except GiveBack:
            verb = "SELECT claimq_release(?, ?)", [*job.claim]
        except Exception as error:
            verb = "SELECT claimq_retry(?, ?, ?)", [*job.claim, repr(error)]
        self.job = None
        try:
            db.execute(*verb).fetchall()
        except sqlite3.OperationalError as error:
            if error_code(error) != "claim_lost":
                raise
            print("too late:", error, file=sys.stderr)

    def run(self):
        db = connect(*self.database)
        db.execute("SELECT claimq_init()").fetchall()
        threading.Thread(target=self.heartbeat, daemon=True,
                         args=[connect(*self.database)]).start()
        while not self.ending:
            rows = db.execute(
                "SELECT payload, attempt_index, claim_id, lease_token"
                "  FROM claimq_lane(?, ?, ?)",
                [self.lane, self.owner, self.lease_ms]).fetchall()
            for row in rows:
                self.work(db, Job(*row))
            if not rows:
                db.execute("SELECT claimq_wait(1000, 'lane', ?)",
                           [self.lane]).fetchall()
        self.over.set()


if __name__ == "__main__":
    worker = Worker(*sys.argv[1:])
    signal.signal(signal.SIGTERM, worker.end)
    signal.signal(signal.SIGINT, worker.end)
    worker.run()
