"""http_worker.py: a claimq worker over HTTP, for a cluster of rqlite nodes.

    python3 http_worker.py LANE http://node1:4001 http://node2:4001 ...

It needs only Python's standard library.  Put your own work in the place of
handle().  Each job costs one round trip: one list of statements settles the job
at hand and claims the next.  When a node does not answer, or has no leader, the
list goes to the next node.  It may have been carried out all the same, so the
calls in it have a `request`: a repeated call gets the answer that was lost.
"""
import concurrent.futures, http.client, json, os, signal, socket, sys
import threading, time, uuid

LEASE_MS = 30000
NOW = object()                          # in a statement: the time of the try
CLAIM = ("SELECT payload, claim_id, lease_token FROM claimq_lane WHERE lane=?"
         " AND owner=? AND lease_ms=? AND now_ms=? AND request=?")
COMPLETE = "SELECT claimq_complete(?, ?, 'now_ms', ?, 'request', ?)"
RETRY = "SELECT claimq_retry(?, ?, ?, 'now_ms', ?, 'request', ?)"


def handle(payload):
    """The work; a BLOB is a list of bytes.  After an exception the job is
    tried again later."""
    print("done:", payload, flush=True)


def call(nodes, *statements, path="/db/request?level=strong&blob_array"):
    """Have statements, each [sql, argument, ...], carried out by the first of
    the nodes that answers.  Returns the rows of each."""
    while True:
        try:
            nodes[0].request("POST", path, json.dumps(
                statements, default=lambda now: time.time_ns() // 1_000_000))
            reply = nodes[0].getresponse()
            text = reply.read().decode()
            if reply.status == 200 and "error" not in json.loads(text):
                break
            raise OSError(text)         # such as: leader not found
        except (OSError, http.client.HTTPException) as error:
            print(f"{nodes[0].host}:{nodes[0].port}: {error}", file=sys.stderr)
            nodes[0].close()
            nodes.append(nodes.pop(0))
            time.sleep(0.1)
    answers = json.loads(text)["results"]
    for error in [one["error"] for one in answers if "error" in one]:
        if "claimq: claim_lost: " not in error:
            raise RuntimeError(error)
        print("another has the job:", error, file=sys.stderr)
    return [one.get("values", []) for one in answers]


def run(lane, nodes, ending):
    """Work until the event `ending` is set.  handle() runs in a thread of its
    own, while this one renews the lease three times in its life."""
    pool, settle = concurrent.futures.ThreadPoolExecutor(1), []
    owner = f"{socket.gethostname()}:{os.getpid()}"
    request = uuid.uuid4().hex          # stays until it has brought a job
    while not ending.is_set():
        *_, jobs = call(nodes, *settle, [CLAIM, lane, owner, LEASE_MS, NOW,
                                         request])
        settle = []
        for payload, *claim in jobs:    # one, or none
            job = pool.submit(handle, payload)
            while concurrent.futures.wait([job], LEASE_MS / 3000).not_done:
                call(nodes, ["SELECT claimq_renew(?, ?, ?, 'now_ms', ?)",
                             *claim, LEASE_MS, NOW])
            failed, uid = job.exception(), uuid.uuid4().hex
            settle = [[RETRY, *claim, repr(failed), NOW, uid] if failed else
                      [COMPLETE, *claim, NOW, uid]]
            request = uuid.uuid4().hex
        if not jobs and not ending.is_set():
            time.sleep(0.05)    # ending.wait() and set() by a signal may hang
            call(nodes, ["SELECT claimq_wait(2000, 'lane', ?)", lane],
                 path="/db/query?level=none")    # by this node alone
    if settle:
        call(nodes, *settle)


if __name__ == "__main__":
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    addresses = [url.split("://")[-1].rstrip("/") for url in sys.argv[2:]]
    run(sys.argv[1], [http.client.HTTPConnection(address, timeout=10)
                      for address in addresses], ending)
