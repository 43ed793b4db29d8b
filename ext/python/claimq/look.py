"""What `claimq top`, `claimq board` and the scripts' commands read.

    look = Look("app.db")                 # read-only
    look.stats()                          # a dict for each scope
    with look.reading():                  # several questions, one snapshot
        look.job(17), look.attempts(17)

All SQL of these commands is in this file.  Three rules:

A page is read by keys.  Every list is a range of an index, of at most so many
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
BAR = 20000               # rows that are counted for a plot at a time

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
    return data.decode("utf-8", "replace")


def connect(path, write=False, timeout=5.0):
    """A connection with claimq that can only read, unless `write`."""
    file = pathlib.Path(path).absolute()
    if not file.is_file():
        raise Trouble("%s: there is no such file" % path)
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        raise Trouble(claimq._NO_EXTENSIONS)
    db = None
    try:
        db = sqlite3.connect(
            file.as_uri() + ("?mode=rw" if write else "?mode=ro"), uri=True,
            timeout=timeout, isolation_level=None, check_same_thread=False)
        db.text_factory = _text
        claimq.load(db)
        if not write:
            db.execute("PRAGMA query_only=1").fetchall()
        if not db.execute("SELECT 1 FROM sqlite_master"
                          " WHERE name='claimq_meta'").fetchall():
            raise Trouble("%s: there are no tables of claimq in this file"
                          % path)
    except sqlite3.Error as error:
        if db:
            db.close()
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
        self.db = connect(path, write, timeout)
        self._columns = {}

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
        """The columns of a table; none if there is no such table."""
        if table not in self._columns:
            self._columns[table] = {
                row["name"] for row in
                self.rows("SELECT name FROM pragma_table_xinfo(?)", table)}
        return self._columns[table]

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

    def fullest(self, limit):
        """(rows, totals, n): the scopes of each discipline that have most in
        them, the sums of all, and how many there are.  Rows are looked at one
        by one: there may be a million sessions."""
        cursor = self.db.execute("SELECT * FROM claimq_stats WHERE now_ms=?",
                                 [now_ms()])
        names = [column[0] for column in cursor.description]
        places = [names.index(name) for name in COUNTS]
        sums, n = [0] * len(COUNTS), 0
        best = {name: [] for name in DISCIPLINES}
        for row in cursor:
            counts = [row[place] for place in places]
            if row[0] != "dead_letter":
                n += 1
                sums = [a + b for a, b in zip(sums, counts)]
            heap = best[row[0]]
            item = (sum(counts), row[1], row)
            if len(heap) < limit:
                heapq.heappush(heap, item)
            else:
                heapq.heappushpop(heap, item)
        rows = [dict(zip(names, row)) for name in DISCIPLINES
                for _, _, row in sorted(best[name])]
        return rows, dict(zip(COUNTS, sums)), n

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

    def check(self):
        """What is wrong with the file, as SQLite and as claimq sees it."""
        found = []
        for row in self.rows("PRAGMA integrity_check"):
            if row["integrity_check"] != "ok":
                found.append({"table_name": "sqlite", "row_key": None,
                              "problem": row["integrity_check"]})
        return found + self.rows("SELECT * FROM claimq_check")

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
                ("lane", "claimq_job INDEXED BY claimq_job_by_due", "lane_id",
                 "due IS NOT NULL AND terminal_at_ms IS NULL"),
                ("session", "claimq_batch INDEXED BY claimq_batch_by_session",
                 "session_id", "due IS NOT NULL")):
            for scope in self._distinct(table, column, where):
                note(discipline, scope,
                     ready=count(table, column, scope,
                                 "%s AND due<=%d" % (where, now)),
                     delayed=count(table, column, scope,
                                   "%s AND due>%d" % (where, now)))
        for row in self.rows(
                "SELECT queue_name, sum(last_seq-processed_seq) AS n"
                " FROM claimq_partition GROUP BY 1 LIMIT 1000"):
            note("outbox", row["queue_name"], ready=row["n"])
        for row in self.rows(
                "SELECT subject_kind||'/'||subject_label AS scope"
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
        """What is claimed, live or expired, at most HELD of each discipline.
        No index knows: this reads every job and batch, some at a time, and is
        for live.py."""
        found = []
        for discipline, table, key, scope in (
                ("lane", "claimq_job", "job_id", "lane_id"),
                ("session", "claimq_batch", "enqueue_seq", "session_id")):
            claims = {}
            for first, last in self._parts(table, key):
                for row in self.rows(
                        "SELECT %s AS scope, %s AS key, 0 AS n, claim_id,"
                        " owner_id, incarnation_id, claimed_at_ms,"
                        " expires_at_ms FROM %s NOT INDEXED WHERE %s>=? AND"
                        " %s<? AND owner_id IS NOT NULL LIMIT ?"
                        % (scope, key, table, key, key), first, last, HELD):
                    row = claims.setdefault(row["claim_id"], row)
                    row["n"] += 1
                if len(claims) >= HELD:
                    break
            for row in claims.values():
                del row["claim_id"]
                row["discipline"] = discipline
                found.append(row)
        for discipline, sql in (
                ("outbox", "SELECT queue_name AS scope, partition AS key,"
                 " claim_size AS n, owner_id, incarnation_id, claimed_at_ms,"
                 " expires_at_ms FROM claimq_partition"
                 " WHERE owner_id IS NOT NULL"),
                ("contest", "SELECT subject_kind||'/'||subject_label AS scope,"
                 " holder_id AS key, 1 AS n, owner_id, incarnation_id,"
                 " claimed_at_ms, expires_at_ms FROM claimq_holder"
                 " WHERE owner_id IS NOT NULL"),
                ("dead_letter", "SELECT scope, letter_id AS key, 1 AS n,"
                 " owner_id, incarnation_id, claimed_at_ms, expires_at_ms"
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
            "SELECT j.settled_owner_id AS owner, count(*) AS n,"
            " max(e.occurred_at_ms) AS at_ms FROM (SELECT job_id,"
            "   occurred_at_ms FROM claimq_event ORDER BY event_id DESC"
            "   LIMIT ?) AS e CROSS JOIN claimq_job AS j USING(job_id)"
            " WHERE j.settled_owner_id IS NOT NULL GROUP BY 1", limit)}

    def processed(self):
        """How far the cursors of each queue have come, added up."""
        return {row["queue_name"]: row["n"] for row in self.rows(
            "SELECT queue_name, sum(processed_seq) AS n FROM claimq_partition"
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
            "SELECT lane_id, %s/? AS at, ok, count(*) AS n, max(%s) AS last"
            " FROM (SELECT %s, lane_id, %s, %s AS ok FROM %s WHERE %s>?"
            "   ORDER BY %s LIMIT ?) GROUP BY 1, 2, 3"
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
        after = json.loads(after) if after else None
        if discipline == "lane":
            read = {"ended": self._ended, "blocked": self._blocked}.get(
                kind, self._waiting)
            return read(scope, kind, after, limit)
        if discipline == "session":
            return self._batches(scope, after, limit)
        if discipline == "outbox":
            return self._messages(scope, int(kind or 0), after, limit)
        return {"rows": [], "after": None}

    _JOB = ("job_id, partition_key, cap_id, due, priority, created_at_ms,"
            " available_at_ms, state, owner_id, claim_id, claimed_at_ms,"
            " expires_at_ms, terminal_at_ms, attempt_index, reclaim,"
            " required_capabilities, last_error, typeof(payload) AS type,"
            " length(payload) AS size, " + _cut_sql("payload", PREVIEW))

    def _waiting(self, lane, kind, after, limit):
        """Jobs in the order of the index that claims use: of each partition and
        set of capabilities first what is ready, then the rest by the time it
        waits for.  A claimed job keeps its place for a while."""
        now = now_ms()
        least = now + 1 if kind == "delayed" else -1

        def some(where, *arguments):
            return self.rows(
                "SELECT %s FROM claimq_job INDEXED BY claimq_job_by_due"
                " WHERE lane_id=? AND due IS NOT NULL"
                " AND terminal_at_ms IS NULL AND %s"
                " ORDER BY partition_key, cap_id, due, priority DESC,"
                " created_at_ms, job_id LIMIT ?" % (self._JOB, where),
                lane, *arguments, limit + 1)

        def walk(group):
            if after:
                names = ("partition_key=?", "cap_id=?", "due=?", "priority=?",
                         "created_at_ms=?")
                for n, then in ((5, "job_id>?"), (4, "created_at_ms>?"),
                                (3, "priority<?"), (2, "due>?")):
                    yield from some(" AND ".join([*names[:n], then]),
                                    *after[:n + 1])
            while True:
                group = self.db.execute(
                    "SELECT partition_key, cap_id FROM claimq_job"
                    " INDEXED BY claimq_job_by_due WHERE lane_id=?"
                    " AND due IS NOT NULL AND terminal_at_ms IS NULL %s"
                    " ORDER BY partition_key, cap_id LIMIT 1"
                    % ("AND (partition_key, cap_id)>(?,?)" if group else ""),
                    [lane, *(group or ())]).fetchone()
                if not group:
                    return
                yield from some("partition_key=? AND cap_id=? AND due>=?",
                                *group, least)

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
            [last[name] for name in ("partition_key", "cap_id", "due",
                                     "priority", "created_at_ms", "job_id")])}

    def _blocked(self, lane, kind, after, limit):
        """Jobs that wait for others."""
        ids = [row[0] for row in self.db.execute(
            "SELECT DISTINCT job_id FROM claimq_after WHERE job_id>?"
            " ORDER BY job_id LIMIT ?", [after or 0, SEARCH]).fetchall()]
        rows = self.rows(
            "SELECT %s FROM claimq_job WHERE job_id IN"
            " (SELECT value FROM json_each(?)) AND lane_id=?"
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
            " occurred_at_ms AS terminal_at_ms FROM %s WHERE lane_id=?"
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
            " slot_policy, merge_key, due, enqueued_at_ms AS created_at_ms,"
            " available_at_ms, owner_id, claim_id, claimed_at_ms,"
            " expires_at_ms, attempts, last_error, typeof(payload) AS type,"
            " length(payload) AS size, %s"
            " FROM claimq_batch INDEXED BY claimq_batch_by_session"
            " WHERE session_id=? AND (due, enqueue_seq)>(?,?)"
            " ORDER BY due, enqueue_seq LIMIT ?"
            % _cut_sql("payload", PREVIEW),
            session, *(after or (-2, 0)), limit + 1)
        for row in rows:
            row["kind"] = kind_of(row, now)
        return _cut(rows, limit, "due", "enqueue_seq")

    def _messages(self, queue, partition, after, limit):
        """What the cursor of a partition has not passed yet."""
        done = self.value("SELECT processed_seq FROM claimq_partition"
                          " WHERE queue_name=? AND partition=?",
                          queue, partition)
        rows = self.rows(
            "SELECT message_id, seq, payload_type, created_at_ms,"
            " typeof(payload) AS type, length(payload) AS size, %s"
            " FROM claimq_message"
            " INDEXED BY claimq_message_by_seq WHERE queue_name=?"
            " AND partition=? AND seq>? ORDER BY seq LIMIT ?"
            % _cut_sql("payload", PREVIEW),
            queue, partition, max(done or 0, after or 0), limit + 1)
        return _cut(rows, limit, "seq")

    def partitions(self, queue):
        now = now_ms()
        rows = self.rows(
            "SELECT partition, last_seq, processed_seq, attempts, last_error,"
            " waiting_since_ms, available_at_ms, owner_id, claim_id,"
            " claimed_at_ms, expires_at_ms, claim_size, delivered_seq"
            " FROM claimq_partition WHERE queue_name=? ORDER BY partition",
            queue)
        for row in rows:
            row["kind"] = ("idle" if row["waiting_since_ms"] is None
                           else kind_of(row, now))
        return rows

    def holder(self, scope):
        kind, _, label = scope.partition("/")
        return self.rows(
            "SELECT holder_id, subject_kind, subject_label, fencing_token,"
            " attempts, owner_id, incarnation_id, claim_id, claimed_at_ms,"
            " expires_at_ms FROM claimq_holder"
            " WHERE subject_kind=? AND subject_label=?", kind, label)

    def limits(self, lane):
        """The limits of a lane and how full they are: `active` leases,
        `started` claims in the last per_ms, groups that are at theirs."""
        now = now_ms()
        if not self.columns("claimq_limit"):
            return []
        rows = self.rows("SELECT * FROM claimq_limit WHERE lane_id=?", lane)
        for row in rows:
            row["active"] = self.value(
                "SELECT count(*) FROM (SELECT 1 FROM claimq_slot"
                " WHERE lane_id=? AND expires_at_ms>? LIMIT ?)",
                lane, now, BAR)
            if row["per_ms"] is not None:
                row["started"] = self.value(
                    "SELECT count(*) FROM (SELECT at_ms FROM claimq_start"
                    " WHERE lane_id=? AND group_id=0 ORDER BY seq DESC"
                    " LIMIT 10000) WHERE at_ms>?", lane, now - row["per_ms"])
            row["full_groups"] = self.rows(
                "SELECT group_key, opens_at_ms FROM (SELECT group_key,"
                " opens_at_ms FROM claimq_group WHERE lane_id=? LIMIT ?)"
                " WHERE opens_at_ms>? LIMIT 20", lane, SEARCH, now)
        return rows

    def schedules(self, after=None, limit=PAGE):
        """By name."""
        if not self.columns("claimq_schedule"):
            return {"rows": [], "after": None}
        rows = self.rows(
            "SELECT %s FROM claimq_schedule WHERE name>? ORDER BY name LIMIT ?"
            % self._short("claimq_schedule"),
            json.loads(after) if after else "", limit + 1)
        return _cut(rows, limit, "name")

    def schedules_of(self, lane, limit=PAGE):
        """Those of a lane that will come, the next first."""
        if not self.columns("claimq_schedule"):
            return []
        return self.rows(
            "SELECT %s FROM claimq_schedule INDEXED BY claimq_schedule_by_lane"
            " WHERE lane_id=? AND next_at_ms IS NOT NULL ORDER BY next_at_ms"
            " LIMIT ?" % self._short("claimq_schedule"), lane, limit)

    def _short(self, table, size=PREVIEW, without=()):
        """All columns of a table, those of any type cut to so many characters
        and followed by their type and size."""
        found = []
        for row in self.rows("SELECT name, type FROM pragma_table_xinfo(?)",
                             table):
            name = row["name"]
            if name in without:
                continue
            if row["type"] == "ANY":
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

    def events(self, job):
        """The event of a job that has ended: it is of the same time."""
        if job["terminal_at_ms"] is None:
            return []
        return self._near("claimq_event", "event_id", "occurred_at_ms",
                          job["terminal_at_ms"], "*", "job_id=?",
                          job["job_id"])

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
        sql = ("SELECT j.job_id, j.lane_id, j.state FROM claimq_after AS a"
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
            where.append("claimq_found(?, reason, error_class, scope, ref,"
                         " substr(payload, 1, %d))" % PAYLOAD)
            arguments.append(search.casefold())
            self.db.create_function("claimq_found", -1, _found)
        rows = self.rows(
            "SELECT letter_id, source, scope, ref, status, reason, error_class,"
            " attempts, created_at_ms, failed_at_ms, owner_id, expires_at_ms,"
            " requeued_as, payload_type, typeof(payload) AS type,"
            " length(payload) AS size, %s"
            " FROM claimq_letter WHERE %s ORDER BY letter_id DESC LIMIT ?"
            % (_cut_sql("payload", size), " AND ".join(where)),
            *arguments, limit + 1)
        last = ids[-1] if len(ids) >= reach else None
        if len(rows) > limit:
            last = rows[limit - 1]["letter_id"]
        return {"rows": rows[:limit], "before": last}

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

    # ---------------------------------------------------------------------
    # Changes, on a connection that may write

    def requeue(self, ids):
        return self._each(ids, lambda key: self.value(
            "SELECT claimq_requeue(?, 'now_ms', ?)", key, now_ms()))

    def discard(self, ids):
        return self._each(ids, self._discard)

    def _discard(self, key):
        """What claimq_reject() does to a letter, for one that nobody holds."""
        now = now_ms()
        rows = self.rows("SELECT status, owner_id, expires_at_ms"
                         " FROM claimq_letter WHERE letter_id=?", key)
        if not rows:
            raise Refused("not_found", "there is no letter %s" % key)
        row = rows[0]
        if row["status"] in ("resolved", "discarded"):
            raise Refused("conflict", "letter %s is %s" % (key, row["status"]))
        if row["status"] == "reprocessing" and row["expires_at_ms"] > now:
            raise Refused("conflict", "letter %s is held by %s"
                          % (key, row["owner_id"]))
        self.db.execute(
            "UPDATE claimq_letter SET status='discarded', claim_id=NULL,"
            " lease_token=NULL, owner_id=NULL, incarnation_id=NULL,"
            " claimed_at_ms=NULL, expires_at_ms=NULL, claim_size=NULL,"
            " claim_head=NULL WHERE letter_id=?", [key])
        return "discarded"

    def revoke(self, ids):
        return self._each(ids, lambda key: self.value(
            "SELECT claimq_revoke(?, 'now_ms', ?)", key, now_ms()))

    def cancel(self, ids):
        return self._each(ids, lambda key: self.value(
            "SELECT claimq_cancel(?, 'now_ms', ?)", key, now_ms()))

    def _each(self, ids, change):
        """[{"id", "result"} or {"id", "code", "error"}]: one that is refused
        changes nothing, and keeps nobody else from being changed.  A hundred
        are one transaction: the write lock is held for milliseconds."""
        found = []
        for first in range(0, len(ids), 100):
            with claimq.transaction(self.db):
                for key in ids[first:first + 100]:
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


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__("claimq: %s: %s" % (code, text))
        self.code = code


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


def _cut(rows, limit, *key):
    """A page of rows, of which one more than its limit was asked for."""
    after = None
    if len(rows) > limit:
        last = rows[limit - 1]
        after = [last[name] for name in key]
        after = json.dumps(after[0] if len(after) == 1 else after)
    return {"rows": rows[:limit], "after": after}


def _found(text, *values):
    for value in values:
        if isinstance(value, bytes):
            value = _text(value)
        if value is not None and text in str(value).casefold():
            return 1
    return 0


def _where(**terms):
    """A WHERE for what is not None, and its arguments."""
    terms = {name: value for name, value in terms.items() if value is not None}
    if not terms:
        return "", []
    return (" WHERE " + " AND ".join(name + "=?" for name in terms),
            list(terms.values()))
