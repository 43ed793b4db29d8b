"""The traps of ext/lang/python/README.md, and the way around each of them.

    python3 traps.py NAME DATABASE

Prints what happens, a line for the natural way and a line for the recipe.
"""
import asyncio
import contextlib
import os
import re
import sqlite3
import sys
import threading

import claimq


def recipe(heading, path, n=0, **names):
    """Run a block of README.md, the n-th below a heading, with `path` for
    "app.db"; returns the names that it has defined."""
    with open(os.environ["CLAIMQ_README"], encoding="utf-8") as file:
        section = re.split(r"(?m)^#+ (?=%s$)" % re.escape(heading),
                           file.read())[1]
    block = re.findall(r"(?ms)^```python\n(.*?)^```$", section)[n]
    exec(block.replace('"app.db"', repr(path))
         .replace("///app.db", "///" + path), names)
    return names


def counts(db):
    """Orders and jobs, as others see them."""
    return db.execute("SELECT (SELECT count(*) FROM orders),"
                      " (SELECT count(*) FROM claimq_job)").fetchone()


def fresh(path):
    db = claimq.connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS orders(id)")
    db.execute("DELETE FROM orders")
    db.execute("DELETE FROM claimq_job")
    return db


class Beside:
    """A connection, and another one that commits before each of its verbs."""

    def __init__(self, path):
        self.db, self.other = claimq.connect(path), claimq.connect(path)

    def execute(self, sql, *arguments):
        if "claimq_complete" in sql:
            self.other.execute("INSERT INTO orders VALUES (1)")
        return self.db.execute(sql, *arguments)


def page(path):
    """The blocks of the README that are not the first programs, as they
    stand there."""
    for heading, n in (("A worker", 2),
                       ("Retries, limits, schedules, dead letters", 0),
                       ("Durable steps", 0), ("Tests", 0),
                       ("Outboxes, sessions, contests", 0)):
        recipe(heading, path, n)


def rows(path):
    """Completing inside the loop over the rows of the claim."""
    check = fresh(path)
    for _ in range(6):
        check.execute("SELECT claimq_submit('mail', 'x')").fetchall()
    db = Beside(path)
    try:
        for row in db.execute("SELECT claim_id, lease_token"
                              " FROM claimq_lane('mail', 'w', 30000, 3)"):
            db.execute("SELECT claimq_complete(?, ?)", row).fetchall()
        print("loop: fine")
    except sqlite3.OperationalError as error:
        print("loop:", error)
    recipe("Traps", path, 0, db=Beside(path))
    print("fetchall:", *check.execute(
        "SELECT count(*) FROM claimq_job WHERE state='completed'").fetchone())


def isolation(path):
    """`with db:` on a connection as sqlite3.connect() gives it."""
    check = fresh(path)
    db = sqlite3.connect(path)
    claimq.load(db)
    for level in "", "IMMEDIATE":
        db.isolation_level = level
        try:
            with db:
                db.execute("SELECT claimq_submit('l', 'x')").fetchall()
                db.execute("INSERT INTO orders VALUES (1)")
                raise KeyError
        except KeyError:
            print("with db:", *counts(check))
    try:
        with claimq.transaction(db):
            db.execute("SELECT claimq_submit('l', 'x')").fetchall()
            db.execute("INSERT INTO orders VALUES (1)")
            raise KeyError
    except KeyError:
        print("transaction:", *counts(check))


def autocommit(path):
    """autocommit=False, new in Python 3.12."""
    new = sqlite3.connect(path, autocommit=False)
    try:
        new.execute("PRAGMA journal_mode=wal")
    except sqlite3.OperationalError as error:
        print("wal:", error)
    new.close()
    check = fresh(path)
    check.execute("PRAGMA busy_timeout=0").fetchall()
    for _ in range(2):
        check.execute("SELECT claimq_submit('mail', 'x')").fetchall()

    # A claim that is not committed locks out everybody else.
    db = sqlite3.connect(path, autocommit=False)
    claimq.load(db)
    print("autocommit:", db.autocommit)
    db.execute("SELECT * FROM claimq_lane('mail', 'me')").fetchall()
    try:
        check.execute("INSERT INTO orders VALUES (1)")
    except sqlite3.OperationalError as error:
        print("no commit:", error)
    db.rollback()

    names = recipe("Traps", path, 1)
    check.execute("INSERT INTO orders VALUES (1)")
    print("commit:", len(names["rows"]), *counts(check))
    db = names["db"]
    db.execute("SELECT claimq_submit('mail', 'x')").fetchall()
    db.execute("INSERT INTO orders VALUES (1)")
    db.rollback()
    print("rollback:", *counts(check))


