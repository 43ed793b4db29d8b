"""What `claimq top`, `claimq board` and the scripts' commands read.

    look = Look("app.db")                 # read-only
    look.scopes()                         # a dict for each scope
    with look.reading():                  # several questions, one snapshot
        look.job(17), look.attempts(17)

All SQL of these commands that reads is in this file, and what writes is in
changes.py.  Three rules:

A page is read by keys.  Every list is a range of an index, of at most this many
rows, and says from where to go on; a search looks at a bounded number of rows
and says how far it came.  So a page costs the same in a file of a thousand rows
and of millions.

Counting is the exception: claimq_stats reads every row.  live.py does it, in a
thread of its own, for everybody who looks, and for a small part of the time;
until it is through for the first time, preview() counts what the indexes say,
up to a bound.

Nothing is held between two questions: a connection is in a transaction only
inside of reading(), and the connection cannot write unless it was asked for.
"""
import contextlib
import heapq
import json
import os
import pathlib
import sqlite3
import time

import claimq

PAGE = 50                 # rows of a page, unless somebody wants less
SEARCH = 5000             # rows that one request of a search looks at
PREVIEW = 200             # characters of a payload in a list
PAYLOAD = 64 * 1024       # and on its own page
HELD = 2000               # rows that are held, and are shown, at most
COUNTED = 20000           # rows that preview() counts in a scope
GROUPS = 200              # groups of a lane that are shown
OF_GROUP = 1000           # jobs of a group that are counted
NEVER = (1 << 63) - 1     # ms: when a group opens whose limit is 0
STEPS = 500               # steps of a job that are shown
LEAVING = 5000            # jobs that are looked at for what will be removed

# How long ended jobs are kept if no policy says it.
BUILT_IN = {"keep_ms": 7 * 86400000, "keep_failed_ms": 30 * 86400000}
BAR = 20000               # rows that are counted for a plot at a time

# The places of jobs in the index claimq_job_by_due, in whose words SQLite must be
# asked: when a job can be claimed (-1: now), what it stands together with (its
# capabilities, or the head of its group), and whether it is in the index.  And
# when a batch can be claimed.
DUE = ("ifnull(place, iif(available_at_ms>created_at_ms, available_at_ms,"
       " -1))")
BUCKET = ("ifnull(head_id, iif(group_key IS NULL, capabilities,"
          " 'g'||capabilities))")
THERE = ("terminal_at_ms IS NULL"
         " AND ifnull(place>=-1, admission IS NOT 'grant')")
BATCH_DUE = ("ifnull(place, iif(available_at_ms>enqueued_at_ms,"
             " available_at_ms, -1))")
OF_BUCKET = ("lane=? AND partition=? AND %s=? AND %s<=? AND %s"
             % (BUCKET, DUE, THERE))

COUNTS = ("ready", "delayed", "held", "expired", "blocked", "limited", "dead")
DISCIPLINES = ("lane", "session", "outbox", "contest", "dead_letter")


def _cut_sql(name, size):
    """SQL: a value, of a text or BLOB its first characters or bytes."""
    return ("iif(typeof(\"%s\") IN ('text','blob'), substr(\"%s\", 1, %d),"
            " \"%s\") AS \"%s\"" % (name, name, size, name, name))


class Trouble(Exception):
    """What a user can do something about: shown without a traceback."""


def now_ms():
    """The time of a call.  It is always given: a database may want that."""
    return int(time.time() * 1000)


def plain(value):
    """A value as JSON has it and JavaScript keeps it: integers beyond 2^53 and
    numbers that JSON does not know become text, BLOBs {"blob": hex}."""
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= 1 << 53 else str(value)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _text(data):
    """Somebody may have stored what is no UTF-8."""
    return (data.decode("utf-8", "replace") if isinstance(data, bytes)
            else str(data))


