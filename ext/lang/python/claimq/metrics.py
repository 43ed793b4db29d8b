"""`claimq metrics`: what is in the queues of a file, as OpenMetrics.

    claimq metrics app.db                           once, for a script
    claimq metrics app.db --listen 127.0.0.1:9840   for Prometheus to ask

What is there now is counted by claimq_stats, as for the first screen of
`claimq board`.  What only rises is counted by who listens, from the moment on
at which it begins: it follows claimq_event, reads each event once, and looks up
what the job of it was like.  Nothing is written, and workers notice nothing.

A file of millions of rows takes a second to count, so the counts are kept, and
made again after twenty times as long as they took; claimq_counted_at_seconds
says of when they are.
"""
import bisect
import http.server
import socket
import sqlite3
import sys
import threading
import time

from .look import Look, Trouble, identity, now_ms

PORT = 9840
TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
STATES = ("ready", "delayed", "blocked", "limited", "held", "expired")
BOUNDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600, 86400)
FOLLOW = 5                # seconds between two looks at the events, at most
REST = 20                 # times as long as counting took

# name: (type, help).  A counter's samples end in _total.
GAUGES = {
    "claimq_depth": "Rows of a lane or queue by state; of sessions, contests"
                    " and dead letters all together.",
    "claimq_oldest_ready_age_seconds": "How long the oldest row that is ready"
                                       " has been ready.",
    "claimq_held": "Rows that are held by a live lease.",
    "claimq_expired": "Rows whose lease has expired and that nobody has taken"
                      " since.",
    "claimq_dead": "Dead letters that are pending.",
    "claimq_counted_at_seconds": "When these were counted.",
}
COUNTERS = {
    "claimq_completed": "Jobs that were completed.",
    "claimq_failed": "Jobs that failed: each is a dead letter.",
    "claimq_cancelled": "Jobs that were cancelled.",
    "claimq_retried": "Attempts that were retried, counted when the job ends.",
    "claimq_reclaimed": "Attempts whose lease expired and that were reclaimed,"
                        " counted when the job ends.",
}
HISTOGRAMS = {
    "claimq_waiting_seconds": "From when a job could be claimed to its first"
                              " claim, of jobs that have ended.",
    "claimq_running_seconds": "From a claim to its end, of each attempt of jobs"
                              " that have ended.",
}


def names(listening=True):
    """The names of all samples that can be exported."""
    found = set(GAUGES) | {"claimq_processed_total"}
    if listening:
        found |= {name + "_total" for name in COUNTERS}
        found |= {name + end for name in HISTOGRAMS
                  for end in ("_bucket", "_sum", "_count")}
    return found


def _quoted(text):
    return (str(text).replace("\\", "\\\\").replace('"', '\\"')
            .replace("\n", "\\n"))


def _labels(**given):
    return "{%s}" % ",".join('%s="%s"' % (name, _quoted(value))
                             for name, value in given.items())


class Text:
    """OpenMetrics, family by family."""

    def __init__(self):
        self.lines = []

    def family(self, name, kind, text, samples):
        """samples: (what follows the name, value)"""
        self.lines.append("# TYPE %s %s" % (name, kind))
        if name.endswith("_seconds"):
            self.lines.append("# UNIT %s seconds" % name)
        self.lines.append("# HELP %s %s" % (name, text))
        for rest, value in samples:
            self.lines.append("%s%s %s" % (name, rest, value))

    def end(self):
        return "\n".join([*self.lines, "# EOF"]) + "\n"


class Counts:
    """What is there now."""

    def __init__(self, look):
        self.now = now_ms()
        self.rows = {}                    # labels: counts, of lanes and queues
        for row in look.scopes():
            where = {"discipline": row["discipline"]}
            if row["discipline"] == "lane":
                where["lane"] = row["scope"]
            elif row["discipline"] == "outbox":
                where["queue"] = row["scope"]
            found = self.rows.setdefault(_labels(**where), dict(
                where, dead=0, oldest=None, **dict.fromkeys(STATES, 0)))
            for name in (*STATES, "dead"):
                found[name] += row[name]
            if row["oldest_ready_at_ms"] is not None:
                found["oldest"] = min(row["oldest_ready_at_ms"],
                                      found["oldest"]
                                      or row["oldest_ready_at_ms"])
        self.processed = look.processed()
        self.lanes = [row["lane"] for row in self.rows.values()
                      if "lane" in row]

    def write(self, text):
        def gauge(name, samples):
            text.family(name, "gauge", GAUGES[name], samples)

        rows = [(labels, row) for labels, row in self.rows.items()]
        gauge("claimq_depth", [
            (labels[:-1] + ',state="%s"}' % state, row[state])
            for labels, row in rows for state in STATES])
        gauge("claimq_oldest_ready_age_seconds", [
            (labels, max(0, self.now - row["oldest"]) / 1000)
            for labels, row in rows if row["oldest"] is not None])
        for name in ("held", "expired", "dead"):
            gauge("claimq_" + name, [(labels, row[name])
                                     for labels, row in rows])
        gauge("claimq_counted_at_seconds", [("", self.now / 1000)])
        text.family("claimq_processed", "counter",
                    "Messages of a queue that were processed.",
                    [("_total" + _labels(queue=queue), n)
                     for queue, n in self.processed.items()])


