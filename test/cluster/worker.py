"""worker.py: ext/lang/python/http_worker.py with a lease of three seconds, and with
work that does what a test wants of it.

    python3 worker.py FOLDER LANE NODE ...

A job is done when FOLDER has a file of its payload's name.  The job "fails"
fails at its first try.
"""
import os, signal, sys, threading, time
import http.client

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "ext", "lang", "python"))
import http_worker

FOLDER, LANE, *NODES = sys.argv[1:]


def handle(payload):
    print("begun:", payload, flush=True)
    name = os.path.join(FOLDER, str(payload))
    if payload == "fails" and not os.path.exists(name):
        open(name, "w").close()
        raise ValueError("not now")
    while not os.path.exists(name):
        time.sleep(0.01)
    print("done:", payload, flush=True)


ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
http_worker.LEASE_MS, http_worker.handle = 3000, handle
http_worker.run(LANE, [http.client.HTTPConnection(node, timeout=10)
                       for node in NODES], ending)
