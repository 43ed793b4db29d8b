"""cluster.py: claimq on a cluster of rqlite nodes.  See run.sh, which starts
it.

    python3 cluster.py RQLITED CLAIMQ_SO FOLDER [STORY ...]

Each story starts nodes of its own.  A line is printed for each thing that was
checked, and at the end "N passed, M failed".  Nothing here is judged by how
long it takes: whoever waits, waits as long as things go on, and then five
minutes more.  With CI=true a story that would begin after half an hour is
SKIPPED.
"""
import contextlib, json, os, re, shutil, signal, subprocess, sys, time
import traceback

try:
    import sqlite3
except ImportError:
    sqlite3 = None

from check import checks
from client import CallError, Cluster, REPLICATED, now_ms
from load import Load, setup
from rqlite import (PATIENCE, Loopback, Namespaces, Node, Nodes, content,
                    differences, free_port, same_version, until)
from speed import percentile, table, waits

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER = os.path.join(HERE, "..", "..", "ext", "lang", "python",
                      "http_worker.py")
QUICK = os.environ.get("CI") == "true"
MOST = 1800 if QUICK else 36000       # seconds until the last story may begin


class Test:
    """What has passed, what has failed."""
    def __init__(self, program, extension, folder):
        self.program, self.extension = program, extension
        self.folder, self.clusters = folder, []
        self.passed = self.failed = self.skipped = 0

    def ok(self, what, wrong=()):
        """wrong: counterexamples, or False if it is simply not so."""
        if wrong is False:
            wrong = ["it is not"]
        wrong = [] if wrong is True else list(wrong)
        self.passed += not wrong
        self.failed += bool(wrong)
        print("  ok  " if not wrong else "FAILED", what, flush=True)
        for one in wrong[:5]:
            print("      ", str(one)[:1000], flush=True)
        if len(wrong) > 5:
            print(f"       and {len(wrong) - 5} more", flush=True)

    def skip(self, what, why):
        self.skipped += 1
        print(f"SKIPPED {what}: {why}", flush=True)

    def say(self, what):
        print("      ", what, flush=True)

    def nodes(self, name, place=None, options=()):
        nodes = Nodes(place or Loopback(), self.program, self.extension,
                      os.path.join(self.folder, name), options)
        self.clusters.append(nodes)
        return nodes

    def run(self, story):
        print(f"{story.__name__}: {story.__doc__.splitlines()[0]}", flush=True)
        begun = time.monotonic()
        try:
            story(self)
        except Exception:
            self.ok(f"{story.__name__} came to its end",
                    [traceback.format_exc()])
        finally:
            while self.clusters:
                self.clusters.pop().stop()
        print(f"       {time.monotonic() - begun:.0f} s", flush=True)


def equal(t, what, nodes):
    """All tables of all nodes, the schema and the indexes are the same."""
    nodes.settle()
    first, *others = nodes
    expect = content(first.ask)
    t.ok(f"{what}: all tables of all {len(others) + 1} nodes are equal",
         [f"node {first.number} and node {node.number}: {d}"
          for node in others for d in differences(expect, content(node.ask))])


def left(nodes):
    """How much there is still to do, by any node that can be asked.  Contests
    have no end: six winners are enough."""
    for node in nodes.reachable():
        try:
            return sum(row[0] for row in node.ask(
                ["SELECT count(*) FROM claimq_job WHERE state NOT IN"
                 " ('completed', 'failed', 'cancelled') UNION ALL"
                 " SELECT count(*) FROM claimq_batch UNION ALL"
                 " SELECT ifnull(sum(last_seq-processed_seq), 0)"
                 " FROM claimq_partition UNION ALL"
                 " SELECT count(*) FROM claimq_letter WHERE status IN"
                 " ('pending', 'reprocessing') UNION ALL"
                 " SELECT max(0, 6-count(*)) FROM ledger"
                 " WHERE role='contest'"])[0])
        except (OSError, CallError):
            pass
    return -1


class Progress:
    """Lets a story go on when so much of the load has been done."""
    def __init__(self, nodes, load):
        self.nodes, self.load = nodes, load
        self.total = sum(load.counts.values())

    def done(self):
        for node in self.nodes.reachable():
            try:
                return sum(row[0] for row in node.ask(
                    ["SELECT count(*) FROM claimq_event UNION ALL"
                     " SELECT count(*) FROM ledger WHERE role IN"
                     " ('session', 'outbox')"])[0])
            except (OSError, CallError):
                pass
        return 0

    def check_alive(self):
        self.load.check_alive()
        for node in self.nodes:
            node.check_alive()

    def at(self, share):
        def reached():
            self.check_alive()
            return self.done() >= share * self.total
        until(f"{share:.0%} done", reached, measure=self.done)


