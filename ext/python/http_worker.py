"""http_worker.py: a claimq worker over HTTP, for a cluster of rqlite nodes.

    python3 http_worker.py LANE http://10.0.0.1:4001 http://10.0.0.2:4001 ...

It needs only Python's standard library.  Each job costs one round trip: the
job at hand is completed and the next one claimed by one list of statements.
When a node does not answer, the same list goes to the next node.  The list may
have been carried out all the same, so every call in it has a `request`, and a
repeated call gets the answer that was lost.  Put your own work in the place of
handle().
"""
import http.client, itertools, json, os, re, signal, socket, sys, threading
import time, uuid


def handle(payload):
    """The work.  An exception has the job retried later."""
    print("done:", payload, flush=True)


def now_ms():
    """The time belongs to the call: each node would read its own clock."""
    return time.time_ns() // 1_000_000


class CallError(Exception):
    """The error of one statement; code is 'claim_lost' and the like."""
    def __init__(self, message):
        super().__init__(message)
        found = re.search(r"\bclaimq: ([a-z_]+): ", message)
        self.code = found and found[1]


class Cluster:
    """The nodes, connected to one of them at a time; for one thread."""
    path = "/db/request?level=strong&blob_array"

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
        if "error" in answer:  # no leader, a leader lost: nobody has answered
            raise ConnectionError(answer["error"])
        return [CallError(one["error"]) if "error" in one else
                [[bytes(v) if isinstance(v, list) else v for v in row]
                 for row in one.get("values", [])]
                for one in answer["results"]]

    def call(self, *statements, transaction=False):
        """Have [sql, argument, ...] ... carried out.  Returns for each its
        rows or, in their place, a CallError.  Raises OSError when no node has
        answered for so long that it is time to give up."""
        path = self.path + ("&transaction" if transaction else "")
        body, until = json.dumps(statements), time.time() + self.patience
        while True:
            try:
                return self.send(path, body)
            except (OSError, http.client.HTTPException) as error:
                self.http = None
                if time.time() > until:
                    raise OSError(f"no answer: {error}") from error
                time.sleep(0.1)


class Worker:
    def __init__(self, lane, nodes, lease_ms=30000, idle_s=0.2):
        self.lane, self.nodes = lane, nodes
        self.lease_ms, self.idle_s = lease_ms, idle_s
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self.held, self.ending = None, threading.Event()

    def claim(self):
        return ["SELECT payload, claim_id, lease_token FROM claimq_lane"
                " WHERE lane=? AND owner=? AND ttl_ms=? AND now_ms=?"
                " AND request=?", self.lane, self.owner, self.lease_ms,
                now_ms(), uuid.uuid4().hex]

    def heartbeat(self):
        """A thread of its own: renew the lease three times in its life."""
        cluster = Cluster(self.nodes)
        while not self.ending.wait(self.lease_ms / 3000):
            held = self.held
            if held:
                cluster.call(["SELECT claimq_renew(?, ?, ?, ?)", *held,
                              self.lease_ms, now_ms()])

    def work(self, payload, *claim):
        """Do a job; returns the call that settles it."""
        self.held = claim
        try:
            handle(payload)
            verb = ["SELECT claimq_complete(?, ?, 'now_ms', ?, 'request', ?)",
                    *claim]
        except Exception as error:
            verb = ["SELECT claimq_retry(?, ?, ?, 'now_ms', ?, 'request', ?)",
                    *claim, repr(error)]
        self.held = None
        return [*verb, now_ms(), uuid.uuid4().hex]

    def run(self):
        threading.Thread(target=self.heartbeat, daemon=True).start()
        cluster, settle = Cluster(self.nodes), []
        while not self.ending.is_set():
            *settled, jobs = cluster.call(*settle, self.claim())
            for answer in settled:
                if isinstance(answer, CallError):  # another has the job now
                    print("too late:", answer, file=sys.stderr)
            if isinstance(jobs, CallError):
                raise jobs
            settle = [self.work(*job) for job in jobs]
            if not jobs:
                self.ending.wait(self.idle_s)
        if settle:
            cluster.call(*settle)


if __name__ == "__main__":
    worker = Worker(sys.argv[1], sys.argv[2:])
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: worker.ending.set())
    worker.run()
