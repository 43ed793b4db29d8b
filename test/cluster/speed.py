"""speed.py: jobs a second through the cluster, beside hand-written SQL.

    for line in table(nodes.addresses(), jobs=200, rounds=3, clients=[1, 4]):
        print(line)

Hand-written means a table with an owner and the end of a lease, an UPDATE ...
RETURNING that claims, and a DELETE that completes: no order but that of the
keys, no attempts, no fencing, and no answer for a request that is repeated.
claimq's calls have a request and the time, as they must have on a cluster.

The ways take turns, so that a busy minute of the machine hits all of them; the
figures are medians of the rounds.
"""
import json, multiprocessing, statistics, threading, time, uuid

from client import CallError, Cluster, LOCAL, now_ms
from rqlite import PATIENCE, die_with_parent

SETUP = """
CREATE TABLE IF NOT EXISTS hand(
  id INTEGER PRIMARY KEY, payload, owner TEXT, expires INTEGER DEFAULT 0);
"""


class Hand:
    """Hand-written SQL."""
    def __init__(self, name, size):
        self.name, self.size = name, size

    def fill(self, n):
        return [[SETUP], ["DELETE FROM hand"], [
            "INSERT INTO hand(payload) WITH RECURSIVE c(i) AS (SELECT 1 UNION"
            " ALL SELECT i+1 FROM c WHERE i<?) SELECT 'job ' || i FROM c", n]]

    def count(self):
        return ["SELECT count(*) FROM hand"]

    def claim(self):
        now = now_ms()
        return ["UPDATE hand SET owner=?, expires=? WHERE id IN (SELECT id"
                " FROM hand WHERE expires<=? ORDER BY id LIMIT ?)"
                " RETURNING id, payload", self.name, now + 60000, now,
                self.size]

    def complete(self, rows):
        marks = ",".join("?" for _ in rows)
        return [[f"DELETE FROM hand WHERE owner=? AND id IN ({marks})",
                 self.name, *(row[0] for row in rows)]]


class Claimq:
    """A lane."""
    def __init__(self, name, size):
        self.name, self.size = name, size

    def fill(self, n):
        return [["INSERT INTO claimq_job(lane_id, payload, created_at_ms,"
                 " available_at_ms) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL"
                 " SELECT i+1 FROM c WHERE i<?) SELECT 'speed', 'job ' || i,"
                 " ?, ? FROM c", n, now_ms(), now_ms()]]

    def count(self):
        return ["SELECT count(*) FROM claimq_job WHERE lane_id='speed' AND"
                " terminal_at_ms IS NULL"]

    def claim(self):
        return ["SELECT claim_id, lease_token, payload"
                " FROM claimq_lane('speed', ?, 60000, ?) WHERE now_ms=?"
                " AND request=?", self.name, self.size, now_ms,
                uuid.uuid4().hex]

    def complete(self, rows):
        """One statement, however many jobs."""
        return [["SELECT claimq_complete(value->>0, value->>1, 'now_ms', ?,"
                 " 'request', value->>2) FROM json_each(?)", now_ms,
                 json.dumps([[*row[:2], uuid.uuid4().hex] for row in rows])]]


WAYS = [("hand-written SQL, two requests a job", Hand, 1, False),
        ("hand-written SQL, one request a job", Hand, 1, True),
        ("hand-written SQL, ten jobs a request", Hand, 10, True),
        ("claimq, two requests a job", Claimq, 1, False),
        ("claimq, one request a job", Claimq, 1, True),
        ("claimq, ten jobs a request", Claimq, 10, True)]


def answered(answers):
    for answer in answers:
        if isinstance(answer, CallError):
            raise answer
    return answers


