"""shard_worker.py: one worker for several files, each with queues of its own.

    python3 shard_worker.py EXTENSION LANE FILE FILE ...

SQLite has one writer for each file, so several files do more than one.  Work
that belongs together goes to the same file (see shard()); a worker has one
connection to each, stays with a file while there is work in it, and then goes
to the next.  Workers begin at different files.  Put your own work in the place
of handle().  SIGTERM or SIGINT ends it.
"""
import hashlib, os, signal, socket, sqlite3, sys, threading


def handle(file, payload):
    """The work.  An exception has the job retried later."""
    print("done:", file, payload, flush=True)


def shard(key, files):
    """The file of a key: the same one in every process, and every time."""
    return files[int(hashlib.sha256(key.encode()).hexdigest(), 16) % len(files)]


def connect(file, extension):
    db = sqlite3.connect(file, timeout=30, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def one_job(db, file, lane, owner):
    """Do a job of a file, if there is one; returns whether there was."""
    for payload, *claim in db.execute(
            "SELECT payload, claim_id, lease_token"
            " FROM claimq_lane(?, ?, 60000)", (lane, owner)).fetchall():
        try:
            handle(file, payload)
            db.execute("SELECT claimq_complete(?, ?)", claim).fetchall()
        except Exception as error:
            db.execute("SELECT claimq_retry(?, ?, ?)",
                       (*claim, repr(error))).fetchall()
        return True
    return False


def run(files, extension, lane, ending):
    owner = f"{socket.gethostname()}:{os.getpid()}"
    all_of_them = [(connect(file, extension), file) for file in files]
    at, empty = os.getpid(), 0
    while not ending.is_set():
        db, file = all_of_them[at % len(files)]
        if one_job(db, file, lane, owner):
            empty = 0
            continue                            # stay with it
        at, empty = at + 1, empty + 1
        if empty == len(files):
            # No file has work: wait at one, and look at all every 0.1 s.
            empty = 0
            db.execute("SELECT claimq_wait(100, 'lane', ?)", [lane]).fetchall()


if __name__ == "__main__":
    ending = threading.Event()
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: ending.set())
    run(sys.argv[3:], sys.argv[1], sys.argv[2], ending)
