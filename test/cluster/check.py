"""check.py: was anything lost, done twice, or done out of order?

    for name, wrong in checks(history, node, counts, killed):
        ...                         # wrong: what is wrong, in words; [] nothing

history is what the workers saw (load.py), node one of the nodes: claimq's own
tables and the ledger are asked there.  Time is not looked at anywhere, but for
one rule, and that is the callers' own now_ms: who takes a row from a claim that
was not settled does so at or after the end of its lease.
"""
from collections import Counter, defaultdict

from load import number_of

ENDS = "complete", "requeue", "retry", "reject"


def checks(history, node, counts, killed):
    """Yields (what is claimed to hold, list of counterexamples)."""
    f = Facts(history, node, counts, killed)
    yield "nothing is held by two live claims", f.doubles()
    yield "fencing tokens of a row grow with each claim", f.row_fences()
    yield "fencing tokens of contests grow from winner to winner", f.contests()
    yield "no job is lost, none is done twice", f.lanes()
    yield "no batch is lost, none is done twice", f.sessions()
    yield "the batches of a session are done in their order", f.session_order()
    yield "no message is lost, none is done twice, all in order", f.outbox()
    yield "every answer that was lost came back when asked again", f.replays()
    yield "only those are refused whose claim another took", f.refused()
    yield "every completion that was acknowledged is there", f.acknowledged()


