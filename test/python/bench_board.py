"""Do workers notice an open board?  And how soon does a long file open?

    python3 bench_board.py throughput [ROUNDS]
    python3 bench_board.py open [ROWS]

throughput: four processes claim and complete jobs of one lane, without a pause,
while a board with an open page runs (the stream of changes, and the overview
asked for after each, as the page does it) or is stopped by SIGSTOP, in turns of
a second: the two share the machine's moods.  Prints the ratio of what was
completed with and without, of the whole and of the middle pair.

open: how long it takes from the start of `claimq board` on a file of so many
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
    if not rows:
        break
    for claim in rows:
        db.execute("SELECT claimq_complete(?, ?)", claim).fetchall()
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


def throughput(rounds):
    db = fill(200000 + rounds * 20000)
    board, port, path = start()
    threading.Thread(target=watch, args=[port, path], daemon=True).start()
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, PATH, "w%d" % n])
               for n in range(4)]
    time.sleep(2)
    done = lambda: db.execute("SELECT max(event_id) FROM claimq_event"
                              ).fetchall()[0][0]
    rates = {True: [], False: []}
    for n in range(rounds):
        for on in (True, False) if n % 2 else (False, True):
            board.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
            time.sleep(0.2)
            first, begun = done(), time.monotonic()
            time.sleep(1)
            rates[on].append((done() - first) / (time.monotonic() - begun))
    for process in [*workers, board]:
        process.kill()
        process.wait()
    pairs = [a / b for a, b in zip(rates[True], rates[False])]
    print("with %.0f/s, without %.0f/s, ratio %.3f, middle pair %.3f" % (
        statistics.mean(rates[True]), statistics.mean(rates[False]),
        statistics.mean(rates[True]) / statistics.mean(rates[False]),
        statistics.median(pairs)))


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
    throughput(int((sys.argv + ["20"])[2]))
else:
    opening(int((sys.argv + ["1000000"])[2]))
