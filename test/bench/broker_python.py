"""broker_python.py: queues beside claimq that are used from Python.

    python3 broker_python.py SYSTEM prepare WHERE SYNC QUEUE N
    python3 broker_python.py SYSTEM submit WHERE SYNC QUEUE N PAUSE_MS KIND
    python3 broker_python.py SYSTEM work WHERE SYNC QUEUE LOG AGAIN

SYSTEM is a key of SYSTEMS below.  WHERE is the SQLite file, the socket of the
server, or what libpq connects to.  SYNC is normal or full, for a SQLite file;
a server got its setting when it was started.

prepare creates what is missing, puts N jobs into QUEUE in whatever way is
quickest, and prints one line, a JSON object: the version of the library.

submit puts N jobs, each by itself and with the library's own call, PAUSE_MS
apart (each pause is 0.5 to 1.5 times that).

work is a worker that does one job at a time, in the library's own way and with
its own defaults.  It begins when it has read a line from stdin, and works until
it is killed or stdin ends.  For each job it appends a line to the file LOG:
when the job was submitted and when the handler began, in microseconds of the
clock that all processes share, 16 digits each.  With AGAIN 1 the handler
submits a new job, so that the queue stays as deep as it was.

A job is 50 characters: 16 digits, the time at which it was submitted; its KIND;
dashes.  Kind "." is an ordinary job.  Kind "h" is held by the worker that gets
it first: that one writes its process id to the file held beside LOG and sleeps
until it is killed.
"""
import asyncio
import json
import os
import random
import socket
import sqlite3
import sys
import threading
import time
from importlib import metadata

NUMBERS = """WITH RECURSIVE c(i) AS
  (VALUES(1) UNION ALL SELECT i+1 FROM c WHERE i<?) """


def now():
    return time.monotonic_ns() // 1000


def payload(kind="."):
    return "%016d%s%s" % (now(), kind, "-" * 33)


def settings(db, sync):
    db.execute("PRAGMA busy_timeout=30000")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=" + sync)


class Claimq:
    """The Worker of the package."""

    def __init__(self, where, sync, queue):
        import claimq
        self.lib, self.path, self.sync, self.queue = claimq, where, sync, queue
        self.db = claimq.connect(where, timeout=30, check_same_thread=False)
        settings(self.db, sync)

    def version(self):
        return self.lib.__version__

    def fill(self, n):
        self.db.execute(
            "INSERT INTO claimq_job(lane, payload, available_at_ms) " +
            NUMBERS + "SELECT ?, ?, 0 FROM c", (n, self.queue, payload()))

    def put(self, data):
        self.lib.submit(self.db, self.queue, data)

    def work(self, handle):
        self.lib.Worker(self.path, self.queue,
                        lambda job: handle(job.payload),
                        synchronous=self.sync).run()


class ClaimqSql(Claimq):
    """The same by hand: three SELECTs."""

    def put(self, data):
        self.db.execute("SELECT claimq_submit(?, ?)",
                        (self.queue, data)).fetchall()

    def work(self, handle):
        owner = str(os.getpid())
        claim = """SELECT claim_id, lease_token, payload
                   FROM claimq_lane(?, ?, 30000)"""
        while True:
            rows = self.db.execute(claim, (self.queue, owner)).fetchall()
            for claim_id, token, data in rows:
                handle(data)
                self.db.execute("SELECT claimq_complete(?, ?)",
                                (claim_id, token)).fetchall()
            if not rows:
                self.db.execute("SELECT claimq_wait(60000, 'lane', ?)",
                                (self.queue,)).fetchall()


class Huey:
    """Its consumer with one thread; it deletes a job when it hands it out."""

    def __init__(self, where, sync, queue):
        import huey
        import huey.storage

        class Storage(huey.storage.SqliteStorage):
            def _create_connection(self):
                db = super()._create_connection()
                settings(db, sync)
                return db

        self.lib = huey
        self.huey = huey.Huey(queue, storage_class=Storage, filename=where,
                              results=False, timeout=30)
        self.handle = None
        self.task = self.huey.task(name="job")(lambda data: self.handle(data))

    def version(self):
        return self.lib.__version__

    def fill(self, n):
        message = self.huey.serialize_task(self.task.s(payload()))
        self.huey.storage.conn.execute(
            "INSERT INTO task(queue, data, priority) " + NUMBERS +
            "SELECT ?, ?, 0 FROM c", (n, self.huey.storage.name, message))

    def put(self, data):
        self.task(data)

    def work(self, handle):
        self.handle = handle
        self.huey.create_consumer(workers=1, periodic=False).run()


class Litequeue:
    """It has no way of waiting: asked every millisecond.  A file is a queue."""

    def __init__(self, where, sync, queue):
        import litequeue
        self.queue = litequeue.LiteQueue("%s-%s" % (where, queue))
        settings(self.queue.conn, sync)
        self.fenced = hasattr(self.queue, "retry_expired")

    def version(self):
        return metadata.version("litequeue")

    def fill(self, n):
        data = payload()
        with self.queue.transaction():
            for _ in range(n):
                self.queue.put(data)

    def put(self, data):
        self.queue.put(data)

    def work(self, handle):
        while True:
            job = self.queue.pop()
            if job is None:
                time.sleep(0.001)
                continue
            handle(job.data)
            claim = {"claim_id": job.claim_id} if self.fenced else {}
            self.queue.done(job.message_id, **claim)