class Facts:
    def __init__(self, history, node, counts, killed):
        self.node, self.counts, self.killed = node, counts, killed
        self.claims = defaultdict(list)   # (role, scope, key) -> claims
        self.rows = defaultdict(list)     # claim id, role -> its rows
        self.ends = {}                    # claim id, role -> a verb that did it
        self.until = {}                   # claim id, role -> end of its lease
        self.lost = defaultdict(list)
        self.settles, self.fences = [], []
        for kind, *what in history:
            if kind == "claim":
                role, scope, key, claim_id, fence, at, until, *_ = what
                row = dict(role=role, claim_id=claim_id, fence=fence, at=at,
                           owner=what[-1], key=key, scope=scope)
                self.claims[role, scope, key].append(row)
                self.rows[claim_id, role].append(row)
                self.until.setdefault((claim_id, role), until)
            elif kind == "settle":
                self.settle(*what)
            elif kind == "lost":
                self.lost[what[0]].append(what[1:])
        self.ledger = node.ask(
            ["SELECT role, scope, key, n, verb, claim_id FROM ledger"
             " ORDER BY id"])[0]

    def settle(self, role, verb, claim_id, answer):
        self.settles.append((role, verb, claim_id, answer))
        if answer == "claim_lost":
            return
        if verb == "abandon":
            self.until[claim_id, role] = answer
        elif verb in ENDS:
            self.ends[claim_id, role] = verb

    def of(self, role, verb=None):
        return [r[1:] for r in self.ledger
                if r[0] == role and verb in (None, r[4])]

    def doubles(self):
        """Two claims of a row: the first was settled, or had ended, or nobody
        knows because its worker was killed."""
        out = []
        for key, claims in self.claims.items():
            order = "at" if key[0] == "dead_letter" else "fence"
            claims.sort(key=lambda c: c[order])
            for a, b in zip(claims, claims[1:]):
                known = a["claim_id"], a["role"]
                if a["claim_id"] != b["claim_id"] and known not in self.ends \
                   and a["owner"] not in self.killed \
                   and b["at"] < self.until[known]:
                    out.append(f"{key}: {a} and {b}")
        return out

    def row_fences(self):
        """Each claim of a row has a token of its own, and a later one has a
        greater one."""
        out = []
        for key, claims in self.claims.items():
            if key[0] == "dead_letter":
                continue               # the token is that of the claim's head
            seen = {}
            for c in claims:
                if seen.setdefault(c["fence"], c["claim_id"]) != c["claim_id"]:
                    out.append(f"{key}: {c} has a token that was given out")
        return out + [str(row) for row in self.node.ask(
            ["SELECT * FROM claimq_attempt AS a JOIN claimq_attempt AS b"
             " ON a.job_id=b.job_id AND b.attempt_index=a.attempt_index+1"
             " WHERE b.fencing_token<=a.fencing_token"])[0]]

    def contests(self):
        """The ledger has the winners in the order of the log."""
        tokens = [key for _, key, *_ in self.of("contest")]
        out = [f"{a} and then {b}" for a, b in zip(tokens, tokens[1:])
               if a >= b]
        return out if len(tokens) > 5 else [f"only {len(tokens)} winners"]

    def only_once(self, role, done):
        """Counterexamples to: each number was done once, or is a letter that
        was resolved."""
        letters = Counter(n for scope, _, n, *_ in
                          self.of("dead_letter", "complete") if scope == role)
        out = [f"{role} {n}: {done[n]} times done, {letters[n]} letters"
               for n in range(self.counts[role]) if done[n] + letters[n] != 1]
        out += [f"{role} {n} was never put" for n in {*done, *letters}
                if not 0 <= n < self.counts[role]]
        return out

    def requeued(self, role):
        return sum(scope == role for scope, *_ in
                   self.of("dead_letter", "requeue"))

    def lanes(self):
        jobs = self.node.ask(["SELECT job_id, state, payload, result"
                              " FROM claimq_job WHERE lane='work'"])[0]
        jobs = [[j, state, bytes(p) if isinstance(p, list) else p, result]
                for j, state, p, result in jobs]
        done = Counter(number_of("lane", p) for _, state, p, _ in jobs
                       if state == "completed")
        out = self.only_once("lane", done)
        out += [f"job {j} is {state}, its result {result}"
                for j, state, _, result in jobs
                if (state, result) not in (("completed", j), ("failed", None))]
        if len(jobs) != self.counts["lane"] + self.requeued("lane"):
            out.append(f"{len(jobs)} jobs")
        return out + [f"job {j}: {n} events" for j, n in self.node.ask(
            ["SELECT job_id, count(event_id) FROM claimq_job"
             " LEFT JOIN claimq_event USING(job_id) GROUP BY 1"
             " HAVING count(event_id)<>1"])[0]]

    def sessions(self):
        rows = self.of("session")
        out = self.only_once("session", Counter(
            n for _, _, n, verb, _ in rows if verb == "complete"))
        times = Counter((scope, key) for scope, key, *_ in rows)
        out += [f"batch {k}: {n} times" for k, n in times.items() if n != 1]
        left = self.node.ask(["SELECT count(*) FROM claimq_batch"])[0][0][0]
        return out + ([f"{left} batches are left"] if left else [])

    def session_order(self):
        """A session was fed by one producer with growing numbers."""
        last, out = defaultdict(lambda: (-1, -1)), []
        for scope, key, n, *_ in self.of("session"):
            if (key, n) <= last[scope] or n <= last[scope][1]:
                out.append(f"{scope}: {n} after {last[scope][1]}")
            last[scope] = key, n
        return out

    def outbox(self):
        rows = self.of("outbox")
        out = self.only_once("outbox", Counter(
            n for _, _, n, verb, _ in rows if verb == "complete"))
        expect = defaultdict(lambda: 1)
        for scope, key, *_ in rows:
            if key != expect[scope]:
                out.append(f"partition {scope}: {key}, not {expect[scope]}")
            expect[scope] = key + 1
        for partition, last, processed in self.node.ask(
                ["SELECT partition, last_seq, processed_seq"
                 " FROM claimq_partition"])[0]:
            if not last == processed == expect[str(partition)] - 1:
                out.append(f"partition {partition}: {last}, {processed}")
        if len(rows) != self.counts["outbox"] + self.requeued("outbox"):
            out.append(f"{len(rows)} messages")
        return out

    def replays(self):
        out = [what for how in self.lost.values() for same, what in how
               if not same]
        for how in "hung up", "thrown away":
            if not self.lost[how]:
                out.append(f"no answer was lost: {how}")
        return out

    def refused(self):
        """claim_lost was said to nobody but those whose row another has."""
        done = {(role, scope, key): claim_id
                for role, scope, key, _, _, claim_id in self.ledger}
        last = Counter()
        for scope, key, *_ in self.of("contest"):
            last[scope] = max(last[scope], key)
        attempts = dict(self.node.ask(
            ["SELECT job_id, max(fencing_token) FROM claimq_attempt"
             " GROUP BY 1"])[0])
        out = []
        for role, verb, claim_id, answer in self.settles:
            if answer != "claim_lost":
                continue
            taken = False
            for c in self.rows[claim_id, role]:
                if role == "lane":
                    taken |= attempts[c["key"]] > c["fence"]
                elif role == "contest":
                    taken |= last[c["scope"]] > c["fence"]
                elif role == "dead_letter":
                    taken |= any(r[0] == role and r[2] == c["key"] and
                                 r[5] != claim_id for r in self.ledger)
                else:
                    taken |= done.get((role, c["scope"], c["key"]),
                                      claim_id) != claim_id
            if not taken:
                out.append(f"{role}: {verb} of {claim_id}")
        return out

    def acknowledged(self):
        entries = {(role, claim_id) for role, _, _, _, _, claim_id
                   in self.ledger}
        states = dict(self.node.ask(
            ["SELECT job_id, state FROM claimq_job"])[0])
        out = []
        for role, verb, claim_id, answer in self.settles:
            if answer == "claim_lost" or verb not in ("complete", "reject"):
                continue
            if role == "lane":
                job = self.rows[claim_id, role][0]["key"]
                want = {"complete": "completed", "reject": "failed"}[verb]
                if states[job] != want:
                    out.append(f"job {job} is {states[job]}: {verb}")
            elif (role, claim_id) not in entries:
                out.append(f"{role} {claim_id}: {verb}")
        return out
