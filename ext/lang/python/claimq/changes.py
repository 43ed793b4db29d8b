"""What the commands of `claimq`, and `claimq board --write`, change.

    with contextlib.closing(Changes("app.db")) as db:
        db.cancel([17, 18])
        db.pause(["mail"])

Each method takes several keys and answers for each of them: {"id", "result"},
or {"id", "code", "error"} for one that was refused.  done() says whether all
were changed.  What a result means is in the manual, with the function of that
name; all SQL that writes is in this file.
"""
import sqlite3

import claimq

from .look import Look, now_ms

STEP = 10000              # rows that are removed in one transaction
SMALL = 100               # keys that are changed in one transaction

# What was asked for was not done, and nothing was changed.
_UNDONE = ("claimed", "missing", "no_active_lease", "not_paused")

# Options of change(), and what claimq_change() calls them.
OPTIONS = {"lane": "lane", "priority": "priority", "payload": "payload",
           "delay_ms": "delay_ms", "capabilities": "capabilities",
           "partition": "partition", "group": "group_key",
           "max_attempts": "max_attempts", "max_reclaims": "max_reclaims"}


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__("claimq: %s: %s" % (code, text))
        self.code = code


class Changes(Look):
    """A Look whose connection may write."""

    def __init__(self, path, timeout=30.0):
        super().__init__(path, write=True, timeout=timeout)

    # ---------------------------------------------------------------------
    # Dead letters

    def requeue(self, ids):
        return self._each(ids, lambda key: self.value(
            "SELECT claimq_requeue(?, 'now_ms', ?)", key, now_ms()))

    def discard(self, ids):
        return self._each(ids, self._discard)

    def _discard(self, key):
        """What claimq_reject() does to a letter, for one that nobody holds."""
        now = now_ms()
        rows = self.rows("SELECT status, owner, expires_at_ms"
                         " FROM claimq_letter WHERE letter_id=?", key)
        if not rows:
            raise Refused("not_found", "there is no letter %s" % key)
        row = rows[0]
        if row["status"] in ("resolved", "discarded"):
            raise Refused("conflict", "letter %s is %s" % (key, row["status"]))
        if row["status"] == "reprocessing" and row["expires_at_ms"] > now:
            raise Refused("conflict", "letter %s is held by %s"
                          % (key, row["owner"]))
        self.db.execute(
            "UPDATE claimq_letter SET status='discarded', claim_id=NULL,"
            " lease_token=NULL, owner=NULL, incarnation=NULL,"
            " claimed_at_ms=NULL, expires_at_ms=NULL, claim_size=NULL,"
            " claim_head=NULL WHERE letter_id=?", [key])
        return "discarded"

    # ---------------------------------------------------------------------
    # Jobs

    def revoke(self, ids):
        return self._each(ids, lambda key: self.value(
            "SELECT claimq_revoke(?, 'now_ms', ?)", key, now_ms()))

    def cancel(self, ids, force=False):
        return self._each(ids, lambda key: self.value(
            "SELECT claimq_cancel(?, 'force', ?, 'now_ms', ?)", key,
            int(force), now_ms()))

    def change(self, ids, **options):
        """What is None stays as it is."""
        given = []
        for name, value in options.items():
            given += [OPTIONS[name], value]
        sql = "SELECT claimq_change(?, 'now_ms', ?%s)" % (", ?" * len(given))
        return self._each(ids, lambda key: self.value(
            sql, key, now_ms(), *given))

    # ---------------------------------------------------------------------
    # Lanes

    def pause(self, lanes):
        """Limits that a lane has stay as they are."""
        return self._each(lanes, lambda lane: self._say(
            "paused", lane, "paused", 1))

    def resume(self, lanes, max_active=None):
        """max_active 0 pauses a lane, too: it becomes what is given here."""
        return self._each(lanes, lambda lane: self._resume(lane, max_active))

    def _resume(self, lane, max_active):
        if lane not in self.paused([lane]):
            return "not_paused"
        own = self.policies(lane)
        if own and own[0]["max_active"] == 0:
            self._say("resumed", lane, "max_active", max_active)
        return self._say("resumed", lane, "paused", 0)

    def set_policy(self, lane, options):
        """lane None: of every lane that says nothing else; a value of None:
        that is not said any more."""
        given = [part for item in options.items() for part in item]
        return self._each([lane], lambda lane: "set" if self.value(
            "SELECT claimq_policy(?%s, 'now_ms', ?)" % (", ?" * len(given)),
            lane, *given, now_ms()) else None)

    def _say(self, result, lane, option, value):
        self.value("SELECT claimq_policy(?, ?, ?, 'now_ms', ?)", lane, option,
                   value, now_ms())
        return result

    # ---------------------------------------------------------------------

    def vacuum(self, older_than_ms=None):
        """How many rows were removed, after each step, until there are none:
        the write lock is free in between."""
        sql, given = "SELECT claimq_vacuum('now_ms', ?, 'max', ?", []
        if older_than_ms is not None:
            sql, given = sql + ", 'older_than_ms', ?", [older_than_ms]
        removed = 0
        while True:
            n = self.value(sql + ")", now_ms(), STEP, *given)
            removed += n
            yield removed
            if n < STEP:
                return

    def _each(self, ids, change):
        """[{"id", "result"} or {"id", "code", "error"}]: one that is refused
        changes nothing, and keeps nobody else from being changed.  A hundred
        are one transaction: the write lock is held for milliseconds."""
        found = []
        for first in range(0, len(ids), SMALL):
            with claimq.transaction(self.db):
                for key in ids[first:first + SMALL]:
                    try:
                        found.append({"id": key, "result": change(key)})
                    except Refused as error:
                        found.append({"id": key, "code": error.code,
                                      "error": str(error)})
                    except sqlite3.Error as error:
                        if claimq.code(error) is None:
                            raise
                        found.append({"id": key, "code": claimq.code(error),
                                      "error": str(error)})
        return found


def done(rows):
    """Were all of them changed?"""
    return all("result" in row and row["result"] not in _UNDONE
               for row in rows)
