"""speed.py: jobs a second through the cluster, beside hand-written SQL.

    for line in table(nodes, jobs=200, rounds=3, clients=[1, 4]):
        print(line)

Hand-written is what one writes who needs the same and no more: a table of jobs
with an order, a state, and a lease of owner, token, fence and end; an UPDATE
... RETURNING that claims, and an UPDATE that completes if the token is still
the job's.  claimq does more for each job: it keeps a row for each attempt and
for each end of a job, knows capabilities, budgets of attempts and limits, and
answers a claim that is repeated.

Each is asked as a user would ask it: for the columns that a worker needs, ten
jobs by one statement, and with a `request` where a repeated call needs one.
(Ten completions have none: a lane answers a repeated completion without.)

The ways take turns, so that a busy minute of the machine hits all of them; the
figures are medians of the rounds.  What a job costs the processors of all nodes
together depends least on what else runs there.
"""
import json, multiprocessing, os, statistics, threading, time, uuid

from client import CallError, Cluster, LOCAL, now_ms
from rqlite import PATIENCE, die_with_parent

SETUP = """
CREATE TABLE IF NOT EXISTS hand(
  id INTEGER PRIMARY KEY, payload, state TEXT NOT NULL DEFAULT 'ready',
  priority INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0,
  owner TEXT, token TEXT, expires INTEGER NOT NULL DEFAULT 0, ended INTEGER);
CREATE INDEX IF NOT EXISTS hand_order ON hand(priority DESC, created, id)
  WHERE state<>'done';
"""


class Hand:
    """Hand-written SQL."""
    def __init__(self, name, size):
        self.name, self.size = name, size

    def fill(self, n):
        return [[SETUP], ["UPDATE hand SET state='done' WHERE state<>'done'"], [
            "INSERT INTO hand(payload, created) WITH RECURSIVE c(i) AS (SELECT"
            " 1 UNION ALL SELECT i+1 FROM c WHERE i<?) SELECT 'job ' || i, ?"
            " FROM c", n, now_ms]]

    def count(self):
        return ["SELECT count(*) FROM hand WHERE state<>'done'"]

    def claim(self):
        now = now_ms()
        return ["UPDATE hand SET state='active', owner=?, token=?,"
                " fence=fence+1, attempts=attempts+1, expires=? WHERE id IN"
                " (SELECT id FROM hand WHERE state<>'done' AND expires<=?"
                " ORDER BY priority DESC, created, id LIMIT ?)"
                " RETURNING id, token, payload, fence", self.name,
                uuid.uuid4().hex, now + 60000, now, self.size]

    def complete(self, rows):
        return [["UPDATE hand SET state='done', ended=?, owner=NULL,"
                 " token=NULL, expires=0 WHERE token=? AND id IN"
                 " (SELECT value FROM json_each(?))", now_ms, rows[0][1],
                 json.dumps([row[0] for row in rows])]]


class Claimq:
    """A lane."""
    def __init__(self, name, size):
        self.name, self.size = name, size

    def fill(self, n):
        return [["INSERT INTO claimq_job(lane, payload, created_at_ms)"
                 " WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c"
                 " WHERE i<?) SELECT 'speed', 'job ' || i, ? FROM c", n,
                 now_ms]]

    def count(self):
        return ["SELECT count(*) FROM claimq_job WHERE lane='speed' AND"
                " terminal_at_ms IS NULL"]

    def claim(self):
        return ["SELECT claim_id, lease_token, payload, fencing_token"
                " FROM claimq_lane('speed', ?, 60000, ?) WHERE now_ms=?"
                " AND request=?", self.name, self.size, now_ms,
                uuid.uuid4().hex]

    def complete(self, rows):
        if self.size == 1:
            return [["SELECT claimq_complete(?, ?, 'now_ms', ?, 'request', ?)",
                     *rows[0][:2], now_ms, uuid.uuid4().hex]]
        return [["SELECT claimq_complete(value->>0, value->>1, 'now_ms', ?)"
                 " FROM json_each(?)", now_ms,
                 json.dumps([row[:2] for row in rows])]]


SHAPES = [("two requests a job", 1, False), ("one request a job", 1, True),
          ("ten jobs a request", 10, True)]


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


def spent(nodes):
    """Seconds that the processors have spent on all nodes, where the system
    tells; else 0."""
    total = 0
    for node in nodes:
        try:
            with open(f"/proc/{node.process.pid}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            return 0
        total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def measure(nodes, kind, size, together, clients, jobs):
    """Jobs a second, the times of all requests, and what a job cost the
    processors.  Nobody can tell whether hand-written SQL whose answer was lost
    has been carried out, and it is sent again: then jobs are missing for a
    minute, and it is measured anew."""
    addresses = nodes.addresses()
    for _ in range(10):
        cluster, way = Cluster(addresses, patience=PATIENCE), kind("", 0)
        answered(cluster.call(*way.fill(jobs)))
        there = answered(cluster.call(way.count()))[0][0][0]
        begun = spent(nodes)
        done, speed, times = one_round(addresses, kind, size, together, clients)
        if done == there:
            return speed, times, (spent(nodes) - begun) / done
        if kind is Claimq:
            break
    raise RuntimeError(f"{kind.__doc__}: {done} of {there} jobs")


def one_round(nodes, kind, size, together, clients):
    """Have all jobs done; their number, jobs a second, times of requests."""
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
    took = max(s[2] for s in seen) - min(s[1] for s in seen)
    return jobs, jobs / took, sorted(t for s in seen for t in s[3])


def percentile(times, share):
    return 1000 * times[min(len(times) - 1, int(share * len(times)))]


def table(nodes, jobs, rounds, clients):
    """Lines of a table.  cpu: ms of processor time a job, all nodes."""
    yield "  %-30s %s %s" % ("", "hand-written SQL".ljust(31), "claimq")
    yield "  %-30s" % "" + " %7s %7s %7s %7s" % (
        "jobs/s", "p50 ms", "p99 ms", "cpu") * 2 + "   ratio"
    for count in clients:
        for shape, size, together in SHAPES:
            seen = {Hand: [], Claimq: []}
            for _ in range(rounds):
                for kind in seen:
                    seen[kind].append(measure(
                        nodes, kind, size, together, count,
                        jobs * 5 if size > 1 else jobs))
            yield line(f"{count} client{'s' * (count > 1)}, {shape}", seen)


def line(what, seen):
    """One line; the ratio is that of the jobs a second."""
    out, speeds = "  %-30s" % what, []
    for rounds in seen.values():
        speeds.append(statistics.median(r[0] for r in rounds))
        times = sorted(t for r in rounds for t in r[1])
        cost = 1000 * statistics.median(r[2] for r in rounds)
        out += " %7.0f %7.1f %7.1f %7.2f" % (
            speeds[-1], percentile(times, 0.5), percentile(times, 0.99), cost)
    return out + "   x%.2f" % (speeds[1] / speeds[0])


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
