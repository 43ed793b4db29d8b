"""The loops of the other disciplines: an outbox, sessions, a contest."""
import contextlib
import time

from ._claim import Claim, Lost, Payload
from ._loop import Holder, Loop

_OUTBOX = """SELECT * FROM claimq_outbox
 WHERE queue=? AND owner=? AND lease_ms=? AND max=? AND partition=?"""
_SESSION = """SELECT * FROM claimq
 WHERE session=? AND owner=? AND lease_ms=? AND max=? AND serial=1
   AND take='any'"""
_CONTEST = """SELECT * FROM claimq_contest
 WHERE label=? AND owner=? AND lease_ms=? AND kind=?"""
_MAX_BACKOFF_MS = 60000


class Message(Payload):
    """A message of an outbox or a batch of a session: payload, json, headers,
    and all columns in `row`."""

    def __init__(self, row):
        self.row = row


class Messages(Claim):
    """The rows of one claim, in order."""

    def __init__(self, rows, stopping, what):
        super().__init__(rows[0], stopping)
        self.what = what
        self.messages = [Message(row) for row in rows]

    def __iter__(self):
        return iter(self.messages)

    def __len__(self):
        return len(self.messages)


class Batch(Messages):
    """What the handler of an Outbox gets: messages of one partition."""

    def __init__(self, rows, stopping):
        row = rows[0]
        super().__init__(rows, stopping, "messages from %d of %s/%d" % (
            row["seq"], row["queue"], row["partition"]))
        self.partition = row["partition"]
        self._done = []

    def done(self, message):
        """If the handler fails later, this message does not come again,
        provided that those before it are done as well."""
        self._done.append(message)

    def _processed(self):
        for n, message in enumerate(self.messages):
            if message not in self._done:
                return n
        return len(self.messages)

    def _released(self, delay):
        n = self._processed()
        if not n:
            return super()._released(delay)
        return [("retry(?, ?, 'released', 'delay_ms', ?, 'processed', ?)",
                 delay or 0, n)]

    def _rejected(self, reason):
        n = self._processed()
        return [("reject(?, ?, ?, 'processed', ?)", reason, n),
                ("reject(?, ?, 'rejected', 'processed', ?)", n)]

    def _retried(self, reason, delay, kind):
        n = self._processed()
        return [("retry(?, ?, ?, 'delay_ms', ?, 'processed', ?)", reason,
                 delay, n),
                ("retry(?, ?, 'the handler failed', 'processed', ?)", n)]


class Outbox(Loop):
    """The messages of each partition in order, a batch at a time; with
    concurrency, those of several partitions at once.  If the handler returns,
    the batch is completed; if it raises, what follows the messages that are
    done(), in order, comes again; Reject makes dead letters of it.  max: of a
    batch (None: as claimq_queue says)."""

    def __init__(self, path, queue, handler, *, max=None, partition=None,
                 **options):
        super().__init__(path, **options)
        self.queue, self.handler = queue, handler
        self.max, self.partition = max, partition

    def _about(self):
        return "outbox " + self.queue

    def _claim(self, db):
        rows = self._rows(db, _OUTBOX, self.queue, self.owner, self.lease_ms,
                          self.max, self.partition)
        return [Batch(rows, self._stopping)] if rows else []

    def _wait(self, db, ms):
        db.execute("SELECT claimq_wait(?, 'outbox', ?, 'partition', ?)",
                   [ms, self.queue, self.partition]).fetchall()


class Turn(Messages):
    """What the handler of a Session gets: what is next in one session."""

    def __init__(self, rows, stopping):
        self.session = rows[0]["session"]
        super().__init__(rows, stopping, "session " + self.session)

    def _retried(self, reason, delay, kind):
        """A session has no backoff of its own, and no last attempt."""
        if delay is None:
            delay = min(1000 << min(self.row["attempts"], 6), _MAX_BACKOFF_MS)
        return super()._retried(reason, delay, kind)


class Session(Loop):
    """What is enqueued in each session in order, a turn at a time; with
    concurrency, of several sessions at once.  session: only this one."""

    def __init__(self, path, handler, *, session=None, max=None, **options):
        super().__init__(path, **options)
        self.handler, self.session, self.max = handler, session, max

    def _about(self):
        return ("all sessions" if self.session is None
                else "session " + self.session)

    def _claim(self, db):
        rows = self._rows(db, _SESSION, self.session, self.owner,
                          self.lease_ms, self.max)
        return [Turn(rows, self._stopping)] if rows else []

    def _wait(self, db, ms):
        db.execute("SELECT claimq_wait(?, 'session', ?, 'serial', 1, 'take',"
                   " 'any')", [ms, self.session]).fetchall()


class Contest(Holder):
    """At most one holds a subject, which is kept until release():

        with claimq.Contest("app.db", "leader") as leader:
            while not leader.lost.wait(1):
                lead(leader.fencing_token)
    """

    def __init__(self, path, subject, *, kind=0, **options):
        super().__init__(path, **options)
        self.subject, self.kind = subject, kind
        self.lost = self.claim = self.fencing_token = self._at_end = None

    def acquire(self, seconds=None):
        """Wait until nobody else holds it, or for this long.  Is it held?"""
        until = None if seconds is None else time.monotonic() + seconds
        with contextlib.ExitStack() as at_end:
            db = self._open(at_end)
            while not self._stop:
                row, = self._patiently("asking", lambda: Loop._rows(
                    db, _CONTEST, self.subject, self.owner, self.lease_ms,
                    self.kind)) or [None]
                if row and row["outcome"] == "claimed":
                    self._begin(row, db, at_end)
                    return True
                left = 500 if until is None else min(
                    500, int((until - time.monotonic()) * 1000))
                if left <= 0:
                    break
                db.execute("SELECT claimq_wait(?, 'contest', ?, 'kind', ?)",
                           [left, self.subject, self.kind]).fetchall()
        return False

    def _begin(self, row, db, at_end):
        held = Claim(row, self._stopping)
        held.what = "contest " + self.subject
        held._take()
        self.lost, self.claim, self.check = held.lost, held.claim, held.check
        self.fencing_token = row["fencing_token"]
        self._held = [held]
        self._keep_what_is_held(at_end, db)
        self._at_end = at_end.pop_all()

    def release(self):
        if self._at_end:
            self._at_end.close()
            self._at_end = None

    def __enter__(self):
        if not self.acquire():
            raise Lost("contest %s: stopped while waiting" % self.subject)
        return self

    def __exit__(self, *_):
        self.release()