class Histogram:
    def __init__(self):
        self.buckets, self.sum = [0] * (len(BOUNDS) + 1), 0

    def add(self, ms):
        self.buckets[bisect.bisect_left(BOUNDS, max(0, ms) / 1000)] += 1
        self.sum += max(0, ms)

    def samples(self, lane):
        n = 0
        for bound, one in zip((*BOUNDS, "+Inf"), self.buckets):
            n += one
            yield "_bucket" + _labels(lane=lane, le=bound if bound == "+Inf"
                                      else float(bound)), n
        yield "_count" + _labels(lane=lane), n
        yield "_sum" + _labels(lane=lane), self.sum / 1000


class Follower:
    """What only rises, since it began."""

    def __init__(self, look):
        self.last = look.last_event()
        self.counts = {name: {} for name in COUNTERS}
        self.times = {name: {} for name in HISTOGRAMS}

    def follow(self, look):
        while True:
            rows = look.events_after(self.last)
            for row in rows:
                self._count(row, look.attempts(row["job_id"]))
                self.last = row["event_id"]
            if not rows:
                return

    def _add(self, name, lane, n):
        self.counts[name][lane] = self.counts[name].get(lane, 0) + n

    def _count(self, row, attempts):
        if row["outcome"] == "restored":        # the file, and of no job
            return
        lane = row["lane"]
        self._add({"success": "claimq_completed", "failed": "claimq_failed"}
                  .get(row["outcome"], "claimq_cancelled"), lane, 1)
        self._add("claimq_retried", lane, row["retry_count"] or 0)
        self._add("claimq_reclaimed", lane, row["reclaim_count"] or 0)
        starts = [one["started_at_ms"] for one in attempts]
        if starts and row["created_at_ms"] is not None:
            first = min(starts)
            since = row["available_at_ms"]
            if since is None or since > first:      # by a retry
                since = row["created_at_ms"]
            self._time("claimq_waiting_seconds", lane, first - since)
        for one in attempts:
            if one["ended_at_ms"] is not None:
                self._time("claimq_running_seconds", lane,
                           one["ended_at_ms"] - one["started_at_ms"])

    def _time(self, name, lane, ms):
        self.times[name].setdefault(lane, Histogram()).add(ms)

    def write(self, text, lanes):
        lanes = sorted({*lanes, *(lane for counts in self.counts.values()
                                  for lane in counts)})
        for name, about in COUNTERS.items():
            text.family(name, "counter", about, [
                ("_total" + _labels(lane=lane),
                 self.counts[name].get(lane, 0)) for lane in lanes])
        for name, about in HISTOGRAMS.items():
            text.family(name, "histogram", about, [
                sample for lane in lanes for sample in
                self.times[name].get(lane, Histogram()).samples(lane)])


class Metrics:
    """A file that is asked again and again, by several at once."""

    def __init__(self, path):
        self.path = path
        self._lock = threading.Lock()
        self._look = None
        self._open()

    def _open(self):
        look = Look(self.path)
        try:
            self._follower = Follower(look)
        except BaseException:
            look.close()
            raise
        if self._look:
            self._look.close()
        self._look, self._counts, self._until = look, None, 0

    def close(self):
        with self._lock:
            self._look.close()

    def follow(self):
        with self._lock:
            if identity(self.path) != self._look.identity:
                self._open()              # another file was put there
            self._follower.follow(self._look)

    def text(self):
        self.follow()
        with self._lock:
            begun = time.monotonic()
            if begun >= self._until:
                with self._look.reading():
                    self._counts = Counts(self._look)
                took = time.monotonic() - begun
                self._until = begun + took * (1 + REST)
            text = Text()
            self._counts.write(text)
            self._follower.write(text, self._counts.lanes)
            return text.end()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, metrics, host, port):
        self.metrics = metrics
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    @property
    def url(self):
        host, port = self.server_address[:2]
        return "http://%s:%d/metrics" % (
            "[%s]" % host if ":" in host else host, port)

    def handle_error(self, request, address):
        pass                              # who asked has gone


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        code, kind = 200, TYPE
        if self.path.partition("?")[0] != "/metrics":
            code, kind, body = 404, "text/plain", "see /metrics\n"
        else:
            try:
                body = self.server.metrics.text()
            except (sqlite3.Error, Trouble) as error:
                code, kind, body = 503, "text/plain", "%s\n" % error
        body = body.encode("utf-8", "replace")
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def address(text):
    """HOST:PORT, HOST, :PORT or PORT; of this machine itself unless said."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = ("", text) if text.isdigit() else (text, str(PORT))
    elif not port.isdigit() or text.count(":") > 1 and host[:1] != "[":
        host, port = text, str(PORT)      # IPv6 without a port
    if not int(port) < 65536:
        raise ValueError(text)
    return host.strip("[]") or "127.0.0.1", int(port)


def main(options):
    if not options.listen:
        look = Look(options.file)
        try:
            text = Text()
            with look.reading():
                Counts(look).write(text)
        finally:
            look.close()
        sys.stdout.write(text.end())
        return 0
    metrics = Metrics(options.file)
    try:
        server = Server(metrics, *options.listen)
    except OSError as error:
        metrics.close()
        raise Trouble("%s port %d: %s" % (*options.listen, error.strerror))
    print(server.url, flush=True)
    stopped = threading.Event()

    def keep_following():
        while not stopped.wait(FOLLOW):
            try:
                metrics.follow()
            except (sqlite3.Error, Trouble):
                pass                      # who asks learns of it
    threading.Thread(target=keep_following, daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        stopped.set()
        server.server_close()
    return 0
