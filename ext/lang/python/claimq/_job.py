"""A job of a lane: see _claim.py for what becomes of it."""
import json
import math
import re
import time

import claimq

from ._claim import Claim, Pause, Payload, log, text_of

TASK = "task:"          # a task travels as a capability of this name
_OPEN = """SELECT id FROM (SELECT ? AS id)   -- not ended, or never there
 WHERE id NOT BETWEEN 1 AND (SELECT seq FROM sqlite_sequence
                             WHERE name='claimq_job')
    OR EXISTS (SELECT 1 FROM claimq_job
               WHERE job_id=id AND terminal_at_ms IS NULL)"""


class Job(Payload, Claim):
    """A job: id, lane, task (None: it has none), payload, attempt (0 is the
    first), and all columns of the claim in `row`.  `lost` and `stopping` are
    events that a long handler looks at, or waits for."""

    def __init__(self, row, stopping):
        super().__init__(row, stopping)
        self.id, self.lane = row["job_id"], row["lane"]
        self.what = "job %d" % self.id
        self.attempt = row["attempt_index"]
        self.task = next((name[len(TASK):]
                          for name in json.loads(row["capabilities"] or "[]")
                          if name.startswith(TASK)), None)
        self._db, self._lease_ms, self._naps = None, None, 0

    def complete(self, db, result=None):
        """Complete it on the handler's own connection, inside a transaction
        with the handler's writes: both happen, or neither.  It may be a Session
        or a Connection of SQLAlchemy."""
        claimq._rows(db, "SELECT claimq_complete(?, ?, 'result', ?)",
                     [*self.claim, result])

    def step(self, name, function, db=None):
        """What the step of this name gave when it was run the first time, in
        whichever attempt; if it never was, run function() and store what it
        returns, as JSON.  With a connection of the handler's own inside a
        transaction, the step is stored if and only if that is committed."""
        db = db or self._db
        self.check()
        try:
            found = claimq._rows(db, "SELECT value FROM claimq_steps WHERE"
                                 " job_id=? AND name=?", [self.id, name])
        except Exception as error:          # until there is a first step
            if "no such table" not in str(error):
                raise
            found = []
        if not found:
            value = json.dumps(function())
            try:
                found = claimq._rows(
                    db, "SELECT claimq_step(?, ?, ?, ?, 'lease_ms', ?)",
                    [*self.claim, name, value, self._lease_ms])
            except Exception as error:
                if claimq.code(error) == "claim_lost":
                    self.lost.set()
                    self.check()
                raise
        stored = found[0][0]
        return json.loads(stored) if isinstance(stored, str) else stored

    def sleep(self, ms):
        """Give the job back for that time, once: when it comes back, the handler
        begins anew, and this call returns at once.  Steps remember which of its
        sleeps are over, so call them in the same order each time."""
        self._naps += 1
        until = self.step("sleep-%d" % self._naps,
                          lambda: math.ceil(time.time() * 1000 + ms)
                          if ms > 0 else 0)
        left = until - int(time.time() * 1000)
        if left > 0:
            raise Pause("delay_ms", left)

    def wait_for(self, ids):
        """Return if these jobs have ended, however; else give the job back
        until they have, when the handler begins anew."""
        ids = [ids] if isinstance(ids, int) else list(ids)
        if any(self._db.execute(_OPEN, [id]).fetchall() for id in ids):
            raise Pause("after", json.dumps(ids))

    def _begin(self, db, lease_ms):
        """The connection for its steps; the handler runs in the same thread."""
        self._db, self._lease_ms, self._naps = db, lease_ms, 0
        return self

    def _completed(self, result):
        calls = [("complete(?, ?)",)]
        try:
            return [("complete(?, ?, 'result', ?)", _storable(result)), *calls]
        except BaseException as error:
            log.warning("job %d is done, but its result cannot be stored: %s",
                        self.id, text_of(error))
            return calls

    def _retried(self, reason, delay, kind):
        return [("retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)",
                 reason, delay, kind),
                ("retry(?, ?, 'the handler failed')",)]


def _storable(result):
    """The result as a value that SQLite has, or as JSON."""
    if isinstance(result, int):
        plain = -2**63 <= result < 2**63
    elif isinstance(result, str):
        plain = not re.search("[\ud800-\udfff]", result)
    else:
        plain = isinstance(result, (float, bytes, bytearray, memoryview,
                                    type(None)))
    return result if plain else json.dumps(result)
