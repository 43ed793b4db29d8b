"""claimq: queues of leased, fenced work in ordinary SQLite tables.

    import claimq

    db = claimq.connect("app.db")
    with claimq.transaction(db):                # the order and its job: both
        db.execute("INSERT INTO orders VALUES (?)", [42])
        claimq.submit(db, "mail", {"order": 42})

    claimq.Worker("app.db", "mail", lambda job: print(job.json)).run()

load() puts the extension into a connection that you have; connect() opens one
with the settings that suit claimq.  Everything else is SQL: the manual is
ext/doc/manual.md of the source archive.
"""
import contextlib
import json
import os
import re
import sqlite3
import time

from ._claim import Lost, Pause, Reject, Release, Retry
from ._job import TASK, Job
from ._loops import Batch, Contest, Message, Outbox, Session, Turn
from ._worker import Worker

__all__ = ["Batch", "Contest", "Job", "Lost", "Message", "Outbox", "Pause",
           "Reject", "Release", "Retry", "Session", "Turn", "Worker", "code",
           "connect", "load", "loadable_path", "submit", "transaction"]
__version__ = "@VERSION@"

_NO_EXTENSIONS = """\
the sqlite3 module of this Python was built without loadable extensions, as
those of pyenv and of macOS are.  Use the python3 of your system, of Homebrew or
of conda; or build yours with
  PYTHON_CONFIGURE_OPTS=--enable-loadable-sqlite-extensions pyenv install ...
or install apsw (pip install apsw), which is used then."""
_OLDEST = (3, 39)
_able = (hasattr(sqlite3.Connection, "enable_load_extension")
         and sqlite3.sqlite_version_info >= _OLDEST)


def loadable_path() -> str:
    """The path of the extension, without .so, .dll or .dylib, as
    load_extension() wants it."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "claimq")


def load(conn) -> None:
    """Load claimq into a connection of sqlite3, of apsw, or of a module that
    looks like sqlite3.  Call it before the first statement: a connection of
    Python 3.12 and later that has autocommit=False is always in a transaction,
    which is committed here, because claim tables are made outside of one."""
    allow = (getattr(conn, "enable_load_extension", None)
             or getattr(conn, "enableloadextension", None))
    run = (getattr(conn, "load_extension", None)
           or getattr(conn, "loadextension", None))
    if allow is None or run is None:
        raise RuntimeError(_NO_EXTENSIONS)
    manual = getattr(conn, "autocommit", None) is False
    if manual:
        conn.autocommit = True
    allow(True)
    try:
        run(loadable_path())
    finally:
        allow(False)
        if manual:
            conn.autocommit = False


def connect(path, *, timeout: float = 5.0, init: bool = True,
            **options) -> sqlite3.Connection:
    """Open a database for claimq: the extension loaded, WAL, a busy timeout (in
    seconds), autocommit (transactions are those you begin: transaction()), and
    claimq's tables created if they are missing, unless init is False.  Other
    options are those of sqlite3.connect().

    Where sqlite3 cannot load extensions, or is older than SQLite 3.39, it is a
    connection of apsw, if that is installed."""
    conn = _open(path, timeout=timeout, **options)
    try:
        load(conn)
        if init:
            _use_wal(conn, timeout)
            conn.execute("SELECT claimq_init()").fetchall()
    except BaseException:
        conn.close()
        raise
    return conn


def _open(path, **options):
    """A connection that can load claimq, if there is such a module."""
    if not _able:
        with contextlib.suppress(ImportError):
            from ._apsw import Connection
            return Connection(path, **options)
    return sqlite3.connect(path, isolation_level=None, **options)


def _use_wal(conn, timeout):
    """SQLite does not wait for the lock that a change of the journal mode
    needs, and several processes may open a new database at once."""
    until = time.monotonic() + timeout
    while True:
        try:
            conn.execute("PRAGMA journal_mode=wal").fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


@contextlib.contextmanager
def transaction(conn):
    """BEGIN IMMEDIATE, and COMMIT at the end, or ROLLBACK if the block raises.

    Python's own `with conn:` does not do: it begins a transaction only for
    INSERT, UPDATE and DELETE, and claimq's calls are SELECTs."""
    _gate(conn, 1)
    try:
        conn.execute("BEGIN IMMEDIATE")
        try:
            yield conn
            conn.execute("COMMIT")
        except BaseException:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            raise
    finally:
        _gate(conn, 0)


def _gate(conn, enter):
    """Around a transaction: it waits for those of others until it is woken,
    where SQLite would sleep and look again.  A hint, which may fail."""
    with contextlib.suppress(Exception):
        conn.execute("SELECT claimq__gate(?)", [enter]).fetchall()


def submit(db, lane: str, payload, *, task: "str | None" = None,
           **options) -> "int | None":
    """Submit a job; returns its id.  db is a connection, or a Session or
    Connection of SQLAlchemy.  Text and bytes are stored as they are, and
    anything else as JSON.  The options are those of claimq_submit, where lists
    and dictionaries become JSON and None is not given; `task` names the handler
    that it is for (Worker.task)."""
    if task is not None:
        given = options.get("capabilities") or []
        options["capabilities"] = [
            *(json.loads(given) if isinstance(given, str) else given),
            TASK + task]
    if not isinstance(payload, (str, bytes, bytearray, memoryview)):
        payload = json.dumps(payload)
    pairs = []
    for name, value in options.items():
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            value = json.dumps(value, default=list)
        if value is not None:
            pairs += [name, value]
    return _rows(db, "SELECT claimq_submit(?, ?%s)" % (", ?" * len(pairs)),
                 [lane, payload, *pairs])[0][0]


def _rows(db, sql, arguments):
    """Of a connection, or of a Session or Connection of SQLAlchemy."""
    if hasattr(db, "get_bind"):         # a Session
        db = db.connection()
    if hasattr(db, "exec_driver_sql"):
        return db.exec_driver_sql(sql, tuple(arguments)).fetchall()
    return db.execute(sql, arguments).fetchall()


def code(error) -> "str | None":
    """The code of an error of claimq, such as "claim_lost", whatever a driver
    or an ORM has wrapped around its message; None for all other errors."""
    found = re.search(r"\bclaimq: ([a-z_]+): ", str(error))
    return found.group(1) if found else None
