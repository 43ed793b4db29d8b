"""The file as a broker has it.

A message is a job of the lane with the name of its queue.  Its payload is the
message of kombu as JSON: body, content-type, content-encoding, headers,
properties.  The bindings of all processes are in claimq_kombu_binding, a table
of the broker's own: which queues a message for an exchange belongs to.

A transport has one connection for each purpose: to put messages (with SQLite's
own `synchronous`, FULL, because nobody repeats what is lost), to take and settle
them, to wait, and to keep what is held.  A process that was forked opens its
own.
"""
import contextlib
import contextvars
import datetime
import functools
import json
import os
import sqlite3
import threading
import time

import claimq

from .._claim import Claim
from .._loop import Holder, Loop
from .._patience import log

_BINDINGS = """CREATE TABLE IF NOT EXISTS claimq_kombu_binding(
  exchange TEXT NOT NULL, routing_key TEXT NOT NULL, pattern TEXT,
  queue TEXT NOT NULL, expires_at_ms INTEGER,   -- NULL: it stays
  PRIMARY KEY(exchange, routing_key, queue)) STRICT, WITHOUT ROWID"""
_CLAIM = """SELECT * FROM claimq_lane
 WHERE lane=? AND owner=? AND lease_ms=? AND max=1 AND partition=NULL"""
_WAITING = "lane=? AND claim_id IS NULL AND terminal_at_ms IS NULL"
_LEAST_MS = 60000       # a queue that expires is kept for that long at least
_given = contextvars.ContextVar("claimq.celery.using", default=None)
_open = {}              # all connections, so that no fork closes its parent's


class Trouble(sqlite3.OperationalError):
    """The file is locked, full, or not there: kombu connects again."""


@contextlib.contextmanager
def using(db):
    """What is published inside belongs to the transaction of this connection,
    which is to the same file: one of sqlite3 or apsw, or a Session or a
    Connection of SQLAlchemy, or a connection of Django's.  It need not have the
    extension."""
    token = _given.set(plain(db))
    try:
        yield db
    finally:
        _given.reset(token)


def plain(db):
    """Of a connection of Django's, the connection of sqlite3."""
    if hasattr(db, "ensure_connection"):
        db.ensure_connection()
        return db.connection
    return db


def _own(method):
    """Errors of our own connections are those that kombu knows; one at a
    time."""
    @functools.wraps(method)
    def run(self, *arguments):
        if self._pid != os.getpid():    # what is open is our parent's
            self._begin()
        try:
            with self._lock:
                return method(self, *arguments)
        except sqlite3.OperationalError as error:
            if claimq.code(error) or _given.get() is not None:
                raise
            raise Trouble(str(error)) from error
    return run


class Held(Claim):
    """A message that was taken and is not settled."""

    def __init__(self, row):
        super().__init__(row, None)
        self.what = "message %d of %s" % (row["job_id"], row["lane"])