def apsw(path):
    """A SQLite of its own: no connection of sqlite3 may have claimq, too."""
    import apsw as module
    db = module.Connection(path)
    claimq.load(db)
    db.execute("SELECT claimq_init()").fetchall()
    db.execute("SELECT claimq_submit('l', 'x')").fetchall()
    rows = db.execute("SELECT claim_id, lease_token"
                      " FROM claimq_lane('l', 'w')").fetchall()
    print("complete:", *db.execute("SELECT claimq_complete(?, ?)",
                                   rows[0]).fetchone())
    try:
        db.execute("SELECT claimq_complete('qjc:1:9', '')").fetchall()
    except module.Error as error:
        print("code:", claimq.code(error))


def sqlalchemy(path):
    from sqlalchemy import create_engine, event, text
    check = fresh(path)

    def attempt(engine):
        try:
            with engine.begin() as db:
                db.execute(text("SELECT claimq_submit('l', 'x')")).fetchall()
                db.execute(text("INSERT INTO orders VALUES (1)"))
                raise KeyError
        except KeyError:
            pass

    natural = create_engine("sqlite:///" + path)
    event.listen(natural, "connect", lambda db, _: claimq.load(db))
    attempt(natural)
    print("begin:", *counts(check))

    check = fresh(path)
    engine = recipe("SQLAlchemy", path)["engine"]
    attempt(engine)
    print("recipe:", *counts(check))
    for _ in range(3):
        check.execute("SELECT claimq_submit('l', 'x')").fetchall()
    with engine.begin() as db:
        db.execute(text("SELECT * FROM claimq_lane('l', 'w', 30000, 3)")).first()
    print("first: 1 of", *check.execute(
        "SELECT count(*) FROM claimq_job WHERE state='active'").fetchone())
    try:
        with engine.begin() as db:
            db.execute(text("SELECT claimq_complete('qjc:1:9', '')"))
    except Exception as error:
        print("code:", claimq.code(error))

    # A handler whose writes are those of the ORM.
    from sqlalchemy import Column, Integer, String
    from sqlalchemy.orm import declarative_base

    class Sent(declarative_base()):
        __tablename__ = "sent"
        id = Column(Integer, primary_key=True)
        mail = Column(String, unique=True)

    Sent.metadata.create_all(engine)
    check.execute("SELECT claimq_revoke_owner('w')").fetchall()
    check = fresh(path)
    handle = recipe("SQLAlchemy", path, 1, engine=engine, Sent=Sent,
                    claimq=claimq)["handle"]
    for mail in "a", "a":               # the second violates UNIQUE
        claimq.submit(check, "mail", mail, max_attempts=1)
    claimq.Worker(path, "mail", handle).drain()
    print("orm:", *check.execute(
        "SELECT (SELECT count(*) FROM sent), group_concat(lane || ' ' || state,"
        " ', ') FROM (SELECT * FROM claimq_job ORDER BY job_id)").fetchone())
    steps = []

    def step(job):
        with engine.begin() as db:
            steps.append(job.step("one", lambda: "stored", db))
            claimq.submit(db, "log", "x")

    claimq.submit(check, "step", "x")
    claimq.Worker(path, "step", step).drain()
    print("step:", *steps, *check.execute(
        "SELECT count(*) FROM claimq_steps").fetchone())


def models(path):
    """claimq.sqlalchemy: jobs are added without the extension, and read."""
    from sqlalchemy import create_engine, inspect, select
    from sqlalchemy.orm import Session
    from claimq.sqlalchemy import Attempt, Job, Letter
    check = fresh(path)
    check.execute("DELETE FROM claimq_letter")
    engine = create_engine("sqlite:///" + path)
    with Session(engine) as session:
        recipe("SQLAlchemy", path, 2, session=session)
        session.rollback()
        recipe("SQLAlchemy", path, 2, session=session)
        job = Job(lane="mail", payload=b"\x00", max_attempts=1, priority=5)
        session.add_all([job, Job(lane="later", available_at_ms=2**52)])
        session.commit()
        print("added:", *counts(check), job, job.state, job.priority,
              job.capabilities, job.created_at_ms > 0)
    claimq.Worker(path, "mail", lambda job: int(job.payload)).drain()
    with Session(engine) as session:
        jobs = session.scalars(select(Job).order_by(Job.job_id)).all()
        print("read:", *(job.state for job in jobs),
              *(attempt.outcome for job in jobs for attempt in job.history),
              *session.scalars(select(Letter.scope)),
              len(session.scalars(select(Attempt)).all()))
        jobs[-1].payload = "changed"
        session.commit()
        jobs[-1].priority = 7
        try:
            session.commit()
        except Exception as error:
            print("changed:", error.orig)
    tables = inspect(engine)
    print("columns:", *(set(model.__table__.columns.keys()) - {
        column["name"] for column in tables.get_columns(model.__table__.name)}
        or "all" for model in (Job, Attempt, Letter)), "wrong:",
        *check.execute("SELECT count(*) FROM claimq_check").fetchone())