class Honker:
    """Its claim(), which also waits; WAL and NORMAL are its own."""

    def __init__(self, where, sync, queue):
        import honker
        self.base = honker.open(where)
        self.queue = self.base.queue(queue)

    def version(self):
        return metadata.version("honker")

    def fill(self, n):
        with self.base.transaction() as tx:
            tx.execute(
                "INSERT INTO _honker_live(queue, payload) " +
                NUMBERS.replace("?", str(n)) + "SELECT '%s', '%s' FROM c" % (
                    self.queue.name, json.dumps(payload())))

    def put(self, data):
        self.queue.enqueue(data)

    def work(self, handle):
        async def loop():
            async for job in self.queue.claim(str(os.getpid())):
                handle(job.payload)
                job.ack()
        asyncio.run(loop())


class Redis:
    """By hand: a list, and a list of what each worker has."""

    def __init__(self, where, sync, queue):
        import redis
        self.redis = redis.Redis(unix_socket_path=where)
        self.queue = queue

    def version(self):
        return self.redis.info("server")["redis_version"]

    def fill(self, n):
        data = payload()
        for i in range(0, n, 10000):
            self.redis.lpush(self.queue, *[data] * min(10000, n - i))

    def put(self, data):
        self.redis.lpush(self.queue, data)

    def work(self, handle):
        mine = "%s:%d" % (self.queue, os.getpid())
        while True:
            data = self.redis.blmove(self.queue, mine, 5, "RIGHT", "LEFT")
            if data is not None:
                handle(data.decode())
                self.redis.lrem(mine, 1, data)


class Beanstalkd:
    """By hand: its protocol over a socket.  A job goes back to the queue when
    its worker's connection is closed, or after 60 s."""

    def __init__(self, where, sync, queue):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(where)
        self.file = self.socket.makefile("rb")
        self.call("use %s" % queue)
        self.call("watch %s" % queue)
        self.call("ignore default")

    def call(self, command):
        self.socket.sendall(command.encode() + b"\r\n")
        return self.answer()

    def answer(self):
        words = self.file.readline().split()
        assert words[0] in (b"USING", b"WATCHING", b"INSERTED", b"RESERVED",
                            b"DELETED", b"OK"), words
        return words

    def body(self, size):
        return self.file.read(int(size) + 2)[:-2].decode()

    def version(self):
        stats = self.body(self.call("stats")[1]).split("\n")
        return [line.split(": ")[1].strip('"') for line in stats
                if line.startswith("version")][0]

    def line(self, data):
        return "put 1000 0 60 %d\r\n%s" % (len(data), data)

    def fill(self, n):
        lines = self.line(payload()).encode() + b"\r\n"
        for i in range(0, n, 1000):
            self.socket.sendall(lines * min(1000, n - i))
            for _ in range(min(1000, n - i)):
                self.answer()

    def put(self, data):
        self.call(self.line(data))

    def work(self, handle):
        while True:
            _, job, size = self.call("reserve")
            handle(self.body(size))
            self.call("delete %d" % int(job))


class Postgres:
    """By hand: FOR UPDATE SKIP LOCKED in a transaction that lasts as long as
    the handler, LISTEN and NOTIFY."""

    def __init__(self, where, sync, queue):
        import psycopg
        self.queue = queue
        self.db = psycopg.connect(where, autocommit=True)

    def version(self):
        return self.db.execute("SHOW server_version").fetchone()[0].split()[0]

    def fill(self, n):
        self.db.execute("""CREATE TABLE IF NOT EXISTS job(
            id bigint GENERATED ALWAYS AS IDENTITY, queue text NOT NULL,
            payload text NOT NULL, PRIMARY KEY(queue, id))""")
        with self.db.cursor().copy("COPY job(queue, payload) FROM STDIN") as c:
            row = self.queue, payload()
            for _ in range(n):
                c.write_row(row)
        self.db.execute("ANALYZE job")

    def put(self, data):
        self.db.execute("""WITH job AS (INSERT INTO job(queue, payload)
            VALUES (%s, %s)) SELECT pg_notify(%s, '')""",
                        (self.queue, data, self.queue))

    def work(self, handle):
        self.db.execute("LISTEN " + self.queue)
        while True:
            with self.db.transaction():
                row = self.db.execute("""DELETE FROM job WHERE queue=%s
                    AND id=(SELECT id FROM job WHERE queue=%s ORDER BY id
                            LIMIT 1 FOR UPDATE SKIP LOCKED)
                    RETURNING payload""",
                                      (self.queue, self.queue)).fetchone()
                if row:
                    handle(row[0])
            if not row:
                for _ in self.db.notifies(timeout=5, stop_after=1):
                    pass


SYSTEMS = {"claimq": Claimq, "claimq-sql": ClaimqSql, "huey": Huey,
           "litequeue": Litequeue, "honker": Honker, "redis": Redis,
           "beanstalkd": Beanstalkd, "postgres": Postgres}


def prepare(queue, n):
    queue.fill(int(n))
    print(json.dumps({"version": queue.version()}))


def submit(queue, n, pause_ms, kind):
    for _ in range(int(n)):
        queue.put(payload(kind))
        time.sleep(float(pause_ms) * random.uniform(0.5, 1.5) / 1000)


def work(queue, log, again, own):
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle(data):
        line = b"%s %016d\n" % (data[:16].encode(), now())
        if data[16] == "h":
            hold(os.path.join(os.path.dirname(log), "held"))
        os.write(out, line)
        if again == "1":
            own.put(payload())

    if sys.stdin.readline():
        threading.Thread(target=end_with_stdin, daemon=True).start()
        queue.work(handle)


def end_with_stdin():
    sys.stdin.read()
    os._exit(0)


def hold(held):
    try:
        fd = os.open(held, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    os.write(fd, b"%d\n" % os.getpid())
    time.sleep(3600)


def main(system, verb, where, sync, queue, *rest):
    make = lambda: SYSTEMS[system](where, sync, queue)
    if verb == "work":
        work(make(), *rest, make())
    else:
        {"prepare": prepare, "submit": submit}[verb](make(), *rest)


main(*sys.argv[1:])