def identity(path):
    """Which file is at this path; None if there is none.  It is certain as
    long as somebody has that file open: then no other file gets its number."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def connect(path, write=False, timeout=5.0):
    """A connection with claimq that can only read, unless `write`."""
    file = pathlib.Path(path).absolute()
    if not file.is_file():
        raise Trouble("%s: there is no such file" % path)
    db = None
    try:
        db = claimq._open(
            file.as_uri() + ("?mode=rw" if write else "?mode=ro"), uri=True,
            timeout=timeout, check_same_thread=False)
        db.text_factory = _text
        claimq.load(db)
        if not write:
            db.execute("PRAGMA query_only=1").fetchall()
        if not db.execute("SELECT 1 FROM sqlite_master"
                          " WHERE name='claimq_meta'").fetchall():
            raise Trouble("%s: there are no tables of claimq in this file"
                          % path)
    except (sqlite3.Error, RuntimeError) as error:
        if db:
            db.close()
        if isinstance(error, RuntimeError):     # this Python cannot load it
            raise Trouble(str(error)) from None
        raise Trouble("%s: %s" % (path, error)) from None
    except BaseException:
        if db:
            db.close()
        raise
    return db


class Look:
    """A connection that answers questions.  For one thread at a time."""

    def __init__(self, path, write=False, timeout=5.0):
        self.path = path
        self.identity = identity(path)
        self.db = connect(path, write, timeout)
        self._columns = {}
        if identity(path) != self.identity:
            self.close()
            raise Trouble("%s: another file is being put there" % path)

    def close(self):
        self.db.close()

    def rows(self, sql, *arguments):
        cursor = self.db.execute(sql, arguments)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def value(self, sql, *arguments):
        row = self.db.execute(sql, arguments).fetchall()
        return row[0][0] if row else None

    @contextlib.contextmanager
    def reading(self):
        """All questions inside see the same state of the database."""
        self.db.execute("BEGIN")
        try:
            yield self
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def columns(self, table):
        """The columns of a table; none if there is no such table yet: those
        of a feature come when it is first used."""
        if not self._columns.get(table):
            self._columns[table] = {
                row["name"] for row in
                self.rows("SELECT name FROM pragma_table_xinfo(?1) WHERE ?1 IN"
                          " (SELECT name FROM sqlite_master)", table)}
        return self._columns[table]

    def _by(self, table, index):
        """A table, read by an index; what stands for a table that is not there
        yet has none."""
        return table + (" INDEXED BY " + index if self.columns(table) else "")

    def wait(self, ms):
        """1 if something was committed since the last call; waits for that as
        long as ms says, without holding anything."""
        return self.value("SELECT claimq_wait(?)", max(0, int(ms)))

    # ---------------------------------------------------------------------
    # Counting

    def stats(self, discipline=None, scope=None):
        where, arguments = _where(discipline=discipline, scope=scope,
                                  now_ms=now_ms())
        return self.rows("SELECT * FROM claimq_stats" + where, *arguments)

    def scopes(self, discipline=None, scope=None):
        """The same with the partitions of a lane or a queue added up, one by
        one: there may be a million sessions."""
        where, arguments = _where(discipline=discipline, scope=scope,
                                  now_ms=now_ms())
        cursor = self.db.execute("SELECT * FROM claimq_stats" + where,
                                 arguments)
        names = [column[0] for column in cursor.description]
        last = None
        for row in cursor:
            row = dict(zip(names, row))
            del row["partition"]
            if last and (row["discipline"], row["scope"]) == (
                    last["discipline"], last["scope"]):
                for name in COUNTS:
                    last[name] += row[name]
                for name in ("oldest_ready_at_ms", "next_at_ms"):
                    last[name] = min((at for at in (last[name], row[name])
                                      if at is not None), default=None)
                continue
            if last:
                yield last
            last = row
        if last:
            yield last

    def fullest(self, limit):
        """(rows, totals, n): the scopes of each discipline that have most in
        them, the sums of all, and how many there are."""
        sums, n = dict.fromkeys(COUNTS, 0), 0
        best = {name: [] for name in DISCIPLINES}
        for row in self.scopes():
            if row["discipline"] != "dead_letter":
                n += 1
                for name in COUNTS:
                    sums[name] += row[name]
            heap = best[row["discipline"]]
            item = (sum(row[name] for name in COUNTS), row["scope"], row)
            if len(heap) < limit:
                heapq.heappush(heap, item)
            else:
                heapq.heappushpop(heap, item)
        rows = [row for name in DISCIPLINES
                for _, _, row in sorted(best[name], key=lambda item: item[:2])]
        return rows, sums, n

    def why(self, discipline, scope, **options):
        where, arguments = _where(discipline=discipline, scope=scope,
                                  now_ms=now_ms(), **options)
        return self.rows("SELECT * FROM claimq_why" + where, *arguments)

    def why_here(self, discipline, scope):
        """The same for a scope as claimq_stats writes it."""
        if discipline == "contest":
            kind, _, label = scope.partition("/")
            return self.why(discipline, label, kind=kind)
        return self.why(discipline, scope)

    def known(self, discipline, scope):
        """Is there, or was there, a lane or session of that name, as far as
        the file remembers?  claimq_why itself knows queues, and anything may be
        contested and have letters."""
        places = {"lane": ("claimq_job lane", "claimq_policy lane",
                           "claimq_schedule lane"),
                  "session": ("claimq_batch session",
                              "claimq_session session")}
        for place in places.get(discipline, ()):
            table, column = place.split()
            if self.columns(table) and self.value(
                    "SELECT 1 FROM %s WHERE %s=? LIMIT 1" % (table, column),
                    scope):
                return True
        return discipline not in places

    def names(self, discipline):
        """The names of a discipline that have something in them now."""
        return sorted({row["scope"] for row in self.stats(discipline)})

    def check(self):
        """What is wrong with the file, as SQLite and as claimq sees it."""
        found = []
        for row in self.rows("PRAGMA integrity_check"):
            if row["integrity_check"] != "ok":
                found.append({"table_name": "sqlite", "row_key": None,
                              "problem": row["integrity_check"]})
        return found + self.rows("SELECT * FROM claimq_check")

    def unpruned(self, before_ms, limit):
        """How many rows are over since an earlier time, and could be removed;
        up to a limit for each table."""
        return sum(self.value(
            "SELECT count(*) FROM (SELECT 1 FROM %s<? LIMIT ?)" % place,
            before_ms, limit) for place in (
                "claimq_job WHERE terminal_at_ms",
                "claimq_event WHERE occurred_at_ms",
                "claimq_letter WHERE status IN ('resolved','discarded')"
                " AND failed_at_ms",
                "claimq_partition AS p CROSS JOIN claimq_message AS m"
                " USING(queue, partition) WHERE m.seq<=p.processed_seq"
                " AND m.created_at_ms"))

    def leaving(self):
        """({lane: n}, rough): how many ended jobs are kept for no longer, and
        go when others end.  Those that claimq looks at next are looked at
        first, LEAVING at most; rough: that were not all."""
        now, n, left = now_ms(), {}, LEAVING
        meta = {row["name"]: row["value"] for row in self.rows(
            "SELECT name, value FROM claimq_meta WHERE name IN ('kept_job',"
            " 'kept_least')")}
        at = max(0, meta.get("kept_job") or 0)
        least = min(meta.get("kept_least") or NEVER, BUILT_IN["keep_ms"])
        young = self.first_at("claimq_job", "job_id", "created_at_ms",
                              now - least)
        policy = ("claimq_policy" if self.columns("claimq_policy")
                  else "(SELECT NULL AS lane, NULL AS keep_ms,"
                  " NULL AS keep_failed_ms)")
        awaited = ("EXISTS (SELECT 1 FROM claimq_after AS a INDEXED BY"
                   " claimq_after_by_after CROSS JOIN claimq_job AS b"
                   " ON b.job_id=a.job_id WHERE a.after_id=j.job_id"
                   " AND b.state='blocked')"
                   if self.columns("claimq_after") else "0")
        for first, last in ((at + 1, young), (1, min(at + 1, young))):
            for row in self.rows(
                    "SELECT j.lane AS lane, count(*) AS seen,"
                    " sum(ifnull(keep>=0 AND terminal_at_ms<=?1-keep"
                    "  AND ifnull(unique_until_ms, 0)<=?1 AND NOT %s"
                    "  AND NOT (state='failed' AND EXISTS (SELECT 1"
                    "   FROM claimq_letter INDEXED BY claimq_letter_by_ref"
                    "   WHERE ref=j.job_id AND due IS NOT NULL"
                    "   AND source='lane')), 0)) AS n"
                    " FROM (SELECT c.job_id, c.lane, c.state,"
                    "   c.terminal_at_ms, c.unique_until_ms,"
                    "   CASE c.state WHEN 'failed' THEN"
                    "    coalesce(o.keep_failed_ms, e.keep_failed_ms, ?2)"
                    "   ELSE coalesce(o.keep_ms, e.keep_ms, ?3) END AS keep"
                    "  FROM (SELECT job_id, lane, state, terminal_at_ms,"
                    "     unique_until_ms FROM claimq_job NOT INDEXED"
                    "    WHERE job_id>=?4 AND job_id<?5 ORDER BY job_id"
                    "    LIMIT ?6) AS c"
                    "  LEFT JOIN %s AS o ON o.lane=c.lane"
                    "  LEFT JOIN %s AS e ON e.lane IS NULL) AS j"
                    " GROUP BY 1" % (awaited, policy, policy), now,
                    BUILT_IN["keep_failed_ms"], BUILT_IN["keep_ms"], first,
                    last, left):
                left -= row["seen"]
                if row["n"]:
                    n[row["lane"]] = n.get(row["lane"], 0) + row["n"]
            if left <= 0:
                break
        return n, left <= 0

    def preview(self):
        """The scopes and roughly how long they are, from the indexes alone:
        what claimq_stats would say of them if nothing was claimed, up to
        COUNTED rows of each.  `approx` marks such rows."""
        now, found = now_ms(), {}

        def note(discipline, scope, **counts):
            row = found.setdefault((discipline, scope), dict(
                dict.fromkeys(COUNTS, 0), discipline=discipline, scope=scope,
                oldest_ready_at_ms=None, next_at_ms=None, approx=True))
            for name, n in counts.items():
                row[name] += n

        def count(table, column, scope, where):
            return self.value(
                "SELECT count(*) FROM (SELECT 1 FROM %s"
                " WHERE %s=? AND %s LIMIT ?)"
                % (table, column, where), scope, COUNTED)

        for discipline, table, column, where in (
                ("lane", "claimq_job INDEXED BY claimq_job_by_due", "lane",
                 THERE),
                ("session", "claimq_batch INDEXED BY claimq_batch_by_session",
                 "session", "1")):
            if not self.columns(table.split()[0]):
                continue
            due = DUE if discipline == "lane" else BATCH_DUE
            for scope in self._distinct(table, column, where):
                note(discipline, scope,
                     ready=count(table, column, scope,
                                 "%s AND %s<=%d" % (where, due, now)),
                     delayed=count(table, column, scope,
                                   "%s AND %s>%d" % (where, due, now)))
        for row in self.rows(
                "SELECT queue, sum(last_seq-processed_seq) AS n"
                " FROM claimq_partition GROUP BY 1 LIMIT 1000"):
            note("outbox", row["queue"], ready=row["n"])
        for row in self.rows(
                "SELECT kind||'/'||label AS scope"
                " FROM claimq_holder WHERE expires_at_ms>? LIMIT 100", now):
            note("contest", row["scope"], held=1)
        for row in self.rows(
                "SELECT source, scope, count(*) AS n FROM (SELECT source, scope"
                " FROM claimq_letter INDEXED BY claimq_letter_by_scope"
                " WHERE due=-1 AND due IS NOT NULL LIMIT ?) GROUP BY 1, 2",
                COUNTED):
            scope = row["scope"]
            if row["source"] == "outbox":
                scope = scope.rpartition("/")[0]
            note(row["source"], scope, dead=row["n"])
        return list(found.values())

    def _distinct(self, table, column, where, limit=200):
        """The first values of an index' first column: one seek for each."""
        found, last = [], ""
        compare = ">="
        while len(found) < limit:
            last = self.value(
                "SELECT %s FROM %s WHERE %s%s? AND %s ORDER BY 1 LIMIT 1"
                % (column, table, column, compare, where), last)
            if last is None:
                break
            found.append(last)
            compare = ">"
        return found

    # ---------------------------------------------------------------------
    # Who holds what

    def held(self):
        """What is claimed, live or expired, at most HELD of each discipline; a
        row for each claim, with how many jobs of which `groups` it has.
        No index knows: this reads every job and batch, some at a time, and is
        for live.py."""
        found = []
        for discipline, table, key, scope, group in (
                ("lane", "claimq_job", "job_id", "lane", "group_key"),
                ("session", "claimq_batch", "enqueue_seq", "session",
                 "NULL")):
            claims = {}
            for first, last in self._parts(table, key):
                for row in self.rows(
                        "SELECT %s AS scope, %s AS key, 0 AS n, claim_id,"
                        " owner, incarnation, claimed_at_ms,"
                        " expires_at_ms, %s AS group_key FROM %s NOT INDEXED"
                        " WHERE %s>=? AND %s<? AND owner IS NOT NULL LIMIT ?"
                        % (scope, key, group, table, key, key), first, last,
                        HELD):
                    group_key = row.pop("group_key")
                    row = claims.setdefault(row["claim_id"], row)
                    row["n"] += 1
                    if group_key is not None:
                        of = row.setdefault("groups", {})
                        of[group_key] = of.get(group_key, 0) + 1
                if len(claims) >= HELD:
                    break
            for row in claims.values():
                del row["claim_id"]
                row["discipline"] = discipline
                found.append(row)
        for discipline, sql in (
                ("outbox", "SELECT queue AS scope, partition AS key,"
                 " claim_size AS n, owner, incarnation, claimed_at_ms,"
                 " expires_at_ms FROM claimq_partition"
                 " WHERE owner IS NOT NULL"),
                ("contest", "SELECT kind||'/'||label AS scope,"
                 " holder_id AS key, 1 AS n, owner, incarnation,"
                 " claimed_at_ms, expires_at_ms FROM claimq_holder"
                 " WHERE owner IS NOT NULL"),
                ("dead_letter", "SELECT scope, letter_id AS key, 1 AS n,"
                 " owner, incarnation, claimed_at_ms, expires_at_ms"
                 " FROM claimq_letter INDEXED BY claimq_letter_by_claim"
                 " WHERE claim_head IS NOT NULL")):
            for row in self.rows(sql + " LIMIT ?", HELD):
                row["discipline"] = discipline
                found.append(row)
        return found

    def _parts(self, table, key, size=20000):
        """Ranges of keys that cover a table.  Each is to be read in a
        transaction of its own: while one is open, SQLite cannot reuse the
        write-ahead log, and writers become slower as that grows."""
        first = self.value("SELECT min(%s) FROM %s" % (key, table))
        last = self.value("SELECT max(%s) FROM %s" % (key, table))
        while first is not None and first <= last:
            yield first, first + size
            first = self.value("SELECT %s FROM %s WHERE %s>=? ORDER BY 1"
                               " LIMIT 1" % (key, table, key), first + size)

    def recent_owners(self, limit=500):
        """Who has completed jobs lately: {owner: (jobs, last time)}."""
        return {row["owner"]: (row["n"], row["at_ms"]) for row in self.rows(
            "SELECT j.settled_owner AS owner, count(*) AS n,"
            " max(e.occurred_at_ms) AS at_ms FROM (SELECT job_id,"
            "   occurred_at_ms FROM claimq_event ORDER BY event_id DESC"
            "   LIMIT ?) AS e CROSS JOIN claimq_job AS j USING(job_id)"
            " WHERE j.settled_owner IS NOT NULL GROUP BY 1", limit)}

    def processed(self):
        """How far the cursors of each queue have come, added up."""
        return {row["queue"]: row["n"] for row in self.rows(
            "SELECT queue, sum(processed_seq) AS n FROM claimq_partition"
            " GROUP BY 1")}

    # ---------------------------------------------------------------------
    # Time: ids grow with time, so a time is found among them by halving.

    def first_at(self, table, key, column, at_ms):
        """The smallest key whose row is of at_ms or later; one more than the
        greatest if there is none."""
        low = self.value("SELECT min(%s) FROM %s" % (key, table))
        high = self.value("SELECT max(%s) FROM %s" % (key, table))
        if low is None:
            return 1
        high += 1
        while low < high:
            middle = (low + high) // 2
            row = self.db.execute(
                "SELECT %s, %s FROM %s WHERE %s>=? AND %s<? ORDER BY 1 LIMIT 1"
                % (key, column, table, key, key), (middle, high)).fetchall()
            if row and (row[0][1] or 0) < at_ms:
                low = row[0][0] + 1
            else:
                high = middle
        return low

    def tally(self, what, after, width_ms):
        """(rows, last): what came after the key `after`, how many of each lane
        in each width_ms of time, of at most BAR rows, and the last key of
        these; None if there is nothing.  what: submitted, or ended."""
        table, key, column, ok = {
            "submitted": ("claimq_job", "job_id", "created_at_ms", "1"),
            "ended": ("claimq_event", "event_id", "occurred_at_ms",
                      "outcome='success'")}[what]
        rows = self.rows(
            "SELECT lane, %s/? AS at, ok, count(*) AS n, max(%s) AS last"
            " FROM (SELECT %s, lane, %s, %s AS ok FROM %s WHERE %s>?"
            "   AND job_id>0 ORDER BY %s LIMIT ?) GROUP BY 1, 2, 3"
            % (column, key, key, column, ok, table, key, key),
            width_ms, after, BAR)
        last = max((row["last"] for row in rows), default=None)
        return rows, last

    def before(self, what, at_ms):
        """The last key before that time, for tally()."""
        return self.first_at(*{
            "submitted": ("claimq_job", "job_id", "created_at_ms"),
            "ended": ("claimq_event", "event_id", "occurred_at_ms")}[what],
            at_ms) - 1

    # ---------------------------------------------------------------------
    # The rows of a scope, page by page.  `after` is the key of the last row of
    # the page before, as JSON; the answer has that of the next page, or None.

    def page(self, discipline, scope, kind="", after=None, limit=PAGE):
        """{"rows": [...], "after": key or None}.  kind: of a lane `delayed`,
        `blocked` or `ended`, else what waits or is held; of an outbox the
        partition."""
        limit = max(1, min(limit, PAGE))
        if discipline == "lane":
            read, keys = {"ended": (self._ended, 1),
                          "blocked": (self._blocked, 1)}.get(
                              kind, (self._waiting, 6))
            types = [int] * keys
            if keys > 1:
                types[1] = (int, str)          # the bucket
            return read(scope, kind, _cursor(after, *types), limit)
        if discipline == "session":
            return self._batches(scope, _cursor(after, int, int), limit)
        if discipline == "outbox":
            partition = number_of(kind or 0)
            return self._messages(scope, partition, _cursor(after, int), limit)
        return {"rows": [], "after": None}

    _JOB = ("job_id, lane, partition, " + BUCKET + " AS bucket, " + DUE +
            " AS due, priority, created_at_ms,"
            " ifnull(available_at_ms, created_at_ms) AS available_at_ms,"
            " state, owner, claim_id, claimed_at_ms,"
            " expires_at_ms, terminal_at_ms, attempt_index, reclaim,"
            " capabilities, last_error, typeof(payload) AS type,"
            " length(payload) AS size, " + _cut_sql("payload", PREVIEW))

    def _next_bucket(self, lane, after):
        """The partition and the bucket that come after one, or None.  Buckets
        backwards: so those that require nothing, '[]', come first."""
        def first(what, where, *arguments):
            return self.db.execute(
                "SELECT %s FROM claimq_job INDEXED BY claimq_job_by_due"
                " WHERE lane=? AND %s AND %s LIMIT 1" % (what, THERE, where),
                [lane, *arguments]).fetchone()

        both = "partition, " + BUCKET
        of = "partition=? %s ORDER BY " + BUCKET + " DESC"
        found = after and first(both, of % ("AND %s<?" % BUCKET), *after)
        if found:
            return found
        found = first("partition", "partition>? ORDER BY partition",
                      after[0] if after else -(1 << 63))
        return found and first(both, of % "", *found)

    def _waiting(self, lane, kind, after, limit):
        """Jobs in the order of the index that claims use: of each partition and
        set of capabilities first what is ready, then the rest by the time it
        waits for.  A claimed job keeps its place for a while."""
        now = now_ms()
        least = now + 1 if kind == "delayed" else -1

        order = (DUE, "priority DESC", "created_at_ms", "job_id")

        def some(order, where, *arguments):
            return self.rows(
                "SELECT %s FROM claimq_job INDEXED BY claimq_job_by_due"
                " WHERE lane=? AND %s AND %s"
                " ORDER BY %s LIMIT ?"
                % (self._JOB, THERE, where, ", ".join(order)),
                lane, *arguments, limit + 1)

        def walk(group):
            if after:
                names = ("partition=?", BUCKET + "=?", DUE + "=?",
                         "priority=?", "created_at_ms=?")
                for n, then in ((5, "job_id>?"), (4, "created_at_ms>?"),
                                (3, "priority<?"), (2, DUE + ">?")):
                    yield from some(order[n - 2:],
                                    " AND ".join([*names[:n], then]),
                                    *after[:n + 1])
            while True:
                group = self._next_bucket(lane, group)
                if not group:
                    return
                yield from some(order, "partition=? AND %s=? AND %s>=?"
                                % (BUCKET, DUE), *group, least)

        rows, last = [], None
        for row in walk(after[:2] if after else None):
            row["kind"] = kind_of(row, now)
            if kind == "delayed" and row["kind"] != "delayed":
                continue                       # held: its lease ends then
            if len(rows) == limit:
                last = rows[-1]
                break
            rows.append(row)
        return {"rows": rows, "after": last and json.dumps(
            [last[name] for name in ("partition", "bucket", "due",
                                     "priority", "created_at_ms", "job_id")])}

    def jobs(self, lane=None, kind="open", search=None, before=None,
             limit=PAGE):
        """Jobs, the newest first: {"rows": ..., "before": id or None}.  kind:
        open, ended, all, or what kind_of() says.  It looks at SEARCH jobs; its
        `before` goes on from there."""
        before, now = before or (1 << 63) - 1, now_ms()
        first = self.value(
            "SELECT min(job_id) FROM (SELECT job_id FROM claimq_job NOT INDEXED"
            " WHERE job_id<? ORDER BY job_id DESC LIMIT ?)", before, SEARCH)
        where = {"all": "1", "ended": "terminal_at_ms IS NOT NULL",
                 "completed": "state='completed'", "failed": "state='failed'",
                 "cancelled": "state='cancelled'"}.get(
                     kind, "terminal_at_ms IS NULL")
        rows = []
        with contextlib.closing(self.db.execute(
                "SELECT %s FROM claimq_job NOT INDEXED WHERE job_id>=? AND"
                " job_id<? AND (?3 IS NULL OR lane=?3) AND %s"
                " ORDER BY job_id DESC" % (self._JOB, where),
                [first or 0, before, lane])) as cursor:
            names = [column[0] for column in cursor.description]
            for row in cursor:
                row = dict(zip(names, row))
                row["kind"] = kind_of(row, now)
                if kind in ("open", "ended", "all", row["kind"]) and (
                        not search or _has(search.casefold(), (
                            row["payload"], row["last_error"],
                            row["lane"]))):
                    rows.append(row)
                    if len(rows) == limit:
                        return {"rows": rows, "before": row["job_id"]}
        return {"rows": rows, "before": first}

    def _blocked(self, lane, kind, after, limit):
        """Jobs that wait for others."""
        ids = [row[0] for row in self.db.execute(
            "SELECT DISTINCT job_id FROM claimq_after WHERE job_id>?"
            " ORDER BY job_id LIMIT ?", [after or 0, SEARCH]).fetchall()]
        rows = self.rows(
            "SELECT %s FROM claimq_job WHERE job_id IN"
            " (SELECT value FROM json_each(?)) AND lane=?"
            " AND state='blocked' ORDER BY job_id LIMIT ?" % self._JOB,
            json.dumps(ids), lane, limit + 1)
        for row in rows:
            row["kind"] = "blocked"
        page = _cut(rows, limit, "job_id")
        if page["after"] is None and len(ids) == SEARCH:
            page["after"] = json.dumps(ids[-1])
        return page

    def _ended(self, lane, kind, after, limit):
        """Jobs that ended, the last first."""
        window = ("(SELECT * FROM claimq_event WHERE event_id<?"
                  " ORDER BY event_id DESC LIMIT %d)" % SEARCH)
        before = after or (1 << 63) - 1
        rows = self.rows(
            "SELECT event_id, job_id, outcome, error_class,"
            " occurred_at_ms AS terminal_at_ms FROM %s WHERE lane=?"
            " LIMIT ?" % window, before, lane, limit + 1)
        if len(rows) > limit:
            last = rows[limit - 1]["event_id"]
        else:
            last = self.value("SELECT min(event_id) FROM %s"
                              " HAVING count(*)>=?" % window, before, SEARCH)
        rows = rows[:limit]
        for row in rows:
            row.update((self.rows(
                "SELECT %s FROM claimq_job WHERE job_id=?" % self._JOB,
                row["job_id"]) or [{}])[0])
            row["kind"] = row.get("state") or row["outcome"]
        return {"rows": rows, "after": last and json.dumps(last)}

    def _batches(self, session, after, limit):
        now = now_ms()
        rows = self.rows(
            "SELECT enqueue_seq, batch_id, work_class, delivery_policy,"
            " slot_policy, merge_key, %s AS due,"
            " enqueued_at_ms AS created_at_ms,"
            " ifnull(available_at_ms, enqueued_at_ms) AS available_at_ms,"
            " owner, claim_id, claimed_at_ms, expires_at_ms, attempts, last_error, typeof(payload) AS type,"
            " length(payload) AS size, %s"
            " FROM %s"
            " WHERE session=? AND (%s, enqueue_seq)>(?,?)"
            " ORDER BY %s, enqueue_seq LIMIT ?"
            % (BATCH_DUE, _cut_sql("payload", PREVIEW),
               self._by("claimq_batch", "claimq_batch_by_session"),
               BATCH_DUE, BATCH_DUE),
            session, *(after or (-2, 0)), limit + 1)
        for row in rows:
            row["kind"] = kind_of(row, now)
        return _cut(rows, limit, "due", "enqueue_seq")

    def _messages(self, queue, partition, after, limit):
        """What the cursor of a partition has not passed yet."""
        done = self.value("SELECT processed_seq FROM claimq_partition"
                          " WHERE queue=? AND partition=?",
                          queue, partition)
        rows = self.rows(
            "SELECT message_id, seq, payload_type, created_at_ms,"
            " typeof(payload) AS type, length(payload) AS size, %s"
            " FROM %s WHERE queue=?"
            " AND partition=? AND seq>? ORDER BY seq LIMIT ?"
            % (_cut_sql("payload", PREVIEW),
               self._by("claimq_message", "claimq_message_by_seq")),
            queue, partition, max(done or 0, after or 0), limit + 1)
        return _cut(rows, limit, "seq")

    def partitions(self, queue):
        now = now_ms()
        rows = self.rows(
            "SELECT partition, last_seq, processed_seq, attempts, last_error,"
            " waiting_since_ms, available_at_ms, owner, claim_id,"
            " claimed_at_ms, expires_at_ms, claim_size, delivered_seq"
            " FROM claimq_partition WHERE queue=? ORDER BY partition",
            queue)
        for row in rows:
            row["kind"] = ("idle" if row["waiting_since_ms"] is None
                           else kind_of(row, now))
        return rows

    def holder(self, scope):
        kind, _, label = scope.partition("/")
        return self.rows(
            "SELECT holder_id, kind, label, fencing_token,"
            " attempts, owner, incarnation, claim_id, claimed_at_ms,"
            " expires_at_ms FROM claimq_holder"
            " WHERE kind=? AND label=?", kind, label)

    def limits(self, lane):
        """The limits of a lane and how full they are: `active` leases,
        `started` claims in the last per_ms, groups that are at theirs."""
        now = now_ms()
        if not self.columns("claimq_policy"):
            return []
        rows = self.rows("SELECT * FROM claimq_policy WHERE lane=?", lane)
        for row in rows:
            row["active"] = self.value(
                "SELECT count(*) FROM (SELECT 1 FROM claimq_slot"
                " WHERE lane=? AND expires_at_ms>? LIMIT ?)",
                lane, now, BAR)
            if row["per_ms"] is not None:
                row["started"] = self.value(
                    "SELECT count(*) FROM (SELECT at_ms FROM claimq_start"
                    " WHERE lane=? AND group_id=0 ORDER BY seq DESC"
                    " LIMIT 10000) WHERE at_ms>?", lane, now - row["per_ms"])
            row["full_groups"] = self.rows(
                "SELECT DISTINCT group_key, place AS opens_at_ms FROM"
                " (SELECT group_id, group_key FROM claimq_group WHERE lane=?"
                " LIMIT ?) CROSS JOIN claimq_head USING(group_id)"
                " WHERE job_id IS NOT NULL AND place>? LIMIT 20",
                lane, SEARCH, now)
        return rows

    def groups(self, lane):
        """The first groups of a lane that limits them or has them take turns:
        {"rows": [{"group_key", "held", "waiting", "opens_at_ms", "limit"}],
        "more": are there others, "rough": do more jobs wait than were counted}.
        `held` is None where the file does not count leases, `limit` is what
        keeps a group closed, opens_at_ms None if that is nothing, or for good.
        At most OF_GROUP jobs of a group are counted."""
        own = self.columns("claimq_group") and self.rows(
            "SELECT * FROM claimq_policy WHERE lane=?", lane)
        if not own or not own[0]["groups"]:
            return {"rows": [], "more": False, "rough": False}
        now, own = now_ms(), own[0]
        loose, rough = self._loose(lane)
        rows = self.rows(
            "SELECT group_id, group_key, ifnull((SELECT max(place)"
            " FROM claimq_head AS h WHERE h.group_id=g.group_id"
            " AND job_id IS NOT NULL), -1) AS opens_at_ms"
            " FROM claimq_group AS g WHERE lane=? ORDER BY group_key LIMIT ?",
            lane, GROUPS + 1)
        found = [self._group(own, row, now) for row in rows[:GROUPS]]
        for row in found:
            row["waiting"] = min(OF_GROUP, row["waiting"]
                                 + loose.pop(row["group_key"], 0))
        if len(rows) <= GROUPS:            # no claim has met the others yet
            found += [{"group_key": key, "held": 0, "waiting":
                       min(OF_GROUP, loose[key]), "opens_at_ms": None,
                       "limit": None} for key in sorted(loose)]
        return {"rows": found[:GROUPS], "rough": rough,
                "more": max(len(rows), len(found)) > GROUPS}

    def _group(self, own, row, now):
        lane, key, at = own["lane"], row["group_id"], row["opens_at_ms"]
        held = self.value(
            "SELECT count(*) FROM (SELECT 1 FROM claimq_slot"
            " WHERE lane=? AND group_id=? AND expires_at_ms>? LIMIT ?)",
            lane, key, now, OF_GROUP
        ) if own["counted"] else None
        waiting = 0
        for head, partition in self.db.execute(
                "SELECT head_id, partition FROM claimq_head WHERE group_id=?"
                " LIMIT 20", [key]).fetchall():
            waiting += self.value(
                "SELECT count(*) FROM (SELECT 1 FROM claimq_job INDEXED BY"
                " claimq_job_by_due WHERE %s LIMIT ?)" % OF_BUCKET, lane,
                partition, head, now, OF_GROUP)
        # The limits may have been changed since somebody looked at the group.
        limit, most = None, own["group_max_active"]
        if at > now and most is not None and (held or 0) >= most:
            limit = "group_max_active"
        elif at > now and own["group_rate"] is not None:
            limit = "group_rate"
        return {"group_key": row["group_key"], "held": held,
                "waiting": waiting, "limit": limit,
                "opens_at_ms": at if limit and at < NEVER else None}

    def _loose(self, lane):
        """({group_key: n}, more): jobs that no claim has put to their groups
        yet, of SEARCH that are looked at; and whether that were not all."""
        found, left, place = {}, SEARCH, None
        for _ in range(GROUPS):
            place = self._next_bucket(lane, place)
            if not place or left <= 0:
                break
            if not str(place[1]).startswith("g"):     # the next partition
                place = place[0], -(1 << 63)
                continue
            for row in self.rows(
                    "SELECT group_key, count(*) AS n, sum(claim_id IS NULL) AS"
                    " waiting FROM (SELECT group_key, claim_id FROM claimq_job"
                    " INDEXED BY claimq_job_by_due WHERE %s LIMIT ?)"
                    " GROUP BY 1" % OF_BUCKET,
                    lane, *place, now_ms(), left):
                left -= row["n"]
                if row["waiting"]:
                    found[row["group_key"]] = (
                        found.get(row["group_key"], 0) + row["waiting"])
        return found, left <= 0

    def policies(self, lane=None, every=False):
        """What was said by claimq_policy() of all lanes, of one, or of every
        lane that says nothing else (whose lane is NULL): {"lane", and the names
        of options}."""
        if not self.columns("claimq_policy"):
            return []
        names = [row["argument"] for row in self.rows(
            "SELECT argument FROM claimq_help WHERE name='claimq_policy'"
            " AND kind='option'")]
        names = [name for name in names
                 if name in self.columns("claimq_policy")]
        where = (" WHERE lane IS NULL" if every else
                 " WHERE lane=?" if lane is not None else "")
        return self.rows("SELECT lane, %s FROM claimq_policy%s ORDER BY lane"
                         % (", ".join('"%s"' % name for name in names), where),
                         *([lane] if lane is not None else []))

    def paused(self, lanes):
        """Those of these lanes that are paused: by their own policy, by that of
        every lane, or because they may hold nothing."""
        if not self.columns("claimq_policy"):
            return set()
        return {row["lane"] for row in self.rows(
            "SELECT l.value AS lane FROM json_each(?) AS l"
            " LEFT JOIN claimq_policy AS o ON o.lane=l.value"
            " LEFT JOIN claimq_policy AS e ON e.lane IS NULL"
            " WHERE ifnull(o.paused, e.paused)=1 OR o.max_active=0",
            json.dumps(lanes))}

    def schedules(self, after=None, limit=PAGE):
        """By name."""
        after = _cursor(after, str) or ""
        if not self.columns("claimq_schedule"):
            return {"rows": [], "after": None}
        rows = self.rows(
            "SELECT %s FROM claimq_schedule WHERE name>? ORDER BY name LIMIT ?"
            % self._short("claimq_schedule"), after, limit + 1)
        return _cut(rows, limit, "name")

    def schedules_of(self, lane, limit=PAGE):
        """Those of a lane that will come, the next first."""
        if not self.columns("claimq_schedule"):
            return []
        return self.rows(
            "SELECT %s FROM claimq_schedule INDEXED BY claimq_schedule_by_lane"
            " WHERE lane=? AND next_at_ms IS NOT NULL ORDER BY next_at_ms"
            " LIMIT ?" % self._short("claimq_schedule"), lane, limit)

    def _short(self, table, size=PREVIEW, without=()):
        """All columns of a table, those of any type, and headers, cut to this
        many characters; a payload is followed by its type and size."""
        found = []
        for row in self.rows("SELECT name, type FROM pragma_table_xinfo(?)",
                             table):
            name = row["name"]
            if name in without:
                continue
            if row["type"] == "ANY" or name == "headers":
                found.append(_cut_sql(name, size))
                if name == "payload":
                    found += ["typeof(payload) AS type",
                              "length(payload) AS size"]
            else:
                found.append('"%s"' % name)
        return ", ".join(found)

    # ---------------------------------------------------------------------
    # One row, and what happened to it

    def job(self, job_id):
        """The job, or None; with `kind`, and nothing that proves a claim."""
        rows = self.rows("SELECT %s FROM claimq_job WHERE job_id=?"
                         % self._short("claimq_job", PAYLOAD,
                                       ("lease_token", "settled_token")),
                         job_id)
        for row in rows:
            row["kind"] = kind_of(row, now_ms())
            return row
        return None

    def story(self, job_id):
        """A job and what happened to it, or None."""
        job = self.job(job_id)
        return job and {"job": job, "attempts": self.attempts(job_id),
                        "events": self.events(job),
                        "letters": self.letters_of(job),
                        "steps": self.steps(job_id),
                        "after": self.waits_for(job_id)}

    def attempts(self, job_id, limit=200):
        """The last attempts of a job, the first of them first."""
        rows = self.rows("SELECT * FROM claimq_past WHERE job_id=?"
                         " ORDER BY attempt_index DESC LIMIT ?", job_id, limit)
        rows += self.rows(
            "SELECT * FROM claimq_attempt WHERE job_id=? AND attempt_index="
            " (SELECT attempt_index FROM claimq_job WHERE job_id=?)",
            job_id, job_id)
        found = {row["attempt_index"]: row for row in rows}
        return [found[index] for index in sorted(found)]

    def steps(self, job_id):
        """The steps of a job that are stored, in the order of time; of more
        than STEPS the first by name."""
        if not self.columns("claimq_steps"):
            return []
        rows = self.rows(
            "SELECT name, at_ms, typeof(value) AS type, length(value) AS size,"
            " %s FROM claimq_steps WHERE job_id=? ORDER BY name LIMIT ?"
            % _cut_sql("value", PREVIEW), job_id, STEPS)
        return sorted(rows, key=lambda row: row["at_ms"])

    def events(self, job):
        """The event of a job that has ended: it is of the same time."""
        if job["terminal_at_ms"] is None:
            return []
        return self._near("claimq_event", "event_id", "occurred_at_ms",
                          job["terminal_at_ms"], "*", "job_id=?",
                          job["job_id"])

    def last_event(self):
        """The id of the last event; 0 if there is none."""
        if not self.columns("claimq_event"):
            return 0
        return self.value("SELECT max(event_id) FROM claimq_event") or 0

    def events_after(self, event_id, limit=1000):
        """The next events, in their order, each with what is known of its job;
        if that has been removed, NULLs."""
        if not self.columns("claimq_event"):
            self._columns.pop("claimq_event")     # It may be there next time
            return []
        return self.rows(
            "SELECT e.event_id, e.job_id, e.lane, e.outcome, j.retry_count,"
            " j.reclaim_count, j.created_at_ms, j.available_at_ms"
            " FROM (SELECT * FROM claimq_event WHERE event_id>?"
            "   ORDER BY event_id LIMIT ?) AS e"
            " LEFT JOIN claimq_job AS j ON j.job_id=e.job_id"
            " ORDER BY e.event_id", event_id, limit)

    def letters_of(self, job):
        if job["state"] != "failed":
            return []
        return self._near("claimq_letter", "letter_id", "failed_at_ms",
                          job["terminal_at_ms"], "letter_id, status, reason,"
                          " failed_at_ms, requeued_as",
                          "source='lane' AND ref=?", job["job_id"])

    def _near(self, table, key, column, at_ms, what, where, *arguments):
        first = self.first_at(table, key, column, at_ms)
        return self.rows(
            "SELECT %s FROM (SELECT * FROM %s WHERE %s>=? ORDER BY %s"
            " LIMIT %d) WHERE %s" % (what, table, key, key, SEARCH, where),
            max(0, first - 100), *arguments)

    def waits_for(self, job_id, limit=PAGE):
        """The jobs that this one waits for, and those that wait for it."""
        if not self.columns("claimq_after"):
            return {"before": [], "behind": []}
        sql = ("SELECT j.job_id, j.lane, j.state FROM claimq_after AS a"
               " CROSS JOIN claimq_job AS j ON j.job_id=a.%s WHERE a.%s=?"
               " ORDER BY 1 LIMIT ?")
        return {"before": self.rows(sql % ("after_id", "job_id"), job_id,
                                    limit),
                "behind": self.rows(sql % ("job_id", "after_id"), job_id,
                                    limit)}

    def batch(self, enqueue_seq):
        rows = self.rows("SELECT %s FROM claimq_batch WHERE enqueue_seq=?"
                         % self._short("claimq_batch", PAYLOAD,
                                       ("lease_token",)), enqueue_seq)
        for row in rows:
            row["kind"] = kind_of(row, now_ms())
            return row
        return None

    def message(self, message_id):
        rows = self.rows("SELECT %s FROM claimq_message WHERE message_id=?"
                         % self._short("claimq_message", PAYLOAD), message_id)
        return rows[0] if rows else None

    # ---------------------------------------------------------------------
    # Dead letters

    def letter(self, letter_id):
        rows = self.rows("SELECT %s FROM claimq_letter WHERE letter_id=?"
                         % self._short("claimq_letter", PAYLOAD,
                                       ("lease_token",)), letter_id)
        return rows[0] if rows else None

    def letters(self, status="open", source=None, scope=None, search=None,
                before=None, limit=PAGE, size=PREVIEW):
        """Letters, the newest first: {"rows": ..., "before": id or None}.
        status: open (pending and claimed ones), resolved, discarded, all.  A
        search looks at SEARCH letters; its `before` goes on from there."""
        before = before or (1 << 63) - 1
        reach = SEARCH if search or (scope and status != "open") else limit + 1
        ids = sorted(self._letter_ids(status, source, scope, before, reach),
                     reverse=True)[:reach]
        where, arguments = ["letter_id IN (SELECT value FROM json_each(?))"], [
            json.dumps(ids)]
        for name, value in (("source", source), ("scope", scope)):
            if value is not None:
                where.append(name + "=?")
                arguments.append(value)
        if search:
            arguments[0] = json.dumps(self._search(
                " AND ".join(where), arguments, search, limit + 1))
        rows = self.rows(
            "SELECT letter_id, source, scope, ref, status, reason, error_class,"
            " attempts, created_at_ms, failed_at_ms, owner, expires_at_ms,"
            " requeued_as, payload_type, typeof(payload) AS type,"
            " length(payload) AS size, %s"
            " FROM claimq_letter WHERE %s ORDER BY letter_id DESC LIMIT ?"
            % (_cut_sql("payload", size), " AND ".join(where)),
            *arguments, limit + 1)
        last = ids[-1] if len(ids) >= reach else None
        if len(rows) > limit:
            last = rows[limit - 1]["letter_id"]
        return {"rows": rows[:limit], "before": last}

    def _search(self, where, arguments, text, limit):
        """The newest of these letters that have the text in them.  It is
        looked for here and not by a function within SQL: Python does not call
        one with a payload that is not UTF-8, and the search would end."""
        found, text = [], text.casefold()
        with contextlib.closing(self.db.execute(
                "SELECT letter_id, reason, error_class, scope, ref,"
                " substr(payload, 1, %d) FROM claimq_letter WHERE %s"
                " ORDER BY letter_id DESC" % (PAYLOAD, where),
                arguments)) as cursor:
            for key, *values in cursor:
                if _has(text, values):
                    found.append(key)
                    if len(found) == limit:
                        break
        return found

    def _letter_ids(self, status, source, scope, before, reach):
        """Keys of letters below `before`, the greatest `reach` among them."""
        def some(where, *arguments):
            return [row[0] for row in self.db.execute(
                "SELECT letter_id FROM claimq_letter %s AND letter_id<?"
                " ORDER BY letter_id DESC LIMIT ?" % where,
                [*arguments, before, reach]).fetchall()]

        if status == "all":
            return some("WHERE 1")
        if status in ("resolved", "discarded"):
            return some("INDEXED BY claimq_letter_done WHERE status=?"
                        " AND status IN ('resolved','discarded')", status)
        found = []
        for each in [source] if source else ["lane", "outbox", "session"]:
            for due in ("due=-1", "due>=0"):
                where = "source=? AND %s AND due IS NOT NULL" % due
                if scope is None:
                    found += some("INDEXED BY claimq_letter_by_source WHERE "
                                  + where, each)
                else:
                    found += some("INDEXED BY claimq_letter_by_scope WHERE"
                                  " scope=? AND " + where, scope, each)
        return found


