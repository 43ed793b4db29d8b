"""load.py: producers and workers of every discipline, over HTTP, whose answers
get lost.

    load = Load(addresses, folder, lanes=1200, batches=900, messages=900)
    load.start()
    ... load.progress() ... load.kill_worker() ...
    load.finish()
    history = load.history()

Each worker is a process.  It goes through its roles (lane, session, outbox,
dead letter, contest); a step of a role is one request: settle what is at hand,
and claim the next.  What it does with a piece of work depends on the key: most
of it is completed, some is retried or rejected, and some is abandoned: its
lease is cut short, and the worker tries to complete it much later, when another
may have it.

Of one request in eight the worker loses the answer: it hangs up after sending,
or reads the answer and throws it away.  Then it sends the same list again,
through another node.

Sessions, outbox, letters and contests use ?transaction, and write into a table
`ledger` in the transaction in which they settle.  Its ids are the order of the
replicated log.

What a worker sees it writes into a file of its own, one JSON array in a line:

    ["claim", role, scope, key, claim_id, fence, claimed_at, expires_at,
     previous_claim_id, attempts, owner]
    ["settle", role, verb, claim_id, answer]   of "abandon" the new expiry
    ["lost", how, same, what]               an answer lost, and repeated
    ["took", role, seconds]                 one request, repeats included
"""
import glob, http.client, itertools, json, multiprocessing, os, random, time

from client import CallError, Cluster, REPLICATED, now_ms
from rqlite import PATIENCE, die_with_parent

LEASE_MS = 10_000
CLAIM = ("claim_id, lease_token, fencing_token, claimed_at_ms, expires_at_ms,"
         " previous_claim_id, attempts")
NCLAIM = 7

SETUP = """
CREATE TABLE ledger(
  id INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, scope TEXT NOT NULL,
  key INTEGER NOT NULL, n INTEGER, verb TEXT NOT NULL, claim_id TEXT NOT NULL,
  UNIQUE(role, scope, key, claim_id, verb));
"""


def setup(cluster, partitions=4):
    """Tables, settings and queues of a new cluster."""
    for answer in cluster.call(
            ["SELECT claimq_init('clock', 'explicit', 'serial', 1,"
             " 'any_session', 1)"], [SETUP],
            ["SELECT claimq_queue('mail', ?)", partitions]):
        if isinstance(answer, CallError):
            raise answer


def payload_of(role, n):
    """Every fifth is a BLOB that is no text in any encoding."""
    text = f"{role}:{n}"
    return [0, 255, 254, *text.encode()] if n % 5 == 0 else text


def number_of(role, payload):
    """n of payload_of(); raises ValueError if it did not come back as it
    was."""
    text = payload
    if isinstance(payload, bytes):
        if payload[:3] != b"\x00\xff\xfe":
            raise ValueError(f"a damaged payload: {payload!r}")
        text = payload[3:].decode()
    name, _, n = text.partition(":")
    if name != role or isinstance(payload, bytes) != (int(n) % 5 == 0):
        raise ValueError(f"a damaged payload: {payload!r}")
    return int(n)


#--------------------------------------------------------------------------
# Answers that get lost

class Lossy(Cluster):
    """A connection that loses answers, at most one of each call."""
    def __init__(self, nodes, seed, note, share=0.125):
        super().__init__(nodes, timeout=5, patience=PATIENCE)
        self.random, self.note, self.share = random.Random(seed), note, share

    def call(self, *statements, path):
        at = self.random.random() / self.share
        self.fate = "hung up" if at < 0.5 else "thrown away" if at < 1 else ""
        self.statements, self.lost = statements, None
        return super().call(*statements, path=path)

    def send(self, path, body):
        fate, self.fate = self.fate, ""
        if fate == "hung up":
            self.lost = fate, None
            line = http.client.HTTPConnection(next(self.nodes),
                                              timeout=self.timeout)
            line.request("POST", path, body)
            line.close()
            raise ConnectionError(fate)
        answers = super().send(path, body)
        if fate:
            self.lost = fate, answers
            raise ConnectionError(fate)
        if self.lost:
            self.note("lost", self.lost[0], *self.compare(answers))
        return answers

    def compare(self, answers):
        """1 and "" if the repeat answers what the first call did."""
        first = self.lost[1]
        if first is None or any(isinstance(a, CallError) for a in first):
            return 1, ""     # a call that raised is not remembered
        for statement, a, b in zip(self.statements, first, answers):
            if "request" in statement[0] and not same_answer(a, b):
                return 0, f"{statement[0]}: {a} and then {b}"
        return 1, ""