def finish(t, nodes, load, killed):
    """Wait for the end, and check everything."""
    load.finish(lambda: left(nodes), until)
    nodes.settle()
    history = load.history()
    for what, wrong in checks(history, nodes.leader(), load.counts, killed):
        t.ok(what, wrong)
    for node in nodes:
        t.ok(f"claimq_check finds nothing wrong on node {node.number}",
             node.ask(["SELECT * FROM claimq_check"])[0])
    took = sorted(h[2] for h in history if h[0] == "took")
    lost = sum(h[0] == "lost" for h in history)
    claims = sum(h[0] == "claim" for h in history)
    t.say(f"{len(took)} requests, {claims} rows claimed, {lost} answers lost;"
          f" p50 {percentile(took, 0.5):.0f} ms,"
          f" p99 {percentile(took, 0.99):.0f} ms")


#--------------------------------------------------------------------------
# The stories

def versions(t):
    """A node without the extension, or with another, is noticed."""
    nodes = t.nodes("versions")
    nodes.start([[]])
    t.ok("one node answers claimq_version() "
         + same_version(list(nodes)))
    bare = Nodes(Loopback(), t.program, None, os.path.join(t.folder, "bare"))
    t.clusters.append(bare)
    bare.start([[]])
    try:
        same_version([*nodes, *bare])
        t.ok("a node without claimq is refused", False)
    except RuntimeError as error:
        t.ok("a node without claimq is refused",
             "no such function" in str(error))
    folder = os.path.join(t.folder, "newer")
    newer = Nodes(Loopback(), t.program,
                  another_version(t, same_version(list(nodes)), "x", folder),
                  folder)
    t.clusters.append(newer)
    newer.start([[]])
    try:
        same_version([*nodes, *newer])
        t.ok("a node with another claimq is refused", False)
    except RuntimeError as error:
        t.ok("a node with another claimq is refused",
             "x'" in str(error) or [error])
    # What becomes of a node without claimq that nobody has asked.
    setup(nodes.cluster())
    nodes.extension = None
    blind = nodes.add()
    nodes.join(blind)
    submit = ["SELECT claimq_submit('l', 'x', 'now_ms', ?)", now_ms]
    claim = ["SELECT payload FROM claimq_lane('l', 'w') WHERE now_ms=?", now_ms]
    job, row = Cluster([blind.http]).call(submit, claim)
    nodes.settle()
    t.ok("such a node sends calls to the leader, and has nothing itself",
         row == [["x"]] and blind.ask(["SELECT name FROM sqlite_schema WHERE"
                                       " name LIKE 'claimq%'"])[0] == []
         or [job, row])


def another_version(t, version, mark, folder):
    """A copy of the extension that has a mark for the last character of the
    version that it answers."""
    with open(t.extension, "rb") as file:
        program = file.read()
    os.makedirs(folder, exist_ok=True)
    name = os.path.join(folder, "claimq.so")
    with open(name + ".new", "wb") as copy:
        copy.write(program.replace(version.encode() + b"\0",
                                   (version[:-1] + mark).encode() + b"\0"))
    os.rename(name + ".new", name)
    return name


def upgrade(t):
    """All nodes get another claimq.so.

    A node that starts carries out once more what is in its log and in no
    snapshot, now by the new one."""
    folder = os.path.join(t.folder, "upgrade", "extension")
    os.makedirs(folder)
    nodes = t.nodes("upgrade")
    nodes.extension = shutil.copy(t.extension, folder)
    nodes.start()
    version, cluster = same_version(list(nodes)), nodes.cluster()
    setup(cluster)
    job, claim, *_ = cluster.call(
        ["SELECT claimq_submit('l', 'x', 'now_ms', ?)", now_ms],
        ["SELECT claim_id, lease_token FROM claimq_lane('l', 'w')"
         " WHERE now_ms=?", now_ms],
        ["CREATE TABLE seen(version)"],
        ["INSERT INTO seen SELECT claimq_version()"])
    for mark, snapshot, expect in ("b", False, "b"), ("c", True, "b"):
        nodes.settle()
        if snapshot:
            nodes.snapshot("")
        another_version(t, version, mark, folder)
        nodes.restart(Node.end)
        nodes.settle()
        seen = [node.ask(["SELECT substr(version, -1) FROM seen"])[0][0][0]
                for node in nodes]
        t.ok("after a snapshot of each node the new claimq.so decides nothing"
             " again" if snapshot else "without snapshots a new claimq.so"
             " carries out the calls of the log again",
             seen == [expect] * 3 and same_version(list(nodes))[-1] == mark
             or [seen])
    done, = cluster.call(["SELECT claimq_complete(?, ?, 'now_ms', ?)",
                          *claim[0], now_ms])
    t.ok("a claim is completed two versions later", done == [[1]] or [done])
    equal(t, "after the upgrades", nodes)


