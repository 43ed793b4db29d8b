# peer_python.py: claimq and its peers, used from Python.
#
#     PYTHONPATH=build/peers/py python3 peer_python.py QUEUE probe DIR SO
#     PYTHONPATH=build/peers/py python3 peer_python.py QUEUE run DIR SO \
#         DEPTH N SECONDS
#     PYTHONPATH=build/peers/py python3 peer_python.py QUEUE work DIR SO
#     PYTHONPATH=build/peers/py python3 peer_python.py QUEUE put DIR SO
#
# QUEUE is a key of QUEUES below.  The first two forms print one line, a flat
# JSON object; bench/peers.tcl joins the two.  DIR is where the file will be, SO
# is the extension.
#
# run fills a queue with DEPTH ready jobs of 50 bytes and then takes and
# completes one job after the other, each in a transaction of its own, N times
# or until SECONDS are over.  Time is taken in blocks, and after each block as
# many jobs are added as were taken, off the clock, so that the depth stays.
# The figure is the median block, in microseconds per job; beside it stands
# the processor time, which shows whether the machine was busy with something
# else.  At the end the rows are counted: every job was delivered once, and is
# gone or done.
#
# probe asks what the queue does for a worker that died, by experiment:
#   lease    the job comes back by itself, after its time
#   refuses  the first worker completes after all, when another has the job:
#            it is refused, and the job stays with the other
#   fence    the same, when the other has the same name (a restarted worker)
# and says whether the library has a way of waiting (waits).
#
# work is a worker, until it is killed.  It waits for jobs in the library's own
# way, with the library's own defaults, and prints a line for each job: its
# payload, and the time at which it has it.  put puts the lines that it reads as
# jobs, and prints the time after each commit.  Both are microseconds of the
# monotonic clock, which all processes of a machine share.
#
# All use WAL, synchronous NORMAL and a busy timeout of 5 s.  What a library
# sets besides, its page cache say, is left as it is.

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import time


def payload(i):
    return "job %046d" % i


# Rows first..first+n-1, for an INSERT ... SELECT.
NUMBERS = """WITH RECURSIVE c(i) AS
  (VALUES(:first) UNION ALL SELECT i+1 FROM c WHERE i<:first+:n-1) """


def settings(db):
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA busy_timeout=5000")


class Queue:
    """What run and probe need.  claim() returns (key, payload) or None;
    count() returns the rows that are ready, held and done."""

    attempts = False
    waits = True           # there is work(); put() is its other side
    keeps = False          # completed jobs stay in the table
    ttl = 300              # seconds; probe asks for a short one
    wait = 0.2             # seconds after which the short one is over

    def count(self):
        return [x or 0 for x in self.conn.execute(self.COUNT).fetchone()]

    def big_cache(self):
        """For the first fill only: that connection is closed after it."""
        self.conn.execute("PRAGMA cache_size=-200000")

    def sqlite(self):
        return sqlite3.sqlite_version

    def give_back(self, key):
        """What an operator may do for a dead worker, if there is a way."""


class Claimq(Queue):
    attempts = True
    kind = "session"
    PUT = "SELECT claimq_enqueue('q', ?)"
    note = ("claims one batch of a session under a lease; complete checks "
            "claim and token and deletes the row")
    fill_how = "INSERT INTO claimq_batch"
    COUNT = """SELECT sum(claim_id IS NULL), sum(claim_id IS NOT NULL), 0
        FROM claimq_batch"""

    def __init__(self, path, so):
        self.conn = sqlite3.connect(path, isolation_level=None)
        self.conn.enable_load_extension(True)
        self.conn.load_extension(so)
        settings(self.conn)
        self.conn.execute("SELECT claimq_init('sessions', 1)")

    def version(self):
        return self.conn.execute("SELECT claimq_version()").fetchone()[0]

    def fill(self, first, n):
        self.conn.execute(
            "INSERT INTO claimq_batch(session, payload) " + NUMBERS +
            "SELECT 'q', printf('job %046d', i) FROM c",
            {"first": first, "n": n})

    def claim(self, who):
        rows = self.conn.execute(
            "SELECT claim_id, lease_token, payload FROM claimq('q', ?, ?)",
            (who, int(self.ttl * 1000))).fetchall()
        return (rows[0][:2], rows[0][2]) if rows else None

    def complete(self, key):
        self.conn.execute("SELECT claimq_complete(?, ?)", key).fetchall()

    def put(self, data):
        self.conn.execute(self.PUT, [data]).fetchall()

    def work(self, got):
        while True:
            claimed = self.claim("w")
            if claimed:
                got(claimed[1])
                self.complete(claimed[0])
            else:
                self.conn.execute("SELECT claimq_wait(60000, ?, 'q')",
                                  [self.kind]).fetchall()

    def close(self):
        self.conn.close()


