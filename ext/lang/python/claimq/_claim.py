"""What is held, and what becomes of it by what its handler does.

A handler is somebody else's program: it may return anything, raise anything,
and the text of what it raises may raise in turn.  None of that may end the
loop, and all of it counts: what came of a job is a list of calls, the best
first, and if SQLite or claimq refuses the values of one, the next is made.  The
last has no value of the handler's.
"""
import functools
import json
import math
import threading
import traceback

import claimq

from ._patience import Typed, log, text_of, waiting_cures

_MAX_DELAY_MS = 2**53 - 1


class Retry(Exception):
    """Raised by a handler: try again, after delay_ms if it is given, else after
    the job's own backoff.  error_class is stored with the reason."""

    def __init__(self, reason="", delay_ms=None, error_class=None):
        super().__init__(reason)
        self.delay_ms, self.error_class = delay_ms, error_class


class Reject(Exception):
    """Raised by a handler: never try again; the job becomes a dead letter."""


class Release(Exception):
    """Raised or returned by a handler: give the job back, not to be claimed for
    delay_ms if that is given.  It does not count as an attempt."""

    def __init__(self, delay_ms=None):
        super().__init__("released")
        self.delay_ms = delay_ms


class Pause(BaseException):
    """Raised by job.sleep() and job.wait_for(), and not for handlers to catch:
    the job is given back, and its handler begins anew when it comes back."""

    def __init__(self, option, value):
        super().__init__("%s %s" % (option, value))
        self.calls = [("release(?, ?, ?, ?)", option, value),
                      ("retry(?, ?, ?)", "cannot wait: %s" % self)]


class Payload(Typed):
    """What came with the work, parsed."""

    @property
    def payload(self):
        return self.row["payload"]

    @functools.cached_property
    def json(self):
        if isinstance(self.payload, (str, bytes)):
            return json.loads(self.payload)
        return self.payload

    @functools.cached_property
    def headers(self):
        return json.loads(self.row["headers"] or "{}")


class Lost(Exception):
    """Raised by check() when the job is somebody else's by now."""


class Claim(Typed):
    """Something that is held.  `lost` and `stopping` are events that a long
    handler looks at, or waits for; `row` has all columns of the claim."""
    what = "claim"

    def __init__(self, row, stopping):
        self.row = row
        self.claim = (row["claim_id"], row["lease_token"])
        self.lost = threading.Event()
        self.stopping = stopping
        self._taken = threading.Lock()

    def check(self):
        if self.lost.is_set():
            raise Lost("%s was taken over" % self.what)

    def _begin(self, db, lease_ms):
        """The connection of the thread in which the handler runs."""

    def _take(self):
        """True for the first who asks: the loop, which begins the work, or the
        thread that gives it back when the loop is stopping."""
        return not self.lost.is_set() and self._taken.acquire(blocking=False)

    def _call(self, db, verb, *values):
        """Call a verb.  That the claim is lost is remembered, and no error."""
        if self.lost.is_set():
            return
        try:
            db.execute("SELECT claimq_" + verb,
                       [*self.claim, *values]).fetchall()
        except Exception as error:
            if claimq.code(error) != "claim_lost":
                raise
            self.lost.set()

    def _settle(self, db, calls):
        """Make the first of the calls whose values are accepted."""
        first, *others = calls
        try:
            self._call(db, *first)
        except Exception as error:
            if not others or waiting_cures(error):
                raise
            log.warning("%s: %s was refused: %s", self.what,
                        first[0].partition("(")[0], text_of(error))
            self._settle(db, others)

    def _handle(self, handler):
        """Call the handler; returns the calls that settle the claim."""
        try:
            result = handler(self)
            if isinstance(result, Release):
                raise result
            return self._completed(result)
        except Pause as pause:
            return pause.calls
        except Release as error:
            return self._released(self._delay(error))
        except Reject as error:
            return self._rejected(text_of(error))
        except BaseException as error:      # sys.exit() does not end us, either
            reason, kind, delay = text_of(error), None, None
            if isinstance(error, Retry):
                delay, kind = self._delay(error), _class_of(error)
            elif not isinstance(error, Lost):
                reason, kind = _describe(error, reason)
                log.warning("%s failed", self.what, exc_info=True)
            return self._retried(reason, delay, kind)

    def _completed(self, result):
        return [("complete(?, ?)",)]

    def _released(self, delay):
        return [("release(?, ?, 'delay_ms', ?)", delay), ("release(?, ?)",)]

    def _rejected(self, reason):
        return [("reject(?, ?, ?)", reason), ("reject(?, ?, 'rejected')",)]

    def _retried(self, reason, delay, kind):
        return [("retry(?, ?, ?, 'delay_ms', ?)", reason, delay),
                ("retry(?, ?, 'the handler failed')",)]

    def _delay(self, error):
        """delay_ms of a Retry or Release as claimq takes it; None: not given."""
        kind = type(error).__name__
        try:
            if error.delay_ms is None:
                return None
            delay = math.ceil(error.delay_ms)
            fits = min(max(delay, 0), _MAX_DELAY_MS)
        except BaseException:               # no number, or not a finite one
            log.warning("%s: delay_ms of %s is no finite number: it is "
                        "ignored", self.what, kind)
            return None
        if fits != delay:
            log.warning("%s: delay_ms of %s is %d instead of %d",
                        self.what, kind, fits, delay)
        return fits


def _describe(error, text):
    """The reason of a failure (class, text, end of the trace), and the class
    as claimq takes it."""
    try:
        frames = "".join(traceback.format_tb(error.__traceback__.tb_next, -3))
        frames = frames.encode("utf-8", "backslashreplace").decode()
    except BaseException:
        frames = ""
    if not text.startswith(type(error).__name__):
        text = "%s: %s" % (type(error).__name__, text)
    return "\n".join([text, frames]).rstrip(), _class_of(error)


def _class_of(error):
    """The name of its class, or what a Retry says, as claimq takes it."""
    try:
        name = (error.error_class if isinstance(error, Retry)
                else type(error).__name__)
        return name.encode("utf-8", "replace")[:64].decode("utf-8", "ignore")
    except BaseException:                   # no text
        return None