def clock(t):
    """With an explicit clock no call reads the clock of a node."""
    nodes = t.nodes("clock")
    nodes.start()
    same_version(list(nodes))
    cluster = nodes.cluster()
    setup(cluster)
    calls = [["SELECT claimq_submit('l', 'x')"],
             ["SELECT claimq_submit('l', 'x', 'now_ms', ?)", None],
             ["SELECT claimq_enqueue('s', 'x')"],
             ["SELECT claimq_publish('mail', 'x')"],
             ["INSERT INTO claimq_job(lane, payload) VALUES('l', 'x')"],
             ["INSERT INTO claimq_batch(session, payload) VALUES('s', 'x')"],
             ["INSERT INTO claimq_message(queue, partition, payload)"
              " VALUES('mail', 0, 'x')"],
             ["SELECT * FROM claimq_lane('l', 'w')"],
             ["SELECT * FROM claimq('s', 'w')"],
             ["SELECT * FROM claimq_outbox('mail', 'w')"],
             ["SELECT * FROM claimq_dead_letter(NULL, 'w')"],
             ["SELECT * FROM claimq_contest('c', 'w', NULL, NULL, 1)"]]
    answers = cluster.call(*calls)

    def refused(call, answer):
        if call[0].startswith("INSERT"):      # The table has no default
            return "NOT NULL constraint failed: claimq_" in str(answer)
        return getattr(answer, "code", None) == "clock_required"

    t.ok("calls without now_ms are refused",
         [f"{call}: {answer}" for call, answer in zip(calls, answers)
          if not refused(call, answer)])
    equal(t, "after calls without now_ms", nodes)

    # The clock of one caller is half a minute ahead of the others'.
    claim = ("SELECT claim_id, lease_token FROM claimq_lane('skew', ?, 30000)"
             " WHERE now_ms=?")
    complete = "SELECT claimq_complete(?, ?, 'now_ms', ?)"
    at = now_ms()
    _, right, ahead = cluster.call(
        ["SELECT claimq_submit('skew', 'x', 'now_ms', ?)", at],
        [claim, "right", at], [claim, "ahead", at + 31000])
    late, early = cluster.call([complete, *right[0], at + 1000],
                               [complete, *ahead[0], at + 31000])
    t.ok("a caller whose clock is ahead takes a live lease; the holder learns it",
         getattr(late, "code", None) == "claim_lost" and early == [[1]]
         or [late, early])


