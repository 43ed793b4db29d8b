"""A connection of apsw, with what this package uses of sqlite3's connections.

It is for a Python whose own sqlite3 cannot load extensions, or has a SQLite
that is too old: connect(), Worker and the command then work over apsw, if that
is installed.  Errors are sqlite3's.  What is not here is as apsw has it.
"""
import contextlib
import os
import sqlite3

import apsw

_KINDS = ((apsw.ConstraintError, sqlite3.IntegrityError),
          (apsw.NotADBError, sqlite3.DatabaseError),
          (apsw.CorruptError, sqlite3.DatabaseError),
          (apsw.BindingsError, sqlite3.ProgrammingError),
          ((apsw.Error, UnicodeDecodeError), sqlite3.OperationalError))


@contextlib.contextmanager
def _as_sqlite3():
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        kind = next(after for before, after in _KINDS
                    if isinstance(error, before))
        raise kind(str(error)) from error


class Connection:
    __slots__ = "_db", "row_factory", "text_factory"    # which is ignored

    def __init__(self, path, timeout=5.0, uri=False, check_same_thread=True):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self.row_factory = None
        with _as_sqlite3():
            self._db = apsw.Connection(os.fspath(path), flags=flags | (
                apsw.SQLITE_OPEN_URI if uri else 0))
            self._db.set_busy_timeout(int(timeout * 1000))

    def __getattr__(self, name):
        return getattr(self._db, name)

    def load_extension(self, path):
        with _as_sqlite3():
            self._db.load_extension(path)

    def execute(self, sql, arguments=()):
        return Cursor(self._db.cursor(), self.row_factory, sql, arguments)


class Cursor:
    def __init__(self, cursor, row_factory, sql, arguments):
        self._cursor, self.description = cursor, None
        self._made = row_factory or (lambda cursor, row: row)
        cursor.exec_trace = self._begin
        try:
            with _as_sqlite3():
                cursor.execute(sql, arguments)
        finally:
            cursor.exec_trace = None    # a cursor without a user ends at once

    def _begin(self, cursor, sql, arguments):
        self.description = cursor.get_description()
        return True

    def fetchone(self):
        with _as_sqlite3():
            row = self._cursor.fetchone()
        return None if row is None else self._made(self, row)

    def fetchall(self):
        with _as_sqlite3():
            rows = self._cursor.fetchall()
        return [self._made(self, row) for row in rows]

    def __iter__(self):
        return iter(self.fetchone, None)

    def close(self):
        self._cursor.close(True)
