"""What `claimq board` answers about a file.

    answers = Answers("app.db", write=False)
    answers.get("overview", {"filter": "mail"})       # as a dict, for JSON
    answers.change({"do": "cancel", "ids": [17], "edition": 1})

Answers are of one file, not of a path: when another file has been put there,
current() is false, and successor() answers about that one.  Its `edition` is
another, and every answer names it.  Whoever wants a change says which edition
the page showed, so that none acts on rows of another file that happen to have
the same ids.
"""
import contextlib
import os
import queue

from . import __version__
from .changes import Changes
from .live import Live, depth, present, series
from .look import (BUILT_IN, DISCIPLINES, PAGE, Look, Trouble, now_ms,
                   number_of)

_MANY = 500               # letters of one change
_LANES = ("pause", "resume")              # changes of lanes, not of numbers


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Pool:
    """Connections to one file that nobody uses at the moment."""

    def __init__(self, path, write, identity):
        self.path, self.write, self.identity = path, write, identity
        self._free = queue.LifoQueue()
        self._closed = False

    @contextlib.contextmanager
    def look(self):
        try:
            look = self._free.get_nowait()
        except queue.Empty:
            look = (Changes if self.write else Look)(self.path, timeout=5.0)
        try:
            if look.identity != self.identity:
                raise Trouble("%s: another file was put there" % self.path)
            yield look
        except BaseException:
            look.close()
            raise
        if self._closed or self._free.qsize() >= 4:
            look.close()
        else:
            self._free.put(look)

    def close(self):
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()