def endpoints(t):
    """Which of rqlite's endpoints does what, as the manual says."""
    nodes = t.nodes("endpoints")
    nodes.start([[]])
    node, = nodes
    cluster = nodes.cluster()
    setup(cluster)

    def post(path, *statements):
        """The answers of a path: rows, or the text of an error."""
        reply = json.loads(node.get(path, json.dumps(
            statements, default=lambda f: f()).encode()))
        return [one.get("error") or one.get("values")
                for one in reply["results"]]

    def submit():
        cluster.call(["SELECT claimq_submit('l', 'x', 'now_ms', ?)", now_ms])

    def active():
        return node.ask(["SELECT count(*) FROM claimq_job"
                         " WHERE state='active'"])[0][0][0]
    claim = ["SELECT claim_id, lease_token FROM claimq_lane('l', 'w')"
             " WHERE now_ms=?", now_ms]
    submit()
    for path in "/db/query", "/db/query?level=strong":
        said, = post(path, claim)
        t.ok(f"{path} claims nothing: read_only",
             active() == 0 and "claimq: read_only: " in str(said))
    said, = post("/db/execute", claim)
    t.ok("/db/execute claims, and loses the rows",
         active() == 1 and said is None or [said])
    submit()
    rows, = post("/db/request", claim)
    t.ok("/db/request without level=strong claims", len(rows) == 1 or [rows])
    submit()
    rows, = post("/db/request?level=strong", claim)
    t.ok("/db/request?level=strong claims", len(rows) == 1 or [rows])
    verb = ["SELECT claimq_release(?, ?, 'now_ms', ?)", *rows[0], now_ms]
    said, = post("/db/request", verb)
    t.ok("/db/request without level=strong refuses a verb alone: read_only",
         "claimq: read_only: " in str(said) or [said])
    said, = post("/db/request?level=strong", verb)
    t.ok("/db/request?level=strong takes a verb", said == [[1]] or [said])
    said, = post("/db/query?level=none",
                 ["SELECT claimq_wait(10, 'lane', 'none')"])
    t.ok("/db/query?level=none waits", said == [[0]] or [said])
    said = [post("/db/request?level=strong",
                 ["SELECT claimq_submit('blob', ?, 'now_ms', ?)", x, now_ms],
                 ["SELECT typeof(payload) FROM claimq_lane('blob', 'w')"
                  " WHERE now_ms=?", now_ms])[1]
            for x in ([0, 255], "text", "x'00ff'")]
    t.ok("an array of bytes is a BLOB, and so is a text like x'00ff'",
         said == [[["blob"]], [["text"]], [["blob"]]] or [said])
    # A claim in the middle of a list is lost.
    for n in range(3):
        cluster.call(["SELECT claimq_submit('list', 'x', 'now_ms', ?)", now_ms])
    held, = cluster.call(["SELECT claim_id, lease_token FROM"
                          " claimq_lane('list', 'w', 60000, 3) WHERE now_ms=?",
                          now_ms])
    cluster.call(["SELECT claimq_revoke(?, 'now_ms', ?)", held[1][0], now_ms])
    said, = post("/db/request?level=strong", [
        "SELECT claimq_complete(value->>0, value->>1, 'now_ms', ?)"
        " FROM json_each(?)", now_ms, json.dumps(held)])
    states = node.ask(["SELECT state FROM claimq_job WHERE lane='list'"
                       " ORDER BY job_id"])[0]
    t.ok("a list of claims is completed up to the first that is lost",
         "claimq: claim_lost: " in str(said)
         and states == [["completed"], ["ready"], ["active"]]
         or [said, states])
    write = ["INSERT INTO ledger(role, scope, key, verb, claim_id)"
             " VALUES('x', 'x', 1, 'x', 'x')"]
    guard = ["SELECT claimq_guard(?, ?)", *rows[0]]
    said = post("/db/request?level=strong&transaction", guard, write)
    t.ok("a guard that fails undoes the transaction",
         "claimq: claim_lost: " in str(said[0]) and not node.ask(
             ["SELECT 1 FROM ledger"])[0] or [said])
    submit()
    before = active()
    said = post("/db/request?level=strong&transaction", claim, guard)
    t.ok("a claim that was rolled back with the rest is still in the answer",
         len(said[0]) == 1 and "claimq: claim_lost: " in str(said[1])
         and active() == before or [said])
    submit()
    for what, sql, why in (
            ("a statement that cannot be prepared",
             "INSERT INTO nowhere VALUES(1)", "no such table"),
            ("a write with RETURNING that fails",
             "INSERT INTO ledger(role) VALUES(NULL) RETURNING id", "NOT NULL")):
        submit()
        before = active()
        said = post("/db/request?level=strong&transaction", claim, [sql], claim)
        t.ok(f"{what} does not undo the others, before it and after it",
             len(said[0]) == 1 and why in str(said[1]) and len(said[2]) == 1
             and active() == before + 2 or [said])
    # The write-shaped form, for clients that send each SELECT to /db/query.
    shaped = ("INSERT INTO mine SELECT job_id, claim_id, lease_token FROM"
              " claimq_lane('l', 'w') WHERE now_ms=? RETURNING%sclaim_id")
    cluster.call(["CREATE TABLE mine(job_id INTEGER PRIMARY KEY, claim_id TEXT,"
                  " lease_token TEXT)"])
    for blank, n in (" ", 1), ("\n", 0):
        submit()
        before = active()
        said, = post("/db/execute", [shaped % blank, now_ms])
        t.ok("/db/execute of INSERT ... SELECT ... RETURNING"
             + (" answers" if n else ", not on one line, loses the answer"),
             len(said or []) == n and active() == before + 1 or [said])
    submit()
    before = active()
    node.get("/db/execute?queue&wait&timeout=60s",
             json.dumps([claim], default=lambda f: f()).encode())
    t.ok("/db/execute?queue claims, and loses the rows", active() == before + 1)


