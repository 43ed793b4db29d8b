"""worker_python.py: the Worker of claimq and the consumer of huey.

    PYTHONPATH=... python3 worker_python.py QUEUE DIR JOBS CONCURRENCY MS

QUEUE is claimq or huey.  JOBS jobs of 50 bytes are put into a new file in DIR;
then CONCURRENCY threads work on them, with a handler that sleeps for MS
milliseconds.  Prints one line, a JSON object: the version of the library, and
the seconds from the first begin of a handler to the last end, by the clock and
by the processor.  Each job must have been handled once.
"""
import json
import os
import sys
import threading
import time


class Handler:
    def __init__(self, jobs, ms):
        self.jobs, self.seconds, self.seen = jobs, ms / 1000, []
        self.lock, self.done = threading.Lock(), threading.Event()
        self.start = None

    def __call__(self, payload):
        with self.lock:
            if self.start is None:
                self.start = time.perf_counter(), time.process_time()
        if self.seconds:
            time.sleep(self.seconds)
        with self.lock:
            self.seen.append(payload)
            if len(self.seen) == self.jobs:
                self.end = time.perf_counter(), time.process_time()
                self.done.set()


def claimq(path, payloads, concurrency, handler):
    import claimq as lib
    db = lib.connect(path)
    with lib.transaction(db):
        for payload in payloads:
            lib.submit(db, "q", payload)
    lib.Worker(path, "q", lambda job: handler(job.payload),
               concurrency=concurrency).drain()
    return lib.__version__


def huey(path, payloads, concurrency, handler):
    import huey as lib
    queue = lib.SqliteHuey("q", filename=path, results=False)
    task = queue.task(name="job")(handler)
    for payload in payloads:
        task(payload)
    consumer = queue.create_consumer(workers=concurrency, periodic=False)
    consumer.start()
    handler.done.wait(600)
    consumer.stop(graceful=True)
    return lib.__version__


def main(name, where, jobs, concurrency, ms):
    payloads = ["job %046d" % i for i in range(int(jobs))]
    handler = Handler(len(payloads), float(ms))
    version = {"claimq": claimq, "huey": huey}[name](
        os.path.join(where, "queue.db"), payloads, int(concurrency), handler)
    assert sorted(handler.seen) == payloads, len(handler.seen)
    clock, cpu = (end - start
                  for start, end in zip(handler.start, handler.end))
    print(json.dumps({"version": version, "seconds": clock, "cpu": cpu}))


main(*sys.argv[1:6])