class Store:
    def __init__(self, path, lease_ms, timeout):
        self.path, self._lease_ms, self._timeout = path, lease_ms, timeout
        self._begin()

    def _begin(self):
        self._pid, self._lock, self._dbs = os.getpid(), threading.RLock(), {}
        self._at_end, self._held, self._next_touch = None, {}, 0
        self._has_bindings = False
        self._holder = Holder(self.path, lease_ms=self._lease_ms,
                              timeout=self._timeout, create=True)

    def __del__(self):
        with contextlib.suppress(Exception):
            self.close()

    def close(self):
        """Give back what is held, and close the connections."""
        if self._pid != os.getpid():    # they are our parent's
            return
        with self._lock:
            if self._at_end:
                self._at_end.close()
            for db in self._dbs.values():
                _open.pop(id(db)).close()
            self._begin()

    def open(self):
        """Raises Trouble if the file cannot be had."""
        if _given.get() is None:
            self._db_of("put")

    @_own
    def _db_of(self, purpose):
        if purpose not in self._dbs:
            db = claimq.connect(self.path, timeout=self._timeout,
                                check_same_thread=False)
            if purpose != "put":
                db.execute("PRAGMA synchronous=normal").fetchall()
            self._dbs[purpose] = _open[id(db)] = db
        return self._dbs[purpose]

    def _rows(self, purpose, sql, *arguments):
        """On our own connection, or on that of using()."""
        given = _given.get()
        return claimq._rows(self._db_of(purpose) if given is None else given,
                            sql, arguments)

    # Messages

    @_own
    def put(self, lane, message, priority):
        if _given.get() is not None:
            self._check_given()
        self._rows("put", "INSERT INTO claimq_job(lane, payload, priority,"
                   " available_at_ms) VALUES(?, ?, ?, ?) RETURNING job_id",
                   lane, json.dumps(message), priority,
                   _due((message.get("headers") or {}).get("eta")))

    def _check_given(self):
        name = next(row[2] for row in self._rows("put", "PRAGMA database_list")
                    if row[1] == "main")
        if not (name and os.path.exists(self.path)
                and os.path.samefile(name, self.path)):
            raise ValueError(
                "using(): the messages of this broker are in %s, and the"
                " connection is to %s" % (self.path, name or "no file"))

    @_own
    def take(self, lane, no_ack):
        """A message, or None.  What is no message is rejected, what is too
        old is passed over."""
        db = self._db_of("take")
        while True:
            found = Loop._rows(db, _CLAIM, lane, self._holder.owner,
                               self._lease_ms)
            if not found:
                return None
            held = Held(found[0])
            message = read(held.row["payload"])
            if message is None:
                held._call(db, "reject(?, ?, ?)", "this is no message of"
                           " kombu's: add it with Celery or with kombu")
                continue
            too_old = _is_too_old(held.row, message)
            if no_ack or too_old:
                self._forget(db, held)
            else:
                self._keep(held)
            if too_old:
                continue
            properties = message["properties"]
            properties["delivery_tag"] = held.claim[0]
            properties["claimq"] = held.claim
            properties.setdefault("delivery_info", {})["redelivered"] = (
                held.row["fencing_token"] > 1)
            return message

    def _forget(self, db, held):
        """It is done, and nobody wants to know of it later."""
        with claimq.transaction(db):
            held._call(db, "complete(?, ?)")
            db.execute("DELETE FROM claimq_job WHERE job_id=?"
                       " AND terminal_at_ms IS NOT NULL", [held.row["job_id"]])

    def _keep(self, held):
        self._held[held.claim[0]] = held
        self._holder._held = [*self._holder._held, held]
        if not self._at_end:
            self._at_end = contextlib.ExitStack()
            self._holder._keep_what_is_held(self._at_end, self._db_of("keep"))

    @_own
    def settle(self, tag, verb, *values):
        """complete, reject or release what has this tag, once."""
        held = self._held.get(tag)
        if not held:
            return
        try:
            self._rows("take", "SELECT claimq_" + verb, *held.claim, *values)
        except Exception as error:
            if claimq.code(error) != "claim_lost":
                raise
            log.warning("%s was taken over: to %s it has no effect", held.what,
                        verb.partition("(")[0])
        del self._held[tag]
        self._holder._held = [other for other in self._holder._held
                              if other is not held]

    @_own
    def size(self, lane):
        return self._rows("put", "SELECT count(*) FROM claimq_job WHERE "
                          + _WAITING, lane)[0][0]

    @_own
    def purge(self, lane):
        """What nobody holds; returns how many."""
        db = self._db_of("put")
        with claimq.transaction(db):
            return len(db.execute("DELETE FROM claimq_job WHERE " + _WAITING
                                  + " RETURNING 1", [lane]).fetchall())

    def wait(self, ms, lanes):
        """True as soon as one of them has something to take."""
        try:
            return bool(self._db_of("wait").execute(
                "SELECT claimq_wait(?, 'lanes', ?, 'partition', NULL)",
                [ms, json.dumps(lanes)]).fetchall()[0][0])
        except sqlite3.OperationalError as error:
            raise Trouble(str(error)) from error

    # Bindings

    @_own
    def table(self, exchange):
        """[(routing_key, pattern, queue)]"""
        if not self._has_bindings:
            self._has_bindings = bool(self._rows(
                "put", "SELECT 1 FROM sqlite_schema"
                " WHERE name='claimq_kombu_binding'"))
        return self._has_bindings and [tuple(row) for row in self._rows(
            "put", "SELECT routing_key, pattern, queue FROM"
            " claimq_kombu_binding WHERE exchange=? AND"
            " ifnull(expires_at_ms > ?, 1)", exchange, _now())] or []

    @_own
    def bind(self, exchange, routing_key, pattern, queue, expires_ms):
        """For every process; if that is in a transaction of using(), which may
        be rolled back, it is left to the one that consumes."""
        row = (routing_key, pattern, queue)
        if _given.get() is not None or (
                expires_ms is None and row in self.table(exchange)):
            return
        db = self._db_of("put")
        with claimq.transaction(db):
            db.execute(_BINDINGS)
            db.execute("INSERT OR REPLACE INTO claimq_kombu_binding"
                       " VALUES(?, ?, ?, ?, ?)",
                       [exchange, *row, _until(expires_ms)])
            for lane, in db.execute(
                    "DELETE FROM claimq_kombu_binding WHERE expires_at_ms <= ?"
                    " RETURNING queue", [_now()]).fetchall():
                db.execute("DELETE FROM claimq_job WHERE " + _WAITING, [lane])

    @_own
    def unbind(self, exchange, routing_key, queue):
        if self.table(exchange):
            self._db_of("put").execute(
                "DELETE FROM claimq_kombu_binding WHERE exchange=? AND"
                " routing_key=? AND queue=?", [exchange, routing_key, queue])

    @_own
    def touch(self, expiring):
        """Those queues are used: {queue: ms}."""
        if expiring and time.monotonic() >= self._next_touch:
            self._next_touch = time.monotonic() + _LEAST_MS / 3000
            db = self._db_of("take")
            with claimq.transaction(db):
                for queue, ms in expiring.items():
                    db.execute("UPDATE claimq_kombu_binding"
                               " SET expires_at_ms=? WHERE queue=?",
                               [_until(ms), queue])


def read(payload):
    """A message, or None."""
    try:
        message = json.loads(payload)
        message["properties"].items(), message["body"]
        return message
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _now():
    return time.time_ns() // 1_000_000


def _until(ms):
    return None if ms is None else _now() + max(ms, _LEAST_MS)


def _is_too_old(row, message):
    """kombu's `expiration`, in milliseconds."""
    try:
        return (row["created_at_ms"] + int(message["properties"]["expiration"])
                <= _now())
    except (KeyError, TypeError, ValueError):
        return False


def _due(eta):
    """The time of Celery's header eta in ms, rounded up.  None: at once, which
    is also for a time without a zone: the worker knows which."""
    try:
        when = datetime.datetime.fromisoformat(eta.replace("Z", "+00:00"))
        return None if when.tzinfo is None else -(-int(
            when.timestamp() * 1_000_000) // 1000)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None