def values(t):
    """Every kind of value arrives as it was put."""
    nodes = t.nodes("values")
    nodes.start([[]])
    cluster = nodes.cluster()
    setup(cluster)

    def ask(*statements):
        answers = cluster.call(*statements)
        for answer in answers:
            if isinstance(answer, CallError):
                raise answer
        return answers
    wrong = []
    for value in (2**63 - 1, -2**63, 2**53 + 1, 0, 1.5, 5e-324, 1e300, None, "",
                  "text", "12", "\u00e9\U0001f600\0 and more", [],
                  [0, 255, 254], list(range(256))):
        *_, lane, session, outbox = ask(
            ["SELECT claimq_submit('v', ?, 'now_ms', ?)", value, now_ms],
            ["SELECT claimq_enqueue('v', ?, 'now_ms', ?)", value, now_ms],
            ["SELECT claimq_publish('mail', ?, 'now_ms', ?)", value, now_ms],
            ["SELECT payload, claim_id, lease_token FROM claimq_lane('v', 'w')"
             " WHERE now_ms=?", now_ms],
            ["SELECT payload, claim_id, lease_token FROM claimq('v', 'w')"
             " WHERE now_ms=?", now_ms],
            ["SELECT payload, claim_id, lease_token"
             " FROM claimq_outbox('mail', 'w') WHERE now_ms=?", now_ms])
        ask(["SELECT claimq_renew(?, ?, 1000, 'now_ms', ?, 'progress', ?)",
             *lane[0][1:], now_ms, value],
            ["SELECT claimq_release(?, ?, 'now_ms', ?)", *lane[0][1:], now_ms])
        again, = ask(["SELECT progress, claim_id, lease_token"
                      " FROM claimq_lane('v', 'w') WHERE now_ms=?", now_ms])
        _, result, _, _, letter = ask(
            ["SELECT claimq_complete(?, ?, 'now_ms', ?, 'result', ?)",
             *again[0][1:], now_ms, value],
            ["SELECT result FROM claimq_job ORDER BY job_id DESC LIMIT 1"],
            ["SELECT claimq_reject(?, ?, 'no', 'now_ms', ?)", *session[0][1:],
             now_ms],
            ["SELECT claimq_complete(?, ?, 'now_ms', ?)", *outbox[0][1:],
             now_ms],
            ["SELECT payload, claim_id, lease_token FROM"
             " claimq_dead_letter('v', 'w') WHERE source='session'"
             " AND now_ms=?", now_ms])
        ask(["SELECT claimq_complete(?, ?, 'now_ms', ?)", *letter[0][1:],
             now_ms])
        put = bytes(value) if isinstance(value, list) else value
        for name, rows in (("lane", lane), ("session", session),
                           ("outbox", outbox), ("progress", again),
                           ("result", result), ("letter", letter)):
            if rows[0][0] != put or type(rows[0][0]) is not type(put):
                wrong.append(f"{name}: {put!r} came back as {rows[0][0]!r}")
    t.ok("integers, reals, texts, BLOBs and NULL, as payload, progress and"
         " result", wrong)


def history(t):
    """A random history of all calls, on a cluster and on plain SQLite."""
    if not sqlite3:
        t.skip("history", "this Python was built without SQLite")
        return
    count = 500 if QUICK else 3000
    plain, log = (os.path.join(t.folder, f"history.{end}")
                  for end in ("db", "log"))
    subprocess.run([os.environ.get("TCLSH", "tclsh"),
                    os.path.join(HERE, "history.tcl"), t.extension, plain, log,
                    str(count), "7"], check=True)
    nodes = t.nodes("history", options=["-raft-snap", "300",
                                        "-raft-snap-int", "1s"])
    nodes.start([["-auto-optimize-int", "1s"], ["-auto-vacuum-int", "2s"], []])
    same_version(list(nodes))
    cluster, wrong = nodes.cluster(), []
    cluster.call(["CREATE TABLE done(id INTEGER PRIMARY KEY)"])
    with contextlib.closing(sqlite3.connect(log)) as db:
        calls = db.execute("SELECT id, sql, ok FROM log ORDER BY id").fetchall()
    for number, sql, ok in calls:
        if number == count // 2:
            leader = nodes.leader()
            leader.kill()
        answers = cluster.call(["INSERT INTO done(id) VALUES(?)", number],
                               [sql], path=REPLICATED + "&transaction")
        errors = [str(a) for a in answers if isinstance(a, CallError)]
        # One that is sent again because the answer was lost is done already.
        again = errors and "UNIQUE constraint failed: done" in errors[0]
        if not again and ok != (not errors):
            wrong.append(f"call {number}, {sql}: {errors}")
        if number == count // 2:
            nodes.join(leader)
    t.ok(f"{len(calls)} calls are carried out or refused, as by plain SQLite",
         wrong)
    equal(t, "at the end", nodes)
    there = content(nodes.leader().ask)
    with contextlib.closing(sqlite3.connect(plain)) as db:
        here = content(lambda s: [[list(r) for r in db.execute(s[0], s[1:])]])
    # A write with RETURNING that raises rolls nothing back on rqlite.
    t.ok("and equal to those of plain SQLite",
         differences({**here, "done": []}, {**there, "done": []}))