def client(pipe, nodes, number, kind, size, together):
    """Take jobs until there are none; send (jobs, begun, ended, times)."""
    die_with_parent()
    nodes = nodes[number % len(nodes):] + nodes[:number % len(nodes)]
    cluster = Cluster(nodes, timeout=20, patience=PATIENCE)
    way = kind(f"client{number}", size)
    jobs, times, settle = 0, [], []
    cluster.call(["SELECT 1"])
    pipe.send("ready")
    pipe.recv()
    begun = time.monotonic()
    while True:
        start = time.monotonic()
        if settle and not together:
            answered(cluster.call(*settle))
            times.append(time.monotonic() - start)
            start, settle = time.monotonic(), []
        rows = answered(cluster.call(*settle, way.claim()))[-1]
        times.append(time.monotonic() - start)
        if not rows:
            break
        jobs += len(rows)
        settle = way.complete(rows)
    pipe.send((jobs, begun, time.monotonic(), times))


def measure(nodes, way, clients, jobs):
    """Jobs a second, and the times of all requests.  Nobody can tell whether
    hand-written SQL whose answer was lost has been carried out, and it is sent
    again: then jobs are missing for a minute, and it is measured anew."""
    for _ in range(10):
        cluster, kind = Cluster(nodes, patience=PATIENCE), way[1]("", 0)
        answered(cluster.call(*kind.fill(jobs)))
        there = answered(cluster.call(kind.count()))[0][0][0]
        done, speed, times = one_round(nodes, way, clients)
        if done == there:
            return speed, times
        if way[1] is Claimq:
            break
    raise RuntimeError(f"{way[0]}: {done} of {there} jobs")


def one_round(nodes, way, clients):
    """Have all jobs done; their number, jobs a second, times of requests."""
    _, kind, size, together = way
    context, crew = multiprocessing.get_context("fork"), []
    for number in range(clients):
        ours, theirs = context.Pipe()
        process = context.Process(target=client, daemon=True, args=(
            theirs, nodes, number, kind, size, together))
        process.start()
        theirs.close()
        crew.append((ours, process))
    try:
        for pipe, _ in crew:
            pipe.recv()
        for pipe, _ in crew:
            pipe.send("go")
        seen = [pipe.recv() for pipe, _ in crew]
    finally:
        for _, process in crew:
            process.join(1)
            process.kill()
    jobs = sum(s[0] for s in seen)
    spent = max(s[2] for s in seen) - min(s[1] for s in seen)
    return jobs, jobs / spent, sorted(t for s in seen for t in s[3])


def percentile(times, share):
    return 1000 * times[min(len(times) - 1, int(share * len(times)))]


def table(nodes, jobs, rounds, clients):
    yield "  %-38s %7s %6s %8s %8s" % (
        "", "jobs/s", "", "p50 ms", "p99 ms")
    for count in clients:
        seen = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                seen[way].append(measure(nodes, way, count, jobs * way[2]
                                         if way[2] < 10 else jobs * 5))
        base = statistics.median(s for s, _ in seen[WAYS[0]])
        yield f"  {count} client{'s' if count > 1 else ''}"
        for way in WAYS:
            speed = statistics.median(s for s, _ in seen[way])
            times = sorted(t for _, ts in seen[way] for t in ts)
            yield "  %-38s %7.0f  x%-5.2f %7.1f %8.1f" % (
                way[0], speed, speed / base, percentile(times, 0.5),
                percentile(times, 0.99))


def waits(nodes, node, rounds):
    """How long after the answer to a submit a claimq_wait() at a node has its
    answer, in ms, the least first; and what it answered."""
    times, answers = [], set()
    for _ in range(rounds):
        lane, ended = uuid.uuid4().hex, []

        def wait():
            rows, = answered(Cluster([node.http], timeout=PATIENCE).call(
                ["SELECT claimq_wait(60000, 'lane', ?)", lane], path=LOCAL))
            ended[:] = [time.monotonic(), rows[0][0]]
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.2)
        answered(Cluster(nodes, patience=PATIENCE).call(
            ["SELECT claimq_submit(?, 'x', 'now_ms', ?)", lane, now_ms]))
        begun = time.monotonic()
        thread.join()
        times.append(1000 * (ended[0] - begun))
        answers.add(ended[1])
    return sorted(times), answers