def alembic(path):
    """Autogenerate and upgrade: without include_name, and with it."""
    import shutil
    import alembic.command
    import alembic.config
    check = fresh(path)
    claimq.submit(check, "mail", "x")
    check.execute("DROP TABLE orders")
    there = os.path.join(os.path.dirname(path), "migrations")
    for include in False, True:
        shutil.rmtree(there, ignore_errors=True)
        config = alembic.config.Config(there + ".ini", stdout=sys.stderr)
        with contextlib.redirect_stdout(sys.stderr):
            alembic.command.init(config, there)
        with open(os.environ["CLAIMQ_README"], encoding="utf-8") as file:
            block = re.search(r"(?ms)^```python\n(from claimq.alembic.*?)^```$",
                              file.read())[1]
        if not include:
            block = block.replace("include_name=include_name", "")
        with open(os.path.join(there, "env.py"), "w") as file:
            file.write("""
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine
target_metadata = MetaData()
Table("orders", target_metadata, Column("id", Integer, primary_key=True))
with create_engine("sqlite:///%s").connect() as connection:
    %s
    with context.begin_transaction():
        context.run_migrations()
""" % (path, block.strip().replace("\n", "\n    ")))
        config.set_main_option("script_location", there)
        with contextlib.redirect_stdout(sys.stderr):
            alembic.command.revision(config, "orders", autogenerate=True)
        versions = os.path.join(there, "versions")
        name, = [name for name in os.listdir(versions) if name.endswith(".py")]
        with open(os.path.join(versions, name)) as file:
            text = file.read().partition("def downgrade")[0]
        print("drops claimq_job:", "drop_table('claimq_job')" in text,
              "creates orders:", "create_table('orders'" in text)
    wrong = "SELECT count(*) FROM claimq_check"
    with contextlib.redirect_stdout(sys.stderr):
        alembic.command.upgrade(config, "head")
        alembic.command.check(config)       # raises if something is left to do
    print("after:", *counts(check), "wrong:", *check.execute(wrong).fetchone())
    alembic.command.downgrade(config, "base")
    print("down:", *check.execute(
        "SELECT (SELECT count(*) FROM sqlite_schema WHERE name='orders'),"
        " (SELECT count(*) FROM claimq_job)").fetchone())
    alembic.command.upgrade(config, "head")
    copy = path + ".copy"
    if os.path.exists(copy):
        os.remove(copy)
    with contextlib.closing(sqlite3.connect(copy)) as plain:
        plain.executescript("\n".join(
            sqlite3.connect(path).iterdump()))
    check = claimq.connect(copy)
    claimq.Worker(copy, "mail", lambda job: None).drain()
    print("copy:", *counts(check), *check.execute(
        "SELECT state FROM claimq_job").fetchone(), "wrong:",
        *check.execute(wrong).fetchone())


