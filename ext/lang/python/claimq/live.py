"""The picture that `claimq top` and `claimq board` show, kept up to date.

    live = Live("app.db")
    live.start()
    number = live.changed(number, 10)     # waits until something has changed
    live.picture                          # what there is, as a dict

Two threads, each with a read-only connection.  The watcher sleeps in
claimq_wait() and so learns of each commit; it also notices when a row falls due
or a lease ends, which no commit tells.  The counter then looks at everything,
and rests: thirty times as long as the looking took (a hundred times in a
database without WAL, where a reader keeps writers waiting), so that nobody
notices it.  A file that is counted in 5 ms is counted several times a second,
one of millions of rows that takes 2 s once a minute; the picture says how old
it is.  Nothing else is ever done behind the back of a request.

A Live is of one file: when another has been put at its path, the watcher
reports a change, current() is false, and successor() is a Live of that one.

The plots of lanes are made of what the database remembers: which jobs were
submitted and which ended, when.  Each of these rows is read once.
"""
import collections
import sqlite3
import threading
import time

from .look import COUNTS, Look, Trouble, identity, now_ms

BUCKET = 10000            # ms: one bar of a plot
BUCKETS = 60              # ten minutes
SCOPES = 2000             # of each discipline, the fullest
SEEN = 60000              # ms: who was seen since then is there
PAUSE = 0.25              # seconds between two pictures, at least


