"""Do workers notice an open board?  And how soon does a long file open?

    python3 bench_board.py throughput [ROUNDS [JOBS]]
    python3 bench_board.py open [ROWS]

throughput: four processes claim jobs of one lane and complete them, each
completion submits the next, so that the lane stays as long as it is; what has
ended is removed after ten seconds.  A board with an open page (the stream of
changes, and the overview asked for after each, as the page does it) runs and is
stopped (SIGSTOP), in turns of three seconds, so that the two share the machine's
moods.  Prints the ratio of what was completed with and without, of the whole and
of the middle pair; the processor time that workers need for a job, which other
load changes less; and how much of a processor the board took.

open: how long it takes from the start of `claimq board` on a file of this many
jobs to the first line, and from the request of the page to the answer with the
counts of all scopes.  (Times of a machine, not a test.)
"""
import contextlib
import http.client
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import claimq

PATH = os.path.abspath("bench_board.db")
WORKER = """
import claimq, sys
db = claimq.connect(sys.argv[1], timeout=30)
db.execute("PRAGMA synchronous=normal").fetchall()
while True:
    rows = db.execute("SELECT claim_id, lease_token FROM claimq_lane('mail', ?)",
                      [sys.argv[2]]).fetchall()
    for claim in rows:
        with claimq.transaction(db):
            db.execute("SELECT claimq_complete(?, ?)", claim).fetchall()
            db.execute("SELECT claimq_submit('mail', 'again')").fetchall()
"""


def fill(jobs, lanes=("mail",)):
    for end in ("", "-wal", "-shm"):
        if os.path.exists(PATH + end):
            os.remove(PATH + end)
    db = claimq.connect(PATH)
    db.execute("PRAGMA synchronous=off").fetchall()
    with claimq.transaction(db):
        for n in range(jobs):
            db.execute("SELECT claimq_submit(?, ?)",
                       [lanes[n % len(lanes)], "payload %d" % n]).fetchall()
    return db


def start():
    """A board: (process, port, path with the token)."""
    board = subprocess.Popen(
        [sys.executable, "-m", "claimq", "board", PATH, "--port", "0"],
        stdout=subprocess.PIPE)
    board.stdout.readline()
    url = board.stdout.readline().decode().strip()
    return board, *re.fullmatch(r"http://[\d.]+:(\d+)(/.*)", url).groups()


def enter(port, path):
    """A connection that was let in: (connection, headers)."""
    page = http.client.HTTPConnection("127.0.0.1", int(port))
    page.request("GET", path)
    answer = page.getresponse()
    answer.read()
    return page, {"Cookie": answer.headers["Set-Cookie"].split(";")[0]}


def watch(port, path):
    """What a page does, until the board is ended."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        _watch(port, path)


def _watch(port, path):
    page, headers = enter(port, path)
    stream = socket.create_connection(("127.0.0.1", int(port)))
    stream.sendall(b"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n"
                   b"Cookie: %s\r\n\r\n" % (port.encode(),
                                            headers["Cookie"].encode()))
    for line in stream.makefile("rb"):
        if line.startswith(b"data"):
            page.request("GET", "/api/overview", headers=headers)
            page.getresponse().read()
            time.sleep(0.5)


def throughput(rounds, waiting):
    db = fill(waiting)
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, PATH, "w%d" % n],
                                stdin=subprocess.PIPE) for n in range(4)]
    rates, cost, share = {True: [], False: []}, {True: [], False: []}, []
    board, port, path = start()
    threading.Thread(target=watch, args=[port, path], daemon=True).start()
    time.sleep(15)
    for n in range(rounds):
        for on in (True, False) if n % 2 else (False, True):
            board.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
            db.execute("SELECT claimq_vacuum('older_than_ms', 10000)"
                       ).fetchall()
            time.sleep(0.5)
            first, begun = done(db), time.monotonic()
            used, own = used_by(*workers), used_by(board)
            time.sleep(3)
            took, jobs = time.monotonic() - begun, done(db) - first
            rates[on].append(jobs / took)
            cost[on].append((used_by(*workers) - used) / jobs * 1e6)
            if on:
                share.append((used_by(board) - own) / took)
    board.kill()
    board.wait()
    for worker in workers:
        worker.kill()
        worker.wait()
    mean, median = statistics.mean, statistics.median
    pairs = [a / b for a, b in zip(rates[True], rates[False])]
    print("with %.0f/s, without %.0f/s, ratio %.3f, middle pair %.3f" % (
        mean(rates[True]), mean(rates[False]),
        mean(rates[True]) / mean(rates[False]), median(pairs)))
    print("processor time for a job: with %.0f us, without %.0f us, middle"
          " pair %.3f; the board took %.1f %% of a processor" % (
              median(cost[True]), median(cost[False]),
              median(a / b for a, b in zip(cost[True], cost[False])),
              mean(share) * 100))


def used_by(*processes):
    """Seconds of processor time."""
    used = 0
    for process in processes:
        with open("/proc/%d/stat" % process.pid) as file:
            fields = file.read().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


def done(db):
    return db.execute("SELECT max(event_id) FROM claimq_event").fetchall()[0][0]


def opening(rows):
    fill(rows, ["lane%d" % n for n in range(10)]).close()
    for _ in range(5):
        begun = time.monotonic()
        board, port, path = start()
        started = time.monotonic()
        page, headers = enter(port, path)
        for what in ("/", "/style.css", "/page.js", "/api/start",
                     "/api/overview"):
            page.request("GET", what, headers=headers)
            body = page.getresponse().read()
        ended = time.monotonic()
        page.request("GET", "/api/rows?d=lane&s=lane3", headers=headers)
        page.getresponse().read()
        print("start %.2f s, page %.2f s (%d bytes), jobs of a lane %.3f s" % (
            started - begun, ended - started, len(body),
            time.monotonic() - ended))
        board.kill()
        board.wait()


if sys.argv[1] == "throughput":
    throughput(*map(int, sys.argv[2:] + ["20", "10000"][len(sys.argv) - 2:]))
else:
    opening(int((sys.argv + ["1000000"])[2]))