class ClaimqLane(Claimq):
    kind = "lane"
    PUT = "SELECT claimq_submit('q', ?)"
    keeps = True
    note = ("claims one job of a lane under a lease; complete checks claim "
            "and token, keeps the job, its attempt and one event")
    fill_how = "INSERT INTO claimq_job"
    COUNT = """SELECT sum(state='ready'), sum(state='active'),
        sum(state='completed') FROM claimq_job"""

    def fill(self, first, n):
        self.conn.execute(
            "INSERT INTO claimq_job(lane, payload, available_at_ms) " +
            NUMBERS + "SELECT 'q', printf('job %046d', i), 0 FROM c",
            {"first": first, "n": n})

    def claim(self, who):
        rows = self.conn.execute(
            "SELECT claim_id, lease_token, payload FROM claimq_lane('q',?,?)",
            (who, int(self.ttl * 1000))).fetchall()
        return (rows[0][:2], rows[0][2]) if rows else None


class Litequeue(Queue):
    """From 0.11 on a delivery has a claim_id, which done() and retry() want to
    see; versions before that go by the message alone."""
    keeps = True
    waits = False
    fill_how = "its put() in one transaction"
    COUNT = "SELECT sum(status=0), sum(status=1), sum(status=2) FROM Queue"

    def __init__(self, path, so):
        import litequeue
        self.queue = litequeue.LiteQueue(path)
        self.conn = self.queue.conn
        settings(self.conn)
        self.fenced = self.attempts = hasattr(self.queue, "retry_expired")
        self.note = (
            "pop locks the row and counts it, done marks it done if the count "
            "is still the same; locked rows come back when somebody calls "
            "retry_expired" if self.fenced else
            "pop marks the row locked, done marks it done by id, whoever asks; "
            "locked rows are listed and retried by hand")

    def version(self):
        from importlib.metadata import version
        return version("litequeue")

    def fill(self, first, n):
        with self.queue.transaction():
            for i in range(first, first + n):
                self.queue.put(payload(i))

    def claim(self, who):
        m = self.queue.pop()
        if m is None:
            return None
        claim = {"claim_id": m.claim_id} if self.fenced else {}
        return ((m.message_id, claim), m.data)

    def complete(self, key):
        self.queue.done(key[0], **key[1])

    def give_back(self, key):
        self.queue.retry(key[0], **key[1])

    def close(self):
        self.queue.close()


class Huey(Queue):
    note = ("dequeue deletes the row: nothing to complete, and the job of a "
            "dead worker is lost (retries are counted by the consumer)")
    fill_how = "INSERT INTO task"
    COUNT = "SELECT count(*), 0, 0 FROM task"

    def __init__(self, path, so):
        import huey
        from huey.storage import SqliteStorage
        self.lib, self.path, self.job = huey, path, None
        self.store = SqliteStorage("q", filename=path)
        self.conn = self.store.conn
        settings(self.conn)

    def version(self):
        return self.lib.__version__

    def fill(self, first, n):
        self.conn.execute("BEGIN")
        self.conn.executemany(
            "INSERT INTO task(queue, data, priority) VALUES('q', ?, 0)",
            ((payload(i).encode(),) for i in range(first, first + n)))
        self.conn.execute("COMMIT")

    def claim(self, who):
        data = self.store.dequeue()
        return (None, bytes(data).decode()) if data is not None else None

    def complete(self, key):
        pass

    def task(self, path, got):
        """The same task in both processes; work() runs it."""
        queue = self.lib.SqliteHuey("q", filename=path)
        settings(queue.storage.conn)
        return queue, queue.task(name="job")(got)

    def put(self, data):
        if not self.job:
            self.job = self.task(self.path, lambda data: None)[1]
        self.job(data)

    def work(self, got):
        self.task(self.path, got)[0].create_consumer().run()

    def close(self):
        self.store.close()


class Honker(Queue):
    attempts = True
    wait = 2.2             # its leases count whole seconds
    note = ("claim_one leases the row in the worker's name; ack deletes it if "
            "name and lease time still hold")
    fill_how = "INSERT INTO its _honker_live"
    COUNT = """SELECT sum(state='pending') AS a, sum(state='processing') AS b,
        0 AS c FROM _honker_live"""

    def __init__(self, path, so):
        import honker
        self.base = honker.open(path)
        self.queue = self.base.queue("q", visibility_timeout_s=self.ttl)

    def version(self):
        from importlib.metadata import version
        return version("honker")

    def sqlite(self):
        return self.base.query("SELECT sqlite_version() AS v")[0]["v"]

    def big_cache(self):
        pass               # it has 32 MB

    def count(self):
        row = self.base.query(self.COUNT)[0]
        return [row["a"] or 0, row["b"] or 0, row["c"]]

    def fill(self, first, n):
        sql = NUMBERS.replace(":first", str(first)).replace(":n", str(n))
        with self.base.transaction() as tx:
            tx.execute("INSERT INTO _honker_live(queue, payload) " + sql +
                       "SELECT 'q', json_quote(printf('job %046d', i)) FROM c")

    def claim(self, who):
        job = self.queue.claim_one(who)
        return (job, job.payload) if job else None

    def complete(self, key):
        key.ack()

    def put(self, data):
        self.queue.enqueue(data)

    def work(self, got):
        async def loop():
            async for job in self.queue.claim("w"):
                got(job.payload)
                job.ack()
        asyncio.run(loop())

    def close(self):
        self.base.close()