def kind_of(row, now):
    """What a row is at this moment, in the words of claimq_stats; of one that
    is over, how it ended."""
    if row.get("terminal_at_ms") is not None:
        return row["state"]
    if row.get("state") == "blocked":
        return "blocked"
    if row["claim_id"] is not None or row.get("state") == "active":
        return "held" if (row["expires_at_ms"] or 0) > now else "expired"
    if (row["available_at_ms"] or 0) > now:
        return "delayed"
    return "ready"


def _has(text, values):
    """Is the text, which is in small letters, in one of these?"""
    return any(text in _text(value).casefold() for value in values
               if value is not None)


def number_of(text):
    """The integer that a user gave, if SQLite has it; else ValueError."""
    number = int(text)
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError("%.40s: that is no number of 64 bits" % text)
    return number


def _cursor(text, *types):
    """The key that a page ended with: what _cut() made of a value, or of some
    in a list.  Anybody may have written it."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except RecursionError:
        found = None
    values = [found] if len(types) == 1 else found
    if not isinstance(values, list) or len(values) != len(types) or any(
            type(one) is bool or not isinstance(one, kind)
            for one, kind in zip(values, types)):
        raise ValueError("after: that is not where a page ended")
    for value in values:
        if type(value) is int:
            number_of(value)
    return found


def _cut(rows, limit, *key):
    """A page of rows, of which one more than its limit was asked for."""
    after = None
    if len(rows) > limit:
        last = rows[limit - 1]
        after = [last[name] for name in key]
        after = json.dumps(after[0] if len(after) == 1 else after)
    return {"rows": rows[:limit], "after": after}


def _where(**terms):
    """A WHERE for what is not None, and its arguments."""
    terms = {name: value for name, value in terms.items() if value is not None}
    if not terms:
        return "", []
    return (" WHERE " + " AND ".join(name + "=?" for name in terms),
            list(terms.values()))
