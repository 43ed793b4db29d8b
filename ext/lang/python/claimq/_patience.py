"""How a loop opens its database, and what it does about a lock that lasts
longer than its timeout, a full disk, and a file that is not there any more."""
import contextlib
import logging
import os
import re
import time

import claimq

log = logging.getLogger("claimq")
_BEAT = 0.05            # a signal is seen when this many seconds are over
_MAX_PAUSE = 5.0
_CURED = re.compile(r"\bdatabase (table |schema )?is locked"
                    r"|database or disk is full|disk I/O error"
                    r"|locking protocol|out of memory")


class Typed:
    """Job[Mail] says what `json` is: to a type checker, see __init__.pyi."""

    def __class_getitem__(cls, _):
        return cls


class Patient(Typed):
    _stop = False
    _file = None        # what os.stat() said of the file when it was opened

    def __init__(self, path, timeout, create, synchronous):
        if synchronous not in ("normal", "full"):
            raise ValueError("synchronous is \"normal\" or \"full\"")
        self.path, self.timeout = path, timeout
        self.create, self.synchronous = create, synchronous

    def _open(self, at_end):
        """A connection of its own; None if the loop was stopped meanwhile."""
        db = self._patiently("opening", self._connect)
        return db and at_end.enter_context(contextlib.closing(db))

    def _connect(self):
        name = os.fspath(self.path)
        if not (self.create or not name or os.path.exists(name)
                or str(name).startswith((":memory:", "file:"))):
            raise FileNotFoundError(
                "there is no file %s: create it with claimq.connect(), or say"
                " create=True" % name)
        db = claimq.connect(self.path, timeout=self.timeout,
                            check_same_thread=False)
        db.execute("PRAGMA synchronous=" + self.synchronous)
        return db

    def _patiently(self, what, do, grace=0.0):
        """Returns what do() returns.  While it fails for a reason that waiting
        cures, that is logged, and it is done again after a pause, which grows.
        A loop that is stopping does so for `grace` seconds; then: None."""
        pause, end = 0.1, None
        while True:
            try:
                return do()
            except Exception as error:
                self._check_file()
                if not waiting_cures(error):
                    raise
                if self._stop:
                    end = end or time.monotonic() + grace
                    if time.monotonic() >= end:
                        log.error("%s: %s: given up", what, error)
                        return None
                log.warning("%s: %s; again in %.1f s", what, error, pause)
            until = time.monotonic() + pause
            time.sleep(_BEAT)
            while not self._stop and time.monotonic() < until:
                time.sleep(_BEAT)
            pause = min(2 * pause, _MAX_PAUSE)

    def _remember_file(self):
        """The file is open.  A handler may change the directory later."""
        self._path = os.path.abspath(self.path)
        if os.path.exists(self._path):
            self._file = os.stat(self._path)

    def _check_file(self):
        """Raise an error if the database is not the file any more that was
        opened: SQLite would go on with what nobody else can see."""
        try:
            if not self._file or os.path.samestat(os.stat(self._path),
                                                  self._file):
                return
        except FileNotFoundError:
            pass
        except OSError:                     # it may be there
            return
        raise RuntimeError("%s was removed or replaced while the worker used "
                           "it" % self._path)


def waiting_cures(error):
    """Is it an error that may be gone after a while: a lock, a full disk?"""
    return isinstance(error, MemoryError) or (
        claimq.code(error) is None and bool(_CURED.search(str(error))))


def text_of(error):
    """The text of an exception; the name of its class if there is none."""
    try:
        return (str(error).encode("utf-8", "backslashreplace").decode()
                or type(error).__name__)
    except BaseException:
        return "%s, whose text raises an exception" % type(error).__name__