def same_answer(a, b):
    """A claim that took nothing is not remembered (nor is a contest that was
    not won), and one that expired may be gone.  The repeated claim of a session
    or an outbox does not say which claim it displaced."""
    if a == b or not a:
        return True
    if not isinstance(b, CallError) and len(a[0]) >= NCLAIM and \
       [r[:-2] + r[-1:] for r in a] == [r[:-2] + r[-1:] for r in b]:
        return True
    if len(a[0]) < NCLAIM or isinstance(b, CallError):
        return False
    if a[0][0] == "yield":
        return True
    return a[0][-3] <= now_ms()


#--------------------------------------------------------------------------
# Producers

class Process:
    """What producers and workers have in common: a name, a connection, and a
    file for what they see."""
    def __init__(self, name, nodes, folder, seed):
        die_with_parent()
        self.name, self.folder, self.next = name, folder, itertools.count(1)
        shift = seed % len(nodes)
        self.file = open(os.path.join(folder, name + ".jsonl"), "a",
                         buffering=1)
        self.cluster = Lossy(nodes[shift:] + nodes[:shift], seed, self.note)

    def note(self, *what):
        self.file.write(json.dumps(what) + "\n")

    def request(self):
        """A text of its own for each call."""
        return f"{self.name}.{next(self.next)}"

    def call(self, role, statements, path=REPLICATED):
        begun = time.monotonic()
        answers = self.cluster.call(*statements, path=path)
        self.note("took", role, time.monotonic() - begun)
        return answers


