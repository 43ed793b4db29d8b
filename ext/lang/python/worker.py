"""worker.py: a complete claimq worker that needs only the standard library.

    python3 worker.py DATABASE LANE [EXTENSION [LEASE_MS]]

It takes the jobs of a lane one by one, keeps the lease alive while it works,
and completes or retries each job.  SIGTERM or SIGINT ends it: the job at hand
is finished or given back, and no other is taken.  Start as many as you like.
Put your own work in the place of handle().
"""
import os, queue, signal, socket, sqlite3, sys, threading


class GiveBack(Exception):
    """handle() raises it to give the job back without using up an attempt."""


class Job:
    def __init__(self, payload, attempt, claim_id, lease_token):
        self.payload, self.attempt = payload, attempt
        self.claim = (claim_id, lease_token)
        self.stop = threading.Event()  # the worker ends, or has lost the job


def handle(job):
    """The work.  After any exception but GiveBack the job is retried later."""
    verb, _, seconds = str(job.payload).partition(" ")
    if verb == "take" and job.stop.wait(float(seconds)):
        raise GiveBack
    if verb == "flaky" and job.attempt == 0:
        raise RuntimeError("the first attempt fails")
    print("done:", job.payload, flush=True)


def lost(error):
    """Does another worker have the job?"""
    return "claimq: claim_lost: " in str(error)


class Worker:
    def __init__(self, path, lane, extension="./claimq", lease_ms="30000"):
        self.path, self.extension = path, extension
        self.lane, self.lease_ms = lane, int(lease_ms)
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self.job, self.ending = None, False
        self.signals = queue.SimpleQueue()     # put() never waits for a lock

    def connect(self):
        db = sqlite3.connect(self.path, timeout=5, isolation_level=None,
                             check_same_thread=False)
        db.enable_load_extension(True)
        db.load_extension(self.extension)
        return db

    def heartbeat(self, db):
        """A thread with a connection of its own: renew three times a lease."""
        while True:
            try:
                self.signals.get(timeout=self.lease_ms / 3000)
                self.ending = True
            except queue.Empty:
                pass
            job = self.job
            if job and self.ending:
                job.stop.set()
            try:
                if job:
                    db.execute("SELECT claimq_renew(?, ?, ?)",
                               [*job.claim, self.lease_ms]).fetchall()
            except sqlite3.OperationalError as error:
                if lost(error):
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
            if not lost(error):
                raise
            print("too late:", error, file=sys.stderr)

    def run(self):
        db = self.connect()
        db.execute("SELECT claimq_init()").fetchall()
        threading.Thread(target=self.heartbeat, daemon=True,
                         args=[self.connect()]).start()
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


if __name__ == "__main__":
    worker = Worker(*sys.argv[1:])
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: worker.signals.put("end"))
    worker.run()