QUEUES = {"claimq": Claimq, "claimq-lane": ClaimqLane,
          "litequeue": Litequeue, "huey": Huey, "honker": Honker}


# The figure.

def take(queue, k, seen):
    """Take and complete k jobs; returns the seconds it took, by the clock
    and by the processor."""
    cpu = time.process_time()
    start = time.perf_counter()
    for _ in range(k):
        key, data = queue.claim("w")
        queue.complete(key)
        seen.append(data)
    return time.perf_counter() - start, time.process_time() - cpu


def blocks(queue, depth, n, seconds, seen):
    """The times of one job, in microseconds, one for each block: by the
    clock, and by the processor."""
    warm = [take(queue, 1, seen)[0] for _ in range(3)]
    size = max(1, min(100, int(0.02 / min(warm))))
    queue.fill(depth + 1, 3)
    times, cpus, spent = [], [], 0.0
    while len(times) < 3 or (len(seen) < n and spent < seconds):
        queue.fill(depth + len(seen) + 1, size)
        t, cpu = take(queue, size, seen)
        spent += t
        times.append(1e6 * t / size)
        cpus.append(1e6 * cpu / size)
    return sorted(times), sorted(cpus)


def check(queue, depth, seen):
    """Raises unless each job was done once, and is gone or done."""
    ready, held, done = queue.count()
    want = [depth, 0, len(seen) if queue.keeps else 0]
    if len(set(seen)) != len(seen):
        raise SystemExit("a job was delivered twice")
    if [ready, held, done] != want:
        raise SystemExit("rows ready, held, done: %s, not %s"
                         % ([ready, held, done], want))


def run(make, path, so, depth, n, seconds):
    queue = make(path, so)
    queue.big_cache()
    queue.fill(1, depth)
    queue.close()              # the last one to close checkpoints the WAL
    queue = make(path, so)
    seen = []
    times, cpus = blocks(queue, depth, n, seconds, seen)
    check(queue, depth, seen)
    queue.close()

    def at(q, sample):
        return round(sample[int(q * (len(sample) - 1))], 1)

    return {"depth": depth, "us": at(0.5, times), "lo": at(0.25, times),
            "hi": at(0.75, times), "cpu": at(0.5, cpus), "n": len(seen)}


# The experiment.

def displaced(queue, old, new):
    """Is completion by old refused, while new has the job?"""
    before = queue.count()[1]
    try:
        queue.complete(old)
    except sqlite3.Error:
        pass                   # claimq raises; what counts is the row
    held = queue.count()[1] == before
    if held:
        queue.complete(new)
    return held


def probe(make, path, so):
    make.ttl = 1 if make is Honker else 0.05
    queue = make(path, so)
    queue.fill(1, 2)
    old = {data: key for key, data in [queue.claim("a"), queue.claim("a")]}
    time.sleep(make.wait)
    again = [queue.claim("b"), queue.claim("a")]
    lease = None not in again
    if not lease:
        for key in old.values():
            queue.give_back(key)
        again = [queue.claim("b"), queue.claim("a")]
    answer = {"version": queue.version(), "sqlite": queue.sqlite(),
              "lease": lease, "refuses": False, "fence": False,
              "attempts": queue.attempts, "waits": queue.waits,
              "fill": queue.fill_how, "note": queue.note}
    if None not in again:
        (b, b_data), (a, a_data) = again
        answer["refuses"] = displaced(queue, old[b_data], b)
        answer["fence"] = displaced(queue, old[a_data], a)
    queue.close()
    return answer


# The two sides of waiting.

def say(*words):
    print(*words, time.monotonic_ns() // 1000, flush=True)


def put(queue):
    for line in sys.stdin:
        queue.put(line.strip())
        say()


def main(name, verb, where, so, *numbers):
    path = os.path.join(where, "queue.db")
    os.makedirs(where, exist_ok=verb in ("work", "put"))
    if verb == "work":
        QUEUES[name](path, so).work(say)
    if verb == "put":
        put(QUEUES[name](path, so))
    if verb in ("work", "put"):
        return
    try:
        if verb == "probe":
            answer = probe(QUEUES[name], path, so)
        else:
            depth, n, seconds = numbers
            answer = run(QUEUES[name], path, so, int(depth), int(n),
                         float(seconds))
    finally:
        shutil.rmtree(where)
    print(json.dumps(answer))


main(*sys.argv[1:])