def load(t):
    """Thousands of jobs while leaders are killed and logs compacted."""
    scale = 2 if QUICK else 5
    nodes = t.nodes("load", options=["-raft-snap", "300",
                                     "-raft-snap-int", "1s"])
    nodes.start([["-auto-optimize-int", "1s"], ["-auto-vacuum-int", "2s"], []])
    t.ok("three nodes answer claimq_version() " + same_version(list(nodes)))
    setup(nodes.cluster())
    work = Load(nodes.addresses(), os.path.join(t.folder, "load", "workers"),
                600 * scale, 450 * scale, 450 * scale)
    killed, progress = set(), Progress(nodes, work)

    def kill_leader(share):
        """Kill the leader, let the others go on without it, start it again."""
        leader = nodes.leader()
        leader.kill()
        begun = time.monotonic()
        nodes.leader()
        t.say(f"the leader, node {leader.number}, was killed; another leads"
              f" {time.monotonic() - begun:.1f} s later")
        progress.at(share)
        nodes.join(leader)

    begun = time.monotonic()
    work.start()
    try:
        progress.at(0.05)
        kill_leader(0.15)
        killed.add(work.kill_worker(0))
        progress.at(0.2)
        away = next(n for n in nodes if n is not nodes.leader())
        away.kill()
        progress.at(0.3)
        for _ in range(20):          # it misses this many at least
            nodes.cluster().call(["SELECT 1"])
        nodes.snapshot()
        mark = len(away.log())
        nodes.join(away)
        t.ok("a node that was away while the log was compacted is sent a"
             " snapshot", away.was_sent_snapshot(mark))
        nodes.snapshot()
        late = nodes.add()
        nodes.join(late)
        t.ok("a node that joins late is sent a snapshot",
             late.was_sent_snapshot())
        kill_leader(0.5)
        progress.at(0.6)
        for share in ([0.75] if QUICK else [0.7, 0.8, 0.9]):
            kill_leader(share)
        finish(t, nodes, work, killed)
    finally:
        work.stop()
    spent = time.monotonic() - begun
    t.say(f"{sum(work.counts.values())} jobs, batches and messages in"
          f" {spent:.0f} s")
    first, second, *_ = nodes
    until("node 1 to optimize", lambda: "optimized" in first.log())
    t.ok("node 1 has optimized")
    until("node 2 to vacuum", lambda: "vacuumed" in second.log())
    t.ok("node 2 has vacuumed")
    equal(t, "at the end", nodes)
    backup(t, nodes)
    before = content(first.ask)
    nodes.restart(Node.kill)
    equal(t, "after all were killed and started again", nodes)
    t.ok("and as before", differences(before, content(first.ask)))


def backup(t, nodes):
    """A backup, loaded into a new node of its own."""
    data = until("a backup", lambda: nodes.leader().get("/db/backup"))
    fresh = t.nodes("restored")
    fresh.start([[]])
    node, = fresh
    node.get("/db/load", data, PATIENCE)
    t.ok("a node restored from a backup is equal",
         differences(content(nodes.leader().ask), content(node.ask)))
    cluster = fresh.cluster()
    job, claim = cluster.call(
        ["SELECT claimq_submit('again', 'x', 'now_ms', ?)", now_ms],
        ["SELECT claim_id, lease_token FROM claimq_lane('again', 'w')"
         " WHERE now_ms=?", now_ms])
    done, = cluster.call(["SELECT claimq_complete(?, ?, 'now_ms', ?)",
                          *claim[0], now_ms])
    t.ok("and works", done == [[1]])


class Crew:
    """Workers, each a process, with what they print."""
    def __init__(self, folder, *commands):
        self.out = [open(os.path.join(folder, f"worker{i}.{kind}"), "w+")
                    for i in range(len(commands)) for kind in ("out", "err")]
        self.all = [subprocess.Popen([sys.executable, *command], stdout=out,
                                     stderr=err)
                    for command, out, err in zip(commands, self.out[::2],
                                                 self.out[1::2])]

    def check_alive(self):
        for process, err in zip(self.all, self.out[1::2]):
            if process.poll() is not None:
                raise RuntimeError(f"a worker has ended: {self.read(err)}")

    def read(self, file):
        with open(file.name) as copy:
            return copy.read()

    def lines(self, kind="out"):
        return [line for file in self.out if file.name.endswith(kind)
                for line in self.read(file).split("\n")[:-1]]

    def end(self):
        for process in self.all:
            process.send_signal(signal.SIGTERM)

    def codes(self):
        return [process.wait(PATIENCE) for process in self.all]

    def close(self):
        for process in self.all:
            process.kill()
            process.wait()
        for file in self.out:
            file.close()