class Answers:
    def __init__(self, path, write=False, live=None):
        self.path, self.write = path, write
        self.live = live or Live(path)
        if live is None:
            self.live.start()
        self.edition = self.live.edition
        self.pool = Pool(path, write, self.live.identity)
        self._known = {}

    def close(self):
        self.live.stop()
        self.pool.close()

    def current(self):
        """Is it still this file that is at its path?"""
        return self.live.current()

    def successor(self):
        """Answers about the file that is at the path now; these are closed.
        Raises Trouble, and goes on, if that file cannot be read."""
        newer = Answers(self.path, self.write, self.live.successor())
        self.pool.close()
        return newer

    def get(self, name, given):
        """The answer of that name, or None if there is no such."""
        answer = getattr(self, "get_" + name, None)
        if answer is None:
            return None
        picture = self.picture()          # the answer's, or the one before it
        found = answer(given)
        found["about"] = self.about(picture)
        return found

    # ---------------------------------------------------------------------
    # The answers.  Each takes the parameters of the request.

    def picture(self):
        number = 0
        while self.live.picture is None and not self.live.stopped:
            if self.live.trouble:
                raise Refused(503, self.live.trouble)
            number = self.live.changed(number, 1)
        if self.live.picture is None:
            raise Refused(503, "The board is ending, or another file was put"
                          " in place of this one.")
        return self.live.picture

    def about(self, picture):
        """What every answer brings along; it does not claim to be of a later
        count than it is."""
        return {"now_ms": now_ms(), "edition": self.edition,
                "number": self.live.number,
                "trouble": self.live.trouble,
                "counted": {name: picture[name]
                            for name in ("at_ms", "took_ms", "approx")},
                "dead": picture["totals"]["dead"]}

    def get_start(self, given):
        """What does not change while it is this file."""
        with self.pool.look() as look:
            return {"file": os.path.basename(self.path), "write": self.write,
                    "edition": self.edition, "version": __version__,
                    "schedules": bool(look.columns("claimq_schedule"))}

    def get_overview(self, given):
        """Scopes of the last count, sorted, filtered, cut to a page."""
        picture = self.picture()
        text = given.get("filter", "").casefold()
        sort = given.get("sort", "depth")
        first = int(given.get("first", 0))
        rows = [row for row in picture["scopes"]
                if row["discipline"] != "dead_letter"
                and (text in row["scope"].casefold()
                     or text in row["discipline"])]
        now = now_ms()
        keys = {"depth": depth,
                "scope": lambda row: row["scope"],
                "discipline": lambda row: row["discipline"],
                "oldest": lambda row: now - (row["oldest_ready_at_ms"] or now),
                "rate": lambda row: row["rate"] or 0}
        rows.sort(key=lambda row: (row["scope"], row["discipline"]))
        rows.sort(key=keys.get(sort, lambda row: row.get(sort) or 0),
                  reverse=given.get("down", "1") == "1")
        found, workers = [], present(picture["workers"], now)
        for row in rows[first:first + PAGE]:
            row = dict(row, depth=depth(row))
            row["series"] = series(picture, row["discipline"],
                                   row["scope"])["depth"]
            found.append(row)
        with self.pool.look() as look:
            paused = look.paused([row["scope"] for row in found
                                  if row["discipline"] == "lane"])
        for row in found:
            row["paused"] = (row["discipline"] == "lane"
                             and row["scope"] in paused)
        return {"scopes": found, "matching": len(rows),
                "all_scopes": picture["all_scopes"],
                "totals": picture["totals"],
                "rate": sum(row["rate"] or 0 for row in picture["scopes"]),
                "series": series(picture), "leaving": _leaving(picture),
                "workers": [dict(row, holds=row["holds"][:3])
                            for row in workers[:8]],
                "all_workers": len(workers)}

    def get_workers(self, given):
        picture = self.picture()
        text = given.get("filter", "").casefold()
        first = int(given.get("first", 0))
        rows = [row for row in present(picture["workers"], now_ms())
                if text in str(row["owner"]).casefold()
                or text in row["incarnation"].casefold()]
        return {"workers": rows[first:first + PAGE], "matching": len(rows)}

    def get_scope(self, given):
        discipline, scope = _scope_of(given)
        picture = self.picture()
        counts = [row for row in picture["scopes"]
                  if row["discipline"] == discipline and row["scope"] == scope]
        held = [row for row in picture["held"]
                if row["discipline"] == discipline and row["scope"] == scope]
        with self.pool.look() as look, look.reading():
            # All but lanes are counted as they are now: that is cheap.
            if discipline != "lane":
                rate = counts[0]["rate"] if counts else None
                counts = [dict(row, rate=rate)
                          for row in look.scopes(discipline, scope)]
            answer = {
                "counts": counts[0] if counts else None,
                "fresh": discipline != "lane",
                "held": held[:PAGE], "all_held": len(held),
                "series": series(picture, discipline, scope),
                "limits": [], "schedules": [], "blocked": False}
            if discipline == "lane":
                answer.update(
                    limits=look.limits(scope),
                    policy={"own": look.policies(scope),
                            "every": look.policies(every=True),
                            "built_in": BUILT_IN},
                    leaving=_leaving(picture, scope),
                    paused=scope in look.paused([scope]),
                    schedules=look.schedules_of(scope),
                    blocked=bool(look.columns("claimq_after")))
            if discipline == "outbox":
                answer["partitions"] = look.partitions(scope)
            if discipline == "contest":
                answer["holder"] = look.holder(scope)
        return answer

    def get_why(self, given):
        """claimq_why of a long lane takes as long as it is long."""
        rows, at = self._rarely("why_here", *_scope_of(given))
        return {"why": rows, "at_ms": at}

    def get_groups(self, given):
        """Where the file does not count the leases of groups, those that are
        held are those of the last count."""
        lane, now = given.get("s", ""), now_ms()
        found, at = self._rarely("groups", lane)
        held = [row["groups"] for row in self.picture()["held"]
                if row["scope"] == lane and "groups" in row
                and row["expires_at_ms"] > now]
        return dict(found, at_ms=at, rows=[
            dict(row, held=sum(of.get(row["group_key"], 0) for of in held)
                 if row["held"] is None else row["held"])
            for row in found["rows"]])

    def _rarely(self, *key):
        """(answer, at_ms) of a question that may take its time: it is asked
        again only after twenty times as long as it took."""
        began, number = now_ms(), self.live.number
        known = self._known.get(key)
        if known and (known[0] == number
                      or began < known[1] + 20 * known[2]):
            return known[3], known[1]
        with self.pool.look() as look:
            found = getattr(look, key[0])(*key[1:])
        if len(self._known) > 200:
            self._known.clear()
        self._known[key] = number, began, now_ms() - began, found
        return found, began

    def get_rows(self, given):
        discipline, scope = _scope_of(given)
        with self.pool.look() as look, look.reading():
            return look.page(discipline, scope, given.get("kind", ""),
                             given.get("after"))

    def get_job(self, given):
        with self.pool.look() as look, look.reading():
            found = look.story(_number(given, "id"))
            if found is None:
                raise Refused(404, "There is no such job.")
            return found

    def get_batch(self, given):
        with self.pool.look() as look:
            return _found("batch", look.batch(_number(given, "id")))

    def get_message(self, given):
        with self.pool.look() as look:
            return _found("message", look.message(_number(given, "id")))

    def get_letter(self, given):
        with self.pool.look() as look:
            return _found("letter", look.letter(_number(given, "id")))

    def get_letters(self, given):
        status = given.get("status", "open")
        if status not in ("open", "resolved", "discarded", "all"):
            raise Refused(400, "There is no such status.")
        with self.pool.look() as look, look.reading():
            return look.letters(
                status, given.get("source") or None,
                given.get("scope") or None, given.get("search") or None,
                _number(given, "before") if given.get("before") else None)

    def get_schedules(self, given):
        with self.pool.look() as look, look.reading():
            return look.schedules(after=given.get("after"))

    def change(self, given):
        """{"do": "requeue", "ids": [17, 18], "edition": 1}, or {"do": "pause",
        "ids": ["mail"], "edition": 1}"""
        if not self.write:
            raise Refused(403, "This board is read-only: start it with"
                          " --write.")
        what, ids = given.get("do"), given.get("ids")
        if what not in ("requeue", "discard", "revoke", "cancel", *_LANES):
            raise Refused(400, "There is no such change.")
        kind, name = (str, "names") if what in _LANES else (int, "numbers")
        if (not isinstance(ids, list) or not 0 < len(ids) <= _MANY
                or not all(type(key) is kind for key in ids)):
            raise Refused(400, "ids: a list of 1 to %d %s." % (_MANY, name))
        for key in ids:
            if kind is int:
                number_of(key)
        if given.get("edition") != self.edition:
            raise Refused(409, "Another file was put in place of the one that"
                          " you looked at: nothing was changed.")
        with self.pool.look() as look:
            return {"results": getattr(look, what)(ids)}


def _scope_of(given):
    discipline, scope = given.get("d", ""), given.get("s", "")
    if discipline not in DISCIPLINES:
        raise Refused(404, "There is no such discipline.")
    return discipline, scope


def _leaving(picture, lane=None):
    """How many ended jobs of a lane, or of all, will be removed; rough: at
    least."""
    lanes, rough = picture["leaving"]
    return {"n": sum(lanes.values()) if lane is None else lanes.get(lane, 0),
            "rough": rough}


def _number(given, name):
    try:
        return number_of(given.get(name, ""))
    except ValueError:
        raise Refused(400, "%s must be a number." % name) from None


def _found(name, row):
    if row is None:
        raise Refused(404, "There is no such %s." % name)
    return {name: row}