def django(path):
    from django.conf import settings
    fresh(path)
    databases = recipe("Django", path)["DATABASES"]
    databases["plain"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
    settings.configure(DATABASES=databases, INSTALLED_APPS=["claimq.django"])
    import django as module
    from django.db import connection, connections, models, transaction
    module.setup()

    # A transaction that reads first, and then submits.
    writer = claimq.connect(path, timeout=0)
    for name in "plain", "default":
        try:
            with transaction.atomic(name), connections[name].cursor() as cursor:
                cursor.execute("SELECT count(*) FROM orders").fetchall()
                try:
                    writer.execute("DELETE FROM orders")
                except sqlite3.OperationalError:
                    print(name, "keeps others from writing")
                cursor.execute("SELECT claimq_submit('other', 'x')").fetchall()
                raise KeyError
        except Exception as error:
            print(name, type(error).__name__)

    def request(keep):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT claimq_submit('l', 'x')")
                cursor.fetchall()
                cursor.execute("INSERT INTO orders VALUES (1)")
                if not keep:
                    raise KeyError
        except KeyError:
            pass
        finally:
            connection.close()

    def requests():
        for i in range(25):
            request(i % 5 > 0)

    threads = [threading.Thread(target=requests) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("atomic:", *counts(claimq.connect(path)))

    # raw().columns before the rows are asked for.
    class Job(models.Model):
        claim_id = models.TextField(primary_key=True)

        class Meta:
            app_label = "app"

    check = claimq.connect(path)
    for request in None, "r1":
        lane = "columns %s" % request
        for _ in range(2):
            check.execute("SELECT claimq_submit(?, 'x')", [lane]).fetchall()
        claims = Job.objects.raw(
            "SELECT claim_id FROM claimq_lane"
            " WHERE lane=%s AND owner='w' AND request IS %s", [lane, request])
        claims.columns
        print("columns:", len(list(claims)), "of", *check.execute(
            "SELECT count(*) FROM claimq_job WHERE lane=?"
            " AND state='active'", [lane]).fetchone())


def aiosqlite(path):
    import aiosqlite as module

    async def unread():
        """A cursor that is not read to its end."""
        async with module.connect(path, isolation_level=None) as db:
            await db.enable_load_extension(True)
            await db.load_extension(claimq.loadable_path())
            cursor = await db.execute("PRAGMA journal_mode=wal")
            try:
                await db.execute_fetchall("SELECT claimq_init()")
            except sqlite3.OperationalError as error:
                print("unread:", claimq.code(error))
            await cursor.close()

    async def main():
        await unread()
        check = fresh(path)
        db = await recipe("aiosqlite", path)["connect"](path)
        try:
            try:
                await db.execute("BEGIN IMMEDIATE")
                await db.execute_fetchall("SELECT claimq_submit('l', 'x')")
                await db.execute("INSERT INTO orders VALUES (1)")
                raise KeyError
            except KeyError:
                await db.rollback()
            print("rollback:", *counts(check))
            await db.execute_fetchall("SELECT claimq_submit('l', 'x')")
            rows = await db.execute_fetchall(
                "SELECT claim_id, lease_token FROM claimq_lane('l', 'w')")
            done = await db.execute_fetchall("SELECT claimq_complete(?, ?)",
                                             rows[0])
            print("complete:", *done[0])

            # A task that is cancelled while its claim waits for the lock.
            await db.execute_fetchall("SELECT claimq_submit('l', 'y')")
            claim = recipe("aiosqlite", path, 1)["claim"], ["l", "w", "r1"]
            check.execute("BEGIN IMMEDIATE")
            task = asyncio.ensure_future(db.execute_fetchall(*claim))
            await asyncio.sleep(0.1)
            task.cancel()
            check.execute("COMMIT")
            rows = await db.execute_fetchall(*claim)
            held = check.execute("SELECT count(*) FROM claimq_job"
                                 " WHERE state='active'").fetchone()
            print("request:", len(rows), "of", *held)
        finally:
            await db.close()

    asyncio.run(main())


def values(path):
    """A handler returns, or raises, what SQLite has no value for."""
    db = fresh(path)
    for payload in "object", "large", "fail", "last":
        db.execute("SELECT claimq_submit('l', ?)", [payload]).fetchall()

    def handle(job):
        if job.payload == "object":
            return {"n": 1}
        if job.payload == "large":
            return 2**70
        if job.payload == "fail":
            raise ValueError("\udcff")
        worker.stop()

    worker = claimq.Worker(path, "l", handle)
    print("begun:", worker.run())
    for row in db.execute("SELECT payload, state, coalesce(result, last_error)"
                          " FROM claimq_job"):
        print(*row[:2], str(row[2]).partition("\n")[0])


def ends(path):
    """A worker in a thread is stopped; a handler that exits has failed."""
    db = fresh(path)
    for _ in range(3):
        db.execute("SELECT claimq_submit('l', 'x')").fetchall()
    begun = threading.Event()

    def handle(job):
        begun.set()
        job.stopping.wait()

    worker = claimq.Worker(path, "l", handle)
    thread = threading.Thread(target=worker.run)
    thread.start()
    begun.wait()
    worker.stop()
    thread.join()

    def leave(job):
        leaving.stop()
        sys.exit("no more")

    leaving = claimq.Worker(path, "l", leave, batch=2)
    print("begun:", leaving.run())
    for row in db.execute("SELECT state, attempt_index, error_class"
                          " FROM claimq_job"):
        print(*row)


def cannot_load(path):
    """A Python whose sqlite3 loads no extensions."""
    try:
        claimq.connect(path)
        print("loaded")
    except RuntimeError as error:
        print(" ".join(str(error).split())[:65])


globals()[sys.argv[1]](sys.argv[2])
