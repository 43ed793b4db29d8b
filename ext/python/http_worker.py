"""http_worker.py: a claimq worker over HTTP, for a cluster of rqlite nodes.

    python3 http_worker.py LANE http://node1:4001 http://node2:4001 ...

It needs only Python's standard library.  Put your own work in the place of
handle().  Each job costs one round trip: one list of statements completes the
job at hand and claims the next.  When a node does not answer, the list goes to
the next node.  It may have been carried out all the same, so every call in it
has a `request`: a call that is repeated gets the answer that was lost.  A claim
keeps its request until it is given a job, so that a copy of it which arrives
late cannot take one unseen.  A worker without a job waits at one node, which
looks only at its own copy of the database.
"""
import http.client, itertools, json, os, re, signal, socket, sys, threading
import time, uuid

REPLICATED = "/db/request?level=strong&blob_array"  # by all nodes, in order
LOCAL = "/db/query?level=none"


def handle(payload):
    """The work.  An exception has the job retried later."""
    print("done:", payload, flush=True)


def now_ms():
    """The time is the caller's: each node would read a clock of its own."""
    return time.time_ns() // 1_000_000


class CallError(Exception):
    """The error of one statement; its code is 'claim_lost' and the like."""
    def __init__(self, message):
        super().__init__(message)
        found = re.search(r"\bclaimq: ([a-z_]+): ", message)
        self.code = found and found[1]


class Cluster:
    """The nodes, connected to one at a time.  For one thread."""
    def __init__(self, nodes, timeout=10, patience=120):
        self.nodes = itertools.cycle(n.split("://")[-1] for n in nodes)
        self.timeout, self.patience, self.http = timeout, patience, None

    def send(self, path, body):
        """One try, at the node that answered last or else at the next."""
        if not self.http:
            self.http = http.client.HTTPConnection(next(self.nodes),
                                                   timeout=self.timeout)
        self.http.request("POST", path, body)
        reply = self.http.getresponse()
        text = reply.read()
        answer = json.loads(text) if reply.status == 200 else {"error": text}
        if "error" in answer:      # there is no leader, or it was lost just now
            raise ConnectionError(answer["error"])
        return [CallError(one["error"]) if "error" in one else
                [[bytes(v) if isinstance(v, list) else v for v in row]
                 for row in one.get("values", [])]
                for one in answer["results"]]

    def call(self, *statements, path=REPLICATED):
        """Have statements carried out, each [sql, argument, ...]; an argument
        that is a function is called for each try.  Returns the rows of each
        or, in their place, a CallError.  Raises OSError when no node answers
        for so long that it is time to give up."""
        until = time.monotonic() + self.patience
        while True:
            try:
                return self.send(path, json.dumps(statements,
                                                  default=lambda f: f()))
            except (OSError, http.client.HTTPException) as error:
                self.http = None
                if time.monotonic() > until:
                    raise OSError(f"no answer: {error}") from error
                time.sleep(0.1)


def renew(nodes, held, lease_ms):
    """A thread of its own: renew the lease three times in its life."""
    cluster = Cluster(nodes, patience=1e9)
    while True:
        time.sleep(lease_ms / 3000)
        for claim in list(held):
            cluster.call(["SELECT claimq_renew(?, ?, ?, ?)", *claim, lease_ms,
                          now_ms])


def work(payload):
    """Do a job; the verb that settles it, and its arguments."""
    try:
        handle(payload)
        return "SELECT claimq_complete(?, ?, 'now_ms', ?, 'request', ?)", []
    except Exception as error:
        return ("SELECT claimq_retry(?, ?, ?, 'now_ms', ?, 'request', ?)",
                [repr(error)])


def run(lane, nodes, ending, lease_ms=30000):
    """Work until the event `ending` is set."""
    cluster, held, settle, request = Cluster(nodes), [], [], uuid.uuid4().hex
    owner = f"{socket.gethostname()}:{os.getpid()}"
    threading.Thread(target=renew, args=(nodes, held, lease_ms),
                     daemon=True).start()
    while not ending.is_set():
        *settled, jobs = cluster.call(*settle, [
            "SELECT payload, claim_id, lease_token FROM claimq_lane"
            " WHERE lane=? AND owner=? AND ttl_ms=? AND now_ms=? AND request=?",
            lane, owner, lease_ms, now_ms, request])
        held.clear()
        for error in [*settled, jobs]:
            if isinstance(error, CallError):
                if error.code != "claim_lost":
                    raise error
                print("another has it:", error, file=sys.stderr)
        settle = []
        for payload, *claim in jobs:
            held.append(claim)
            sql, reason = work(payload)
            settle = [[sql, *claim, *reason, now_ms, uuid.uuid4().hex]]
            request = uuid.uuid4().hex
        if not jobs and not ending.wait(0.05):
            cluster.call(["SELECT claimq_wait(2000, 'lane', ?)", lane],
                         path=LOCAL)
    if settle:
        cluster.call(*settle)


if __name__ == "__main__":
    ending = threading.Event()
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: ending.set())
    run(sys.argv[1], sys.argv[2:], ending)