class Live:
    def __init__(self, path, pause=PAUSE):
        self.path, self.pause = path, pause
        self.picture = None
        self.trouble = None               # what went wrong last, or None
        self.watchers = 0                 # how many are looking
        self.number = 0                   # of the last change
        self.identity = None              # which file it is, and how many
        self.edition = 1                  # there have been at the path
        self._more = threading.Condition()
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._threads = []
        self._looks = []
        self._last = {}                   # the keys up to which was read:
        self._past = {}                   # {bar: {lane: [submitted, ok, bad]}}
        self._depths = collections.deque(maxlen=BUCKETS)
        self._processed = collections.deque(maxlen=240)

    def start(self):
        """Raises Trouble if the file cannot be read."""
        try:
            self._looks.append(Look(self.path))
            self._looks.append(Look(self.path))
            self.identity = self._looks[0].identity
            if self._looks[1].identity != self.identity:
                raise Trouble("%s: another file is being put there"
                              % self.path)
        except BaseException:
            self.stop()
            raise
        for run, look in zip((self._watch, self._count), self._looks):
            self._threads.append(threading.Thread(
                target=self._safely, args=[run, look], daemon=True))
        for thread in self._threads:
            thread.start()

    def current(self):
        """Is it still this file that is at its path?"""
        return identity(self.path) == self.identity

    def successor(self):
        """A Live of the file that is at the path now, started; this one is
        stopped.  Raises Trouble, and goes on, if that file cannot be read."""
        newer = Live(self.path, self.pause)
        newer.edition, newer.number = self.edition + 1, self.number + 1
        newer.start()
        self.stop()
        return newer

    def stop(self):
        self._stopped.set()
        self._wanted.set()
        with self._more:
            self._more.notify_all()
        for look in self._looks:
            look.db.interrupt()
        for thread in self._threads:
            thread.join()
        for look in self._looks:
            look.close()
        self._looks, self._threads = [], []

    def changed(self, number, seconds):
        """The number of the last change; waits, but not for longer than that,
        while it is the given one."""
        with self._more:
            self._more.wait_for(
                lambda: self.number != number or self._stopped.is_set(),
                seconds)
            return self.number

    def watching(self, n):
        """n more are looking, or fewer."""
        with self._more:
            self.watchers += n

    @property
    def stopped(self):
        return self._stopped.is_set()

    def _notify(self):
        with self._more:
            self.number += 1
            self._more.notify_all()

    def _safely(self, run, look):
        """A lock that is held for long, or a file that is being replaced, ends
        nothing: it is shown, and tried again."""
        while not self._stopped.is_set():
            try:
                run(look)
            except sqlite3.Error as error:
                if self._stopped.is_set():
                    return
                self.trouble = str(error)
                self._notify()
                self._stopped.wait(2)

    def _watch(self, look):
        seen = 0                          # up to when nothing is to be noticed
        there = self.identity
        while not self._stopped.is_set():
            if identity(self.path) != there:
                there = identity(self.path)
                self._notify()
            left = 1000
            due = self.picture and self.picture["next_at_ms"]
            if due and due > seen:
                left = min(left, due - now_ms() + 1)
            if not look.wait(left):
                if left == 1000 or due > now_ms():
                    continue
                seen = due
            self._wanted.set()
            self._notify()
            self._stopped.wait(self.pause)

    def _count(self, look):
        rest = 30 if look.value("PRAGMA journal_mode") == "wal" else 100
        if self.picture is None:
            rows = [dict(row, rate=None) for row in look.preview()]
            self.picture = {
                "at_ms": now_ms(), "took_ms": 0, "approx": True, "held": [],
                "scopes": rows, "all_scopes": len(rows),
                "totals": {name: sum(row[name] for row in rows)
                           for name in COUNTS},
                "workers": [], "past": [{}] * BUCKETS, "depths": [],
                "leaving": ({}, False), "next_at_ms": None}
            self._notify()
        while not self._stopped.is_set():
            self._wanted.clear()
            begun = time.monotonic()
            picture = self._look(look)
            took = time.monotonic() - begun
            self.picture = dict(picture, took_ms=int(took * 1000))
            self.trouble = None
            self._notify()
            self._stopped.wait(max(self.pause, took * rest))
            # When nobody looks, what is wanted is one point in each bar.
            while not self._stopped.is_set():
                if self._wanted.wait(1) and (
                        self.watchers or now_ms() - self.picture["at_ms"]
                        > BUCKET / 2):
                    break
                if self._wanted.is_set():
                    self._stopped.wait(0.2)

    def _look(self, look):
        """Everything.  Each part is a read transaction of its own: what one
        looks at together with the next need not be of the same moment."""
        now = now_ms()
        scopes, totals, n = look.fullest(SCOPES)
        held = look.held()
        owners = look.recent_owners()
        past = self._tally(look, now)
        processed = look.processed()
        self._processed.append((now, processed))
        for row in scopes:
            row["rate"] = None
            if row["discipline"] == "lane":
                row["rate"] = _lane_rate(past, row["scope"], now)
            elif row["discipline"] == "outbox":
                row["rate"] = self._rate(row["scope"])
        self._remember(now, scopes)
        return {
            "at_ms": now, "approx": False, "scopes": scopes, "held": held,
            "totals": totals, "all_scopes": n,
            "workers": workers(held, owners, now), "past": past,
            "depths": list(self._depths), "leaving": look.leaving(),
            "next_at_ms": _next(scopes, held, now)}

    def _tally(self, look, now):
        """{lane: [submitted, succeeded, other ends]} for each bar."""
        starts = _starts(now)
        for what in ("submitted", "ended"):
            if what not in self._last:
                self._last[what] = look.before(what, starts[0])
            for _ in range(5):            # 100,000 rows; the rest next time
                rows, last = look.tally(what, self._last[what], BUCKET)
                if last is None:
                    break
                self._last[what] = last
                for row in rows:
                    bar = self._past.setdefault((row["at"] or 0) * BUCKET, {})
                    place = 0 if what == "submitted" else 2 - row["ok"]
                    bar.setdefault(row["lane"], [0, 0, 0])[place] += row["n"]
        for old in [at for at in self._past if at < starts[0]]:
            del self._past[old]
        return [{lane: list(counts) for lane, counts
                 in self._past.get(start, {}).items()} for start in starts]

    def _rate(self, queue):
        """Messages per second of a queue, as far as we have watched, at most
        for a minute."""
        last, n = self._processed[-1][0], self._processed[-1][1].get(queue, 0)
        for at, processed in self._processed:
            if at > last - 60000 and at < last and queue in processed:
                return max(0, n - processed[queue]) * 1000 / (last - at)
        return None

    def _remember(self, now, scopes):
        """The depths of what leaves no trace in the database."""
        start = now - now % BUCKET
        depths = {(row["discipline"], row["scope"]): depth(row)
                  for row in scopes if row["discipline"] != "lane"}
        if len(depths) > 500:
            depths = dict(sorted(depths.items(), key=lambda item: -item[1])
                          [:500])
        if self._depths and self._depths[-1][0] == start:
            self._depths.pop()
        self._depths.append((start, depths))