def worker(t):
    """ext/lang/python/http_worker.py, while the leader is killed."""
    count = 200
    nodes = t.nodes("worker")
    nodes.start()
    same_version(list(nodes))
    cluster = nodes.cluster()
    setup(cluster)
    for start in range(0, count, 50):
        cluster.call(*(["SELECT claimq_submit('http', ?, 'now_ms', ?,"
                        " 'request', ?)", f"job {n}", now_ms, f"put {n}"]
                       for n in range(start, start + 50)))
    urls = [f"http://{address}/" for address in nodes.addresses()]
    crew = Crew(os.path.join(t.folder, "worker"), [WORKER, "http", *urls],
                [WORKER, "http", *urls])

    def done():
        crew.check_alive()
        rows = nodes.cluster().call(
            ["SELECT count(*) FROM claimq_job WHERE state='completed'"])
        return rows[0][0][0]
    try:
        until("some done", lambda: done() >= count // 4, measure=done)
        leader = nodes.leader()
        leader.kill()
        until("all done", lambda: done() == count, measure=done)
        nodes.join(leader)
        cluster.call(["SELECT claimq_submit('http', 'later', 'now_ms', ?)",
                      now_ms])
        until("one more", lambda: done() == count + 1)
        crew.end()
        codes, lines = crew.codes(), crew.lines()
    finally:
        crew.close()
    # A job whose lease ended while there was no leader is done again.
    most = {f"done: {payload}": 1 + reclaims for payload, reclaims in
            cluster.call(["SELECT payload, reclaim_count FROM claimq_job"])[0]}
    t.ok(f"two workers have done {count} jobs, each once",
         {*lines} ^ {*most} or
         [line for line in most if lines.count(line) > most[line]])
    t.ok("SIGTERM ends them", codes == [0, 0] or [codes])
    worker_life(t, nodes)
    equal(t, "at the end", nodes)


def worker_life(t, nodes):
    """What becomes of a job in the hands of such a worker.  Nobody is at the
    first of its addresses."""
    folder, cluster = os.path.join(t.folder, "life"), nodes.cluster()
    os.makedirs(folder)
    crew = Crew(folder, [os.path.join(HERE, "worker.py"), folder, "life",
                         f"127.0.0.1:{free_port()}",
                         *nodes.addresses()])

    def submit(payload):
        cluster.call(["SELECT claimq_submit('life', ?, 'now_ms', ?)", payload,
                      now_ms])
        until(f"{payload} to begin",
              lambda: crew.check_alive() or f"begun: {payload}" in crew.lines())

    def job(payload, columns):
        return cluster.call([f"SELECT {columns} FROM claimq_job"
                             " WHERE lane='life' AND payload=?",
                             payload])[0][0]

    def let(payload):
        open(os.path.join(folder, str(payload)), "w").close()

    def completed(payload):
        return lambda: (crew.check_alive()
                        or job(payload, "state='completed'")[0])
    try:
        submit("fails")
        until("the second try", completed("fails"))
        said, = cluster.call(["SELECT outcome, error FROM claimq_attempt"
                              " WHERE job_id=? ORDER BY attempt_index",
                              *job("fails", "job_id")])
        t.ok("a job that fails is retried", said == [
            ["retry", "ValueError('not now')"], ["success", None]] or [said])
        let([0, 255])
        submit([0, 255])
        until("the BLOB", completed([0, 255]))
        t.ok("a BLOB arrives", "done: [0, 255]" in crew.lines())
        submit("long")
        until("its lease to be renewed", lambda: crew.check_alive() or job(
            "long", "expires_at_ms>claimed_at_ms+3000")[0])
        let("long")
        until("the long job", completed("long"))
        t.ok("the lease of a long job is renewed")
        # Another takes the job, and settles it.
        submit("taken")
        _, taken = cluster.call(
            ["SELECT claimq_revoke(job_id, 'now_ms', ?) FROM claimq_job"
             " WHERE payload='taken'", now_ms],
            ["SELECT claim_id, lease_token FROM claimq_lane('life', 'other')"
             " WHERE now_ms=?", now_ms])
        cluster.call(["SELECT claimq_complete(?, ?, 'now_ms', ?, 'result', ?)",
                      *taken[0], now_ms, "other"])
        let("taken")
        submit("last")
        t.ok("a worker whose job another took goes on with the next",
             any("claim_lost" in line for line in crew.lines("err"))
             and job("taken", "result") == ["other"] or crew.lines("err"))
        crew.end()
        cluster.call(["SELECT claimq_submit('life', 'later', 'now_ms', ?)",
                      now_ms])
        let("last")
        codes = crew.codes()
        t.ok("SIGTERM: the job at hand is completed, and no other begun",
             codes == [0] and job("last", "state") == ["completed"]
             and job("later", "state") == ["ready"]
             or [codes, crew.lines("err")])
    finally:
        crew.close()


def partition(t):
    """One node is cut off from the network, the leader first."""
    if not os.environ.get("CLUSTER_NAMESPACE"):
        t.skip("partition", "no network namespace can be made here")
        return
    place = None
    try:
        place = Namespaces()
        for number in 1, 2, 3:
            place.add(number)
    except (OSError, subprocess.CalledProcessError) as error:
        t.skip("partition", "no network can be made here: "
               + (getattr(error, "stderr", None) or str(error)).strip())
        if place:
            place.close()
        return
    nodes = t.nodes("partition", place)
    try:
        cut_off(t, nodes)
    finally:
        nodes.stop()
        place.close()


def cut_off(t, nodes):
    scale = 1 if QUICK else 2
    nodes.start()
    same_version(list(nodes))
    setup(nodes.cluster())
    nodes.cluster().call(["SELECT claimq_submit('side', 'x', 'now_ms', ?)",
                          now_ms])
    work = Load(nodes.addresses(),
                os.path.join(t.folder, "partition", "workers"), 150 * scale,
                100 * scale, 100 * scale, sessions=10)
    progress = Progress(nodes, work)
    work.start()
    try:
        progress.at(0.1)
        leader = nodes.leader()
        nodes.cut(leader)
        others = [n for n in nodes if n is not leader]
        # Somebody on the side of the leader that was cut off asks it for work;
        # nobody may get an answer there.
        claim = ["SELECT job_id, claim_id, lease_token FROM"
                 " claimq_lane('side', 'w', 600000) WHERE now_ms=?"
                 " AND request='side.1'", now_ms()]
        asked = subprocess.run(
            [*nodes.place.command(leader.number), sys.executable, "-c",
             "import sys; sys.path.insert(0, sys.argv[1])\n"
             "import json, client\n"
             "c = client.Cluster([sys.argv[2]], patience=3, timeout=3)\n"
             "print(c.call(json.loads(sys.argv[3])))",
             HERE, leader.http, json.dumps(claim)],
            capture_output=True, text=True)
        t.ok("the leader that was cut off answers no claim",
             asked.returncode != 0 and "no answer" in asked.stderr
             or [asked.stdout + asked.stderr])
        progress.at(0.5)
        t.ok("the others go on without it")
        first, = Cluster([n.http for n in others]).call(claim)
        if isinstance(first, CallError):
            raise first
        nodes.heal(leader)
        second, = Cluster([leader.http], patience=PATIENCE).call(claim)
        t.ok("the same request through the healed node is the same claim",
             len(first) == 1 and first == second or [first, second])
        follower = next(n for n in nodes if n is not nodes.leader())
        nodes.cut(follower)
        progress.at(0.8)
        nodes.heal(follower)
        nodes.cluster().call(["SELECT claimq_complete(?, ?, 'now_ms', ?)",
                              *first[0][1:], now_ms])
        work.check_alive()
        finish(t, nodes, work, set())
    finally:
        work.stop()
    equal(t, "after the network was healed", nodes)


def speed(t):
    """Jobs a second beside hand-written SQL on the same cluster."""
    nodes = t.nodes("speed")
    nodes.start()
    same_version(list(nodes))
    setup(nodes.cluster())
    for line in table(nodes, 60 if QUICK else 150, 1 if QUICK else 5,
                      [1, 4] if QUICK else [1, 4, 16]):
        print(line, flush=True)
    leader = nodes.leader()
    other = next(n for n in nodes if n is not leader)
    for who, node in ("the leader", leader), ("another node", other):
        times, answers = waits(nodes.addresses(), node, 10)
        t.ok(f"claimq_wait() at {who} hears of new work", answers == {1})
        t.say(f"median {times[5]:.1f} ms after the submit, at most"
              f" {times[-1]:.1f} ms")
    equal(t, "after the measurements", nodes)


def litestream(t):
    """A backup by Litestream while workers run: test/litestream.test."""
    if not os.environ.get("CLUSTER_LITESTREAM"):
        why = os.path.join(t.folder, "..", "litestream.why")
        t.skip("litestream", open(why).read().strip()
               if os.path.exists(why) else "it was not built")
        return
    root = os.path.join(HERE, "..", "..")
    run = subprocess.run(
        [os.environ.get("TCLSH", "tclsh"), os.path.join(root, "tcl", "test",
         "runtests.tcl"), "-files", "litestream", t.extension], cwd=root,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    *lines, last = run.stdout.rstrip().split("\n")
    found = re.match(r"(\d+) passed, (\d+) failed", last)
    if not found or run.returncode:
        print(run.stdout, flush=True)
    t.passed += int(found[1]) if found else 0
    t.failed += int(found[2]) if found else 1
    t.say(last)


STORIES = (versions, upgrade, clock, endpoints, values, history, load, worker,
           partition, speed, litestream)


def main(program, extension, folder, *names):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    t = Test(program, os.path.abspath(extension), folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    begun = time.monotonic()
    for story in STORIES:
        if names and story.__name__ not in names:
            continue
        if time.monotonic() - begun > MOST:
            t.skip(story.__name__, "there is no time left for it")
            continue
        t.run(story)
    print(f"{t.passed} passed, {t.failed} failed, {t.skipped} skipped")
    return 1 if t.failed or not t.passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