def produce(name, nodes, folder, seed, lanes, batches, messages, sessions):
    """Submit, enqueue and publish this many, ten in a request."""
    p = Process(name, nodes, folder, seed)
    jobs = [["SELECT claimq_submit('work', ?, 'priority', ?, 'capabilities', ?,"
             " 'now_ms', ?, 'request', ?)", payload_of("lane", n), n % 3,
             '["gpu"]' if n % 7 == 0 else "[]"] for n in lanes]
    jobs += [["SELECT claimq_enqueue(?, ?, 'slot_policy', ?, 'now_ms', ?,"
              " 'request', ?)", f"s{n % sessions}", payload_of("session", n),
              "join" if n // sessions % 3 else "exclusive"] for n in batches]
    jobs += [["SELECT claimq_publish('mail', ?, 'key', ?, 'now_ms', ?,"
              " 'request', ?)", payload_of("outbox", n), f"k{n % 11}"]
             for n in messages]
    # All three kinds from the beginning; each in its own order.
    jobs.sort(key=lambda j: j[0])
    kinds = [list(g) for _, g in itertools.groupby(jobs, key=lambda j: j[0])]
    mixed = [j for row in itertools.zip_longest(*kinds) for j in row if j]
    for i in range(0, len(mixed), 10):
        statements = [[*j, now_ms, p.request()] for j in mixed[i:i + 10]]
        for answer in p.call("produce", statements):
            if isinstance(answer, CallError):
                raise answer


#--------------------------------------------------------------------------
# Workers

class Role:
    """One discipline in the hands of one worker: what it claims, and what it
    does with the rows."""
    transaction = True

    def __init__(self, worker):
        self.w, self.settle, self.verbs = worker, [], []
        self.requests = {}
        self.stale = []          # abandoned: (due, claim, scope, keys)

    def step(self):
        """One request: settle what is at hand, claim more.  Returns the number
        of rows claimed."""
        rows = self.send(self.claim()) or []
        self.work(rows)
        if self.stale and self.stale[0][0] < time.monotonic():
            self.late(*self.stale.pop(0)[1:])
        return len(rows)

    def send(self, claim):
        """Settle and claim.  Returns the rows claimed, or None."""
        at, statements = len(self.settle), [*self.settle, *claim]
        if not statements:
            return None
        answers = self.w.call(self.name, statements, REPLICATED
                              + "&transaction" * self.transaction)
        failed = [a for a in answers if isinstance(a, CallError)]
        for error in failed:
            # What claimq_requeue() says when another has taken the letter.
            if error.code == "conflict" and " letter " in str(error):
                error.code = "claim_lost"
            if error.code != "claim_lost":
                raise error
        if failed and self.transaction:
            # Nothing of the list was done, whatever rows the answer has.
            answers = [failed[0]] * len(statements)
        for i, verb, claim_id in self.verbs:
            answer = answers[i]
            self.w.note("settle", self.name, verb, claim_id,
                        answer.code if isinstance(answer, CallError)
                        else answer[0][0])
        self.settle, self.verbs = [], []
        if not claim or isinstance(answers[at], CallError):
            return None
        return answers[at]

    def late(self, claim, scope, keys):
        """Complete what was abandoned, in a request of its own."""
        kept = self.settle, self.verbs
        self.settle, self.verbs = [], []
        self.complete(claim, scope, keys)
        self.send([])
        self.settle, self.verbs = kept

    def complete(self, claim, scope, keys):
        self.verb("complete", *claim)
        self.ledger(scope, keys, "complete", claim[0])

    def verb(self, name, claim_id, token, *words, log=None):
        """Have a claim settled by the next request."""
        marks = "".join(", ?" for _ in words)
        self.verbs.append((len(self.settle), log or name, claim_id))
        self.settle.append([
            f"SELECT claimq_{name}(?, ?{marks}, 'now_ms', ?, 'request', ?)",
            claim_id, token, *words, now_ms, self.w.request()])

    def ledger(self, scope, keys, verb, claim_id):
        """The entries that belong to the settlement: [[key, n], ...]."""
        self.settle.append([
            "INSERT INTO ledger(role, scope, key, n, verb, claim_id)"
            " SELECT ?, ?, value->>0, value->>1, ?, ? FROM json_each(?)"
            " WHERE 1 ON CONFLICT DO NOTHING",
            self.name, scope, verb, claim_id, json.dumps(keys)])

    def abandon(self, claim, scope, keys=()):
        """Cut the lease short, and come back when it is too late."""
        self.verb("renew", *claim, 200, log="abandon")
        self.stale.append((time.monotonic() + 2, claim, scope, keys))

    def rest(self, scope=""):
        """The time and the request of a claim.  The request stays the same
        until it was given something: a copy of the claim that is still under
        way when a repeat finds nothing cannot take anything unseen."""
        self.scope = scope
        if scope not in self.requests:
            self.requests[scope] = self.w.request()
        return now_ms, self.requests[scope]

    def seen(self, scope, key, row, fence=None):
        """Note a row that was claimed; returns its claim id and token.  The
        fencing token is the row's own, where the claim's is another."""
        self.requests.pop(self.scope, None)
        claim_id, token, head, at, until, previous, attempts = row[-NCLAIM:]
        self.w.note("claim", self.name, scope, key, claim_id, fence or head,
                    at, until, previous, attempts, self.w.name)
        return claim_id, token


class Lane(Role):
    name, transaction = "lane", False

    def claim(self):
        return [[f"SELECT job_id, attempt_index, payload, {CLAIM}"
                 " FROM claimq_lane('work', ?, ?, 2) WHERE capabilities=?"
                 " AND now_ms=? AND request=?", self.w.name, LEASE_MS,
                 '["gpu"]' if self.w.number % 2 == 0 else "[]", *self.rest()]]

    def work(self, rows):
        for row in rows:
            job, attempt, payload = row[:3]
            number_of("lane", payload)
            claim = self.seen("work", job, row)
            if attempt == 0 and job % 29 == 7:
                self.abandon(claim, job)
            elif attempt == 0 and job % 17 == 3:
                self.verb("retry", *claim, "not now", "delay_ms", 50)
            elif job % 23 == 5:
                self.verb("reject", *claim, "never")
            else:
                self.complete(claim, job)

    def complete(self, claim, job, keys=()):
        self.verb("complete", *claim, "result", job)


class Session(Role):
    name = "session"

    def claim(self):
        return [["SELECT session, enqueue_seq, payload,"
                 f" batch_fencing_token, {CLAIM}"
                 " FROM claimq(NULL, ?, ?, 4) WHERE now_ms=? AND request=?",
                 self.w.name, LEASE_MS, *self.rest()]]

    def work(self, rows):
        if not rows:
            return
        for row in rows:
            claim = self.seen(row[0], row[1], row, row[3])
        scope, head, attempts = rows[0][0], rows[0][1], rows[0][-1]
        keys = [[r[1], number_of("session", r[2])] for r in rows]
        if attempts == 0 and head % 31 == 6:
            self.abandon(claim, scope, keys)
        elif attempts == 0 and head % 19 == 4:
            self.verb("retry", *claim, "not now", "delay_ms", 50)
        elif head % 37 == 9:
            self.verb("reject", *claim, "never")
            self.ledger(scope, keys, "reject", claim[0])
        else:
            self.complete(claim, scope, keys)


class Outbox(Role):
    name = "outbox"

    def claim(self):
        return [[f"SELECT partition, seq, payload, {CLAIM}"
                 " FROM claimq_outbox('mail', ?, ?, 5) WHERE now_ms=?"
                 " AND request=?", self.w.name, LEASE_MS, *self.rest()]]

    def work(self, rows):
        if not rows:
            return
        scope, head, attempts = str(rows[0][0]), rows[0][1], rows[0][-1]
        for row in rows:
            claim = self.seen(scope, row[1], row)
        keys = [[r[1], number_of("outbox", r[2])] for r in rows]
        if attempts == 0 and head % 27 == 8:
            self.abandon(claim, scope, keys)
        elif attempts == 0 and head % 21 == 5:
            self.verb("retry", *claim, "not now", "delay_ms", 50)
        elif head % 25 == 3:
            self.verb("complete", *claim, "processed", 1, "rejected",
                      json.dumps([{"seq": head, "reason": "never"}]))
            self.ledger(scope, keys[:1], "reject", claim[0])
        else:
            keys = keys[:-1] if len(keys) > 1 and head % 5 == 2 else keys
            self.verb("complete", *claim, "processed", len(keys))
            self.ledger(scope, keys, "complete", claim[0])


class Letters(Role):
    name = "dead_letter"

    def claim(self):
        source = self.w.random.choice(["lane", "session", "outbox"])
        return [[f"SELECT letter_id, source, payload, {CLAIM}"
                 " FROM claimq_dead_letter(NULL, ?, ?, 2, '', ?)"
                 " WHERE now_ms=? AND request=?", self.w.name, LEASE_MS, source,
                 *self.rest(source)]]

    def work(self, rows):
        if not rows:
            return
        for row in rows:
            claim = self.seen("letters", row[0], row)
        keys = [[r[0], number_of(r[1], r[2])] for r in rows]
        source = rows[0][1]
        # A batch that goes back would stand at the end of its session.
        if source == "session" or rows[0][0] % 2:
            self.complete(claim, source, keys)
            return
        for letter, _ in keys:
            self.verbs.append((len(self.settle), "requeue", claim[0]))
            self.settle.append(
                ["SELECT claimq_requeue(?, 'claim_id', ?, 'lease_token', ?,"
                 " 'now_ms', ?, 'request', ?)", letter, *claim, now_ms,
                 self.w.request()])
        self.ledger(source, keys, "requeue", claim[0])


class Contest(Role):
    name = "contest"

    def claim(self):
        subject = f"c{self.w.random.randrange(3)}"
        return [[f"SELECT outcome, mine, {CLAIM}"
                 " FROM claimq_contest(?, ?, ?, NULL, 1) WHERE now_ms=?"
                 " AND request=?", subject, self.w.name, LEASE_MS,
                 *self.rest(subject)],
                ["INSERT INTO ledger(role, scope, key, verb, claim_id)"
                 " SELECT 'contest', label, fencing_token, 'claim',"
                 " claim_id FROM claimq_holder WHERE claim_id IS NOT NULL"
                 " AND kind=1 AND label=?"
                 " ON CONFLICT DO NOTHING", subject]]

    def work(self, rows):
        if not rows or rows[0][0] != "claimed":
            return
        subject, row = self.scope, rows[0]
        claim, fence = self.seen(subject, 0, row), row[-NCLAIM + 2]
        if fence % 7 == 3:
            self.abandon(claim, subject)
            return
        self.verbs.append((len(self.settle), "fence", claim[0]))
        self.settle.append(["SELECT claimq_fence(?, ?)", "of " + subject,
                            fence])
        self.complete(claim, subject)

    def complete(self, claim, subject, keys=()):
        self.verb("complete", *claim)


class Worker(Process):
    def __init__(self, name, nodes, folder, seed):
        super().__init__(name, nodes, folder, seed)
        self.number, self.random = seed, random.Random(seed)
        self.roles = [Lane(self), Session(self), Outbox(self), Letters(self),
                      Contest(self)]

    def run(self):
        stop = os.path.join(self.folder, "stop")
        for turn in itertools.count():
            if os.path.exists(stop):
                break
            # Letters and contests now and then, the rest at every turn.
            roles = self.roles[:3] if turn % 4 else self.roles
            if not sum(role.step() for role in roles):
                time.sleep(0.05)
        for role in self.roles:
            role.send([])


def work(name, nodes, folder, seed):
    Worker(name, nodes, folder, seed).run()


#--------------------------------------------------------------------------

class Load:
    def __init__(self, nodes, folder, lanes, batches, messages, sessions=30,
                 workers=4):
        self.nodes, self.folder = nodes, folder
        self.counts = {"lane": lanes, "session": batches, "outbox": messages}
        self.sessions, self.seeds = sessions, itertools.count(1)
        self.workers, self.producers = [None] * workers, []
        self.context = multiprocessing.get_context("fork")
        os.makedirs(folder)

    def process(self, target, kind, *args):
        seed = next(self.seeds)
        name = f"{kind}{seed}"
        process = self.context.Process(
            target=target, name=name, daemon=True,
            args=(name, self.nodes, self.folder, seed, *args))
        process.start()
        return process

    def start(self):
        """Two producers: a session is fed by one of them, in order."""
        c = self.counts
        for half in 0, 1:
            self.producers.append(self.process(
                produce, "producer", range(half, c["lane"], 2),
                [n for n in range(c["session"])
                 if n % self.sessions % 2 == half],
                range(half, c["outbox"], 2), self.sessions))
        for i in range(len(self.workers)):
            self.workers[i] = self.process(work, "worker")

    def kill_worker(self, i):
        """kill -9; another takes its place.  Returns its name."""
        killed = self.workers[i]
        killed.kill()
        killed.join()
        self.workers[i] = self.process(work, "worker")
        return killed.name

    def check_alive(self):
        """Nobody has ended by an error."""
        for p in self.workers:
            if not p.is_alive():
                raise RuntimeError(f"a worker has ended ({p.exitcode})")
        for p in self.producers:
            if p.exitcode:
                raise RuntimeError(f"a producer has ended ({p.exitcode})")

    def finish(self, left, until):
        """Wait until nothing is left, then stop the workers."""
        def drained():
            self.check_alive()
            return not any(p.is_alive() for p in self.producers) and left() == 0
        until("all work done", drained, measure=left)
        open(os.path.join(self.folder, "stop"), "w").close()
        for p in self.workers:
            p.join(PATIENCE)
            if p.exitcode != 0:
                raise RuntimeError(f"a worker has ended ({p.exitcode})")

    def stop(self):
        for p in [*self.workers, *self.producers]:
            if p and p.is_alive():
                p.kill()
                p.join()

    def history(self):
        """What all of them noted.  The last line of one that was killed may be
        cut short."""
        out = []
        for name in sorted(glob.glob(os.path.join(self.folder, "*.jsonl"))):
            with open(name) as file:
                out += [json.loads(line) for line in file
                        if line.endswith("]\n")]
        return out
