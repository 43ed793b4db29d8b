"""client.py: how the tests talk to a cluster of rqlite nodes.

    cluster = Cluster(["127.0.0.1:4001", "127.0.0.1:4003"])
    rows, = cluster.call(["SELECT claimq_submit('l', ?, 'now_ms', ?)", "x",
                          now_ms])

As ext/lang/python/http_worker.py does it, but with a timeout, with an end to its
patience, with the error of each statement, and with a step of its own, send(),
in which a test can lose the answer.
"""
import http.client, itertools, json, re, time

REPLICATED = "/db/request?level=strong&blob_array"  # by all nodes, in order
LOCAL = "/db/query?level=none"                      # one node's own copy


def now_ms():
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
        self.nodes = itertools.cycle(nodes)
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
        for long enough that it is time to give up."""
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