def depth(row):
    """What there is to be done in a scope."""
    return sum(row[name] for name in COUNTS if name != "dead")


def series(picture, discipline=None, scope=None):
    """The plots of a scope, or of all lanes: {"width_ms", "end_ms", "depth":
    [...], "done": [...], "failed": [...]}, the last element is the present.
    The depth of a lane in the past is computed: what is there now, less what
    was submitted since, and what ended since.  That of other scopes is what was
    seen, None before that."""
    starts = _starts(picture["at_ms"])
    done, failed, depths = [], [], []
    if discipline in (None, "lane"):
        now = sum(depth(row) for row in picture["scopes"]
                  if row["discipline"] == "lane"
                  and scope in (None, row["scope"]))
        for bar in picture["past"]:
            lanes = bar if scope is None else bar.keys() & {scope}
            done.append(sum(bar[lane][1] for lane in lanes))
            failed.append(sum(bar[lane][2] for lane in lanes))
        for n in range(BUCKETS - 1, -1, -1):
            depths.append(max(0, now))
            bar = picture["past"][n]
            lanes = bar if scope is None else bar.keys() & {scope}
            now += done[n] + failed[n] - sum(bar[lane][0] for lane in lanes)
        depths.reverse()
    else:
        seen, last = dict(picture["depths"]), None
        for start in starts:
            if start in seen:
                last = seen[start].get((discipline, scope), 0)
            depths.append(last)
        done = failed = None
    return {"width_ms": BUCKET, "end_ms": starts[-1] + BUCKET,
            "at_ms": picture["at_ms"], "depth": depths, "done": done,
            "failed": failed}


def _lane_rate(past, lane, now):
    """Completions per second in the last minute: six bars, and as much of the
    present one as there is."""
    n = sum(bar[lane][1] for bar in past[-7:] if lane in bar)
    return n * 1000 / (6 * BUCKET + max(1, now % BUCKET))


def _starts(now):
    first = now - now % BUCKET - (BUCKETS - 1) * BUCKET
    return [first + n * BUCKET for n in range(BUCKETS)]


def _next(scopes, held, now):
    """When something changes without a commit."""
    times = [row["next_at_ms"] for row in scopes
             if row["next_at_ms"] is not None]
    times += [row["expires_at_ms"] for row in held
              if row["expires_at_ms"] is not None]
    times = [at for at in times if at > now]
    return min(times) if times else None


def present(found, now):
    """Those of workers() that are there: who holds something, if only by a
    lease that has ended, or was seen in the last minute."""
    return [row for row in found if row["live"] or row["expired"]
            or now - (row["seen_ms"] or 0) < SEEN]


def workers(held, owners, now):
    """Whoever holds something, or has completed something: Look.held() and
    Look.recent_owners(), put together."""
    found = {}
    for row in held:
        worker = found.setdefault(
            (row["owner"], row["incarnation"] or ""),
            {"owner": row["owner"],
             "incarnation": row["incarnation"] or "", "live": 0,
             "expired": 0, "until_ms": None, "done": 0, "seen_ms": None,
             "holds": []})
        live = (row["expires_at_ms"] or 0) > now
        worker["live" if live else "expired"] += 1
        if live and (worker["until_ms"] is None
                     or row["expires_at_ms"] < worker["until_ms"]):
            worker["until_ms"] = row["expires_at_ms"]
        worker["seen_ms"] = max(worker["seen_ms"] or 0,
                                row["claimed_at_ms"] or 0)
        if len(worker["holds"]) < 20:
            worker["holds"].append(row)
    for owner, (n, at) in owners.items():
        mine = [worker for (name, _), worker in found.items() if name == owner]
        if not mine:
            mine = [found.setdefault((owner, ""), {
                "owner": owner, "incarnation": "", "live": 0,
                "expired": 0, "until_ms": None, "done": 0, "seen_ms": None,
                "holds": []})]
        mine[-1]["done"] = n
        mine[-1]["seen_ms"] = max(mine[-1]["seen_ms"] or 0, at)
    return sorted(found.values(), key=lambda worker: (
        -worker["live"] - worker["expired"], str(worker["owner"]),
        worker["incarnation"]))
