"""claimq board, asked over HTTP: who gets in, what is answered, what is
changed, and that nothing is held meanwhile."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import quote

import claimq
from claimq.board import Board
from support import HOUR, LIMIT, Case, run

STATIC = os.path.join(os.path.dirname(claimq.__file__), "static")


class Boards(Case):
    """A board in this process."""

    def board(self, **options):
        board = Board(self.path, **options)
        thread = threading.Thread(target=board.serve_forever,
                                  kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()

        def end():
            board.shutdown()
            board.close()
            thread.join()
        self.addCleanup(end)
        self.port = board.server_address[1]
        self.host = "127.0.0.1:%d" % self.port
        self.cookie = "%s=%s" % (board.cookie_name, board.cookie)
        return board

    def ask(self, method, path, headers=(), body=None, cookie=True):
        """(status, headers, body)"""
        sent = {"Host": self.host}
        if cookie:
            sent["Cookie"] = self.cookie
        sent.update(headers)
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=LIMIT)
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, answer.headers, answer.read()
        connection.close()
        return found

    def get(self, path, status=200, **more):
        found = self.ask("GET", path, **more)
        self.assertEqual(found[0], status, found[2])
        return json.loads(found[2])

    def change(self, what, ids, headers=(), **more):
        sent = {"Origin": "http://" + self.host,
                "Content-Type": "application/json"}
        sent.update(headers)
        status, _, body = self.ask(
            "POST", "/api/change", sent,
            json.dumps({"do": what, "ids": ids}).encode(), **more)
        return status, json.loads(body)


class Tests(Boards):
    def test_token(self):
        board = self.board()
        for path in ("/", "/page.js", "/api/overview", "/api/live", "/scope"):
            self.assertEqual(self.ask("GET", path, cookie=False)[0], 401)
        for wrong in ("", "x", board.token[:-1], board.token + "x", "%00",
                      "%C3%A9"):
            status, headers, _ = self.ask("GET", "/?token=" + wrong,
                                          cookie=False)
            self.assertIn((status, headers["Set-Cookie"]), [(401, None)])
        status, headers, _ = self.ask("GET", "/?token=" + board.token,
                                      cookie=False)
        self.assertEqual(status, 200)
        cookie, *rest = headers["Set-Cookie"].split("; ")
        self.assertEqual(cookie, self.cookie)
        self.assertEqual(sorted(rest),
                         ["HttpOnly", "Path=/", "SameSite=Strict"])
        self.assertNotIn(board.token, cookie)
        self.assertEqual(self.ask("GET", "/")[0], 200)
        for wrong in (self.cookie[:-1], self.cookie + "x",
                      board.cookie_name + "=", "other=" + board.cookie):
            self.assertEqual(self.ask("GET", "/", {"Cookie": wrong})[0], 401)

    def test_another_token(self):
        self.assertNotEqual(self.board().token, self.board().token)

    def test_host(self):
        """A name that was made to point to us is not ours."""
        self.board()
        for good in (self.host, "localhost:%d" % self.port,
                     "LOCALHOST:%d" % self.port):
            self.assertEqual(self.ask("GET", "/", {"Host": good})[0], 200)
        for bad in ("evil.example", "evil.example:%d" % self.port,
                    "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:%d"
                    % self.port, "", None):
            self.assertEqual(self.ask("GET", "/", {"Host": bad})[0], 421, bad)

    def test_allowed_host(self):
        self.board(hosts=["queue.example", "other.example:80"])
        for good in ("queue.example:%d" % self.port, "other.example:80"):
            self.assertEqual(self.ask("GET", "/", {"Host": good})[0], 200)
        self.assertEqual(self.ask("GET", "/", {"Host": "other.example"})[0],
                         421)

    def test_loopback(self):
        board = self.board()
        self.assertEqual(board.server_address[0], "127.0.0.1")
        self.assertEqual(board.socket.getsockname()[0], "127.0.0.1")

    def test_origin(self):
        """Pages elsewhere neither read nor write."""
        self.board(write=True)
        letter = self.letter("mail", "a", "why")
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1",
                       "file://", self.host, "http://" + self.host + ".x"):
            self.assertEqual(
                self.ask("GET", "/api/overview", {"Origin": origin})[0], 403)
            self.assertEqual(
                self.change("discard", [letter], {"Origin": origin})[0], 403)
        self.assertEqual(self.change("discard", [letter], {"Origin": None})[0],
                         403)
        for site in ("cross-site", "same-site"):
            self.assertEqual(
                self.ask("GET", "/api/overview", {"Sec-Fetch-Site": site})[0],
                403)
        self.assertEqual(self.one("SELECT status FROM claimq_letter"),
                         "pending")
        self.assertEqual(self.change("discard", [letter])[0], 200)
        self.assertEqual(self.one("SELECT status FROM claimq_letter"),
                         "discarded")

    def test_post(self):
        """Changes are POSTs of JSON, small ones, with the cookie."""
        self.board(write=True)
        letter = self.letter("mail", "a", "why")
        self.assertEqual(self.change("discard", [letter], cookie=False)[0], 401)
        for kind in ("text/plain", "application/x-www-form-urlencoded", None):
            self.assertEqual(
                self.change("discard", [letter], {"Content-Type": kind})[0],
                415)
        self.assertEqual(self.ask("GET", "/api/change?do=discard&ids=1")[0],
                         404)
        for ids in ([], ["1"], 1, None, [True], [1.5], [1] * 501):
            self.assertEqual(self.change("discard", ids)[0], 400, ids)
        self.assertEqual(self.change("vacuum", [1])[0], 400)
        status, _, _ = self.ask("POST", "/api/change", {
            "Origin": "http://" + self.host,
            "Content-Type": "application/json"}, b"x" * 70000)
        self.assertEqual(status, 413)
        self.assertEqual(self.one("SELECT status FROM claimq_letter"),
                         "pending")

    def test_write(self):
        self.board(write=True)
        one, two, three = [self.letter("mail", n, "why") for n in "abc"]
        status, found = self.change("requeue", [one, two, 99])
        self.assertEqual(status, 200)
        self.assertEqual([row.get("code") for row in found["results"]],
                         [None, None, "not_found"])
        self.assertEqual(self.change("discard", [three])[1], {
            "results": [{"id": three, "result": "discarded"}]})
        self.assertEqual(self.sql("SELECT status FROM claimq_letter"),
                         [("resolved",), ("resolved",), ("discarded",)])
        job = self.submit("held", "x")
        self.claim("held")
        self.assertEqual(self.change("revoke", [job])[1], {
            "results": [{"id": job, "result": "revoked"}]})
        self.assertEqual(self.change("cancel", [job])[1], {
            "results": [{"id": job, "result": "cancelled"}]})

    def test_explicit_clock(self):
        """A database whose callers give the time gets it from the board."""
        letter = self.letter("mail", "a", "why")
        job = self.submit("mail", "b")
        self.claim("mail", "worker-a")
        self.sql("SELECT claimq_init('clock', 'explicit')")
        self.board(write=True)

        def counted():
            found = self.get("/api/overview")
            return not found["about"]["counted"]["approx"] and found

        self.assertEqual([(row["scope"], row["held"])
                          for row in self.wait(counted)["scopes"]],
                         [("mail", 1)])
        self.assertEqual([row["reason"] for row in self.get(
            "/api/why?d=lane&s=mail")["why"]], ["held"])
        self.assertEqual(self.get("/api/scope?d=lane&s=mail")
                         ["counts"]["held"], 1)
        for what, key, result in (("requeue", letter, 3),
                                  ("revoke", job, "revoked"),
                                  ("cancel", job, "cancelled")):
            self.assertEqual(self.change(what, [key])[1], {
                "results": [{"id": key, "result": result}]})

    def test_read_only(self):
        """Without --write nothing is changed, not even by a request that is
        otherwise right, and the connections could not."""
        board = self.board()
        letter = self.letter("mail", "a", "why")
        before = self.sql("SELECT * FROM claimq_letter")
        for what in ("requeue", "discard", "revoke", "cancel"):
            status, found = self.change(what, [letter])
            self.assertEqual(status, 403)
            self.assertIn("--write", found["error"])
        with board.pool.look() as look:
            self.assertEqual(look.value("PRAGMA query_only"), 1)
        self.assertEqual(self.sql("SELECT * FROM claimq_letter"), before)

    def test_policy(self):
        """Nothing but our own script and style runs, and none is inline."""
        self.board()
        for path in ("/", "/api/overview", "/page.js", "/nothing",
                     "/?token=x"):
            _, headers, _ = self.ask("GET", path)
            policy = dict(part.strip().split(" ", 1) for part in
                          headers["Content-Security-Policy"].split(";"))
            self.assertEqual(policy["default-src"], "'none'")
            for name in ("script-src", "style-src", "connect-src", "img-src"):
                self.assertEqual(policy[name], "'self'")
            for name in ("frame-ancestors", "base-uri", "form-action"):
                self.assertEqual(policy[name], "'none'")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cache-Control"], "no-store")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertIsNone(headers["Access-Control-Allow-Origin"])
        with open(os.path.join(STATIC, "page.html")) as file:
            page = file.read()
        self.assertNotRegex(page, r"<style|\sstyle=|\son\w+=|javascript:")
        self.assertNotRegex(page, r"<script(?! src=\"/page.js\"></script>)")
        self.assertNotRegex(page, r"(src|href)=\"(?!/|#)")
        with open(os.path.join(STATIC, "page.js")) as file:
            script = file.read()
        self.assertNotRegex(script, r"innerHTML|outerHTML|insertAdjacentHTML|"
                            r"document\.write|\beval\b|new Function|DOMParser|"
                            r"srcdoc|https?://(?!www\.w3\.org/2000/svg)")

    def test_paths(self):
        self.board()
        for path in ("/nothing", "/../board.py", "/static/page.js",
                     "/%2e%2e/board.py", "/api/", "/api/request",
                     "/api/__init__", "/api/change", "//evil.example/"):
            self.assertEqual(self.ask("GET", path)[0], 404, path)
        for path in ("/api/job?id=4711", "/api/letter?id=1", "/api/batch?id=1",
                     "/api/message?id=1", "/api/scope?d=queue&s=x"):
            self.assertIn("error", self.get(path, 404))
        for path in ("/api/job", "/api/job?id=x", "/api/job?id=" + "9" * 30,
                     "/api/rows?d=lane&s=a&after=x", "/api/letters?status=x",
                     "/api/rows?d=outbox&s=a&kind=x"):
            self.assertIn("error", self.get(path, 400))
        self.assertEqual(self.ask("PUT", "/")[0], 501)

    def test_overview(self):
        """The page gets what SQL says."""
        for n in range(4):
            self.submit("mail", n, "delay_ms", HOUR * (n % 2))
        self.claim("mail", "worker-a")
        self.sql("SELECT claimq_queue('q', 2)")
        self.sql("SELECT claimq_publish('q', 'a')")
        self.sql("SELECT claimq_enqueue('s', 'b')")
        self.letter("other", "c", "why")
        self.board()
        names = ("discipline", "scope", "ready", "delayed", "held", "expired",
                 "dead", "oldest_ready_at_ms")
        wanted = self.sql("SELECT %s FROM claimq_stats WHERE"
                          " discipline<>'dead_letter'" % ", ".join(names))

        def counted():
            found = self.get("/api/overview?sort=scope")
            return not found["about"]["counted"]["approx"] and found

        found = self.wait(counted)
        self.assertEqual(sorted(tuple(row[name] for name in names)
                                for row in found["scopes"]), sorted(wanted))
        self.assertEqual(found["totals"]["ready"],
                         self.one("SELECT sum(ready) FROM claimq_stats"
                                  " WHERE discipline<>'dead_letter'"))
        self.assertEqual([row["owner_id"] for row in found["workers"]],
                         ["worker-a"])
        found = self.get("/api/overview?filter=MAI")
        self.assertEqual([row["scope"] for row in found["scopes"]], ["mail"])
        found = self.get("/api/workers")
        self.assertEqual(found["workers"][0]["until_ms"], self.one(
            "SELECT max(expires_at_ms) FROM claimq_job"))

    def test_answers(self):
        """Every page of the board has its answer."""
        job = self.submit("mail", "a", "priority", 3)
        self.submit("mail", "b", "capabilities", '["gpu"]')
        self.claim("mail", "worker-a")
        self.sql("SELECT claimq_queue('q', 2)")
        self.sql("SELECT claimq_publish('q', 'm', 'partition', 1)")
        self.sql("SELECT claimq_enqueue('s', 'b')")
        self.sql("SELECT * FROM claimq_contest(7, 'a/b', 'n', ?)", HOUR)
        letter = self.letter("other", "c", "why", "class")
        self.board()
        found = self.get("/api/job?id=%d" % job)
        self.assertEqual((found["job"]["kind"], found["job"]["owner_id"]),
                         ("held", "worker-a"))
        self.assertNotIn("lease_token", json.dumps(found))
        self.assertEqual([row["reason"] for row in self.get(
            "/api/why?d=lane&s=mail")["why"]], ["held", "capability"])
        self.assertEqual([row["reason"] for row in self.get(
            "/api/why?d=contest&s=7/a/b")["why"]], ["held"])
        found = self.get("/api/rows?d=lane&s=mail")
        self.assertEqual([row["kind"] for row in found["rows"]],
                         ["held", "ready"])
        found = self.get("/api/scope?d=outbox&s=q")
        self.assertEqual([row["kind"] for row in found["partitions"]],
                         ["idle", "ready"])
        self.assertEqual(found["counts"]["ready"], 1)
        self.assertEqual(self.get("/api/scope?d=contest&s=7/a/b")["holder"][0]
                         ["owner_id"], "n")
        row, = self.get("/api/rows?d=session&s=s")["rows"]
        self.assertEqual(self.get("/api/batch?id=%d" % row["enqueue_seq"])
                         ["batch"]["payload"], "b")
        row, = self.get("/api/rows?d=outbox&s=q&kind=1")["rows"]
        self.assertEqual(self.get("/api/message?id=%d" % row["message_id"])
                         ["message"]["payload"], "m")
        found = self.get("/api/letter?id=%d" % letter)["letter"]
        self.assertEqual((found["reason"], found["error_class"]),
                         ("why", "class"))
        self.assertEqual(len(self.get("/api/letters?search=WHY")["rows"]), 1)
        self.assertEqual(self.get("/api/letters?search=no")["rows"], [])
        self.assertEqual(self.get("/api/schedules")["rows"], [])
        self.get("/api/start")

    def test_limits(self):
        """The limits of a lane, and how full they are."""
        self.sql("SELECT claimq_limit('mail', 'max_active', 3, 'rate', 5,"
                 " 'per_ms', ?, 'group_max_active', 1, 'fair', 1)", HOUR)
        for n in range(6):
            self.submit("mail", n, "group_key", "g%d" % (n % 2))
        self.submit("other", 1)
        self.assertEqual(len(self.claim("mail", n=10)), 2)
        self.board()
        limit, = self.get("/api/scope?d=lane&s=mail")["limits"]
        self.assertEqual([limit[name] for name in (
            "max_active", "active", "rate", "per_ms", "started",
            "group_max_active", "fair")], [3, 2, 5, HOUR, 2, 1, 1])
        self.assertEqual([group["group_key"]
                          for group in limit["full_groups"]], ["g0", "g1"])
        self.assertEqual(self.get("/api/scope?d=lane&s=other")["limits"], [])
        why = {row["reason"] for row in
               self.get("/api/why?d=lane&s=mail")["why"]}
        self.assertEqual(why, {"held", "limit"})
        self.assertEqual(len(self.get("/api/rows?d=lane&s=mail")["rows"]), 6)
        self.wait(lambda: (self.get("/api/scope?d=lane&s=mail")["counts"]
                           or {}).get("limited") == 4)

    def test_blocked(self):
        """Jobs that wait for others, and for which."""
        first = self.submit("mail", "a")
        others = [self.submit("mail", n, "after", "[%d]" % first)
                  for n in range(3)]
        last = self.submit("mail", "z", "after", json.dumps(others[:2]))
        self.submit("other", "z", "after", "[%d]" % first)
        self.board()
        self.assertEqual([row["job_id"] for row in self.get(
            "/api/rows?d=lane&s=mail&kind=blocked")["rows"]], [*others, last])
        found = self.get("/api/job?id=%d" % last)
        self.assertEqual(found["job"]["kind"], "blocked")
        self.assertEqual([row["job_id"] for row in found["after"]["before"]],
                         others[:2])
        found = self.get("/api/job?id=%d" % others[0])
        self.assertEqual([row["state"] for row in found["after"]["before"]],
                         ["ready"])
        self.assertEqual([row["job_id"] for row in found["after"]["behind"]],
                         [last])
        self.assertTrue(self.get("/api/scope?d=lane&s=mail")["blocked"])

    def test_schedules(self):
        at = self.one("SELECT claimq_schedule('nightly', '0 3 * * *', 'reports',"
                      " 'all of them')")
        for n in range(60):
            self.sql("SELECT claimq_schedule(?, 'every 90 s', 'other', ?,"
                     " 'enabled', ?)", "other%02d" % n, n, n % 2)
        self.board()
        found = self.get("/api/schedules")
        self.assertEqual([found["rows"][0][name] for name in (
            "name", "spec", "lane_id", "next_at_ms", "payload")],
            ["nightly", "0 3 * * *", "reports", at, "all of them"])
        self.assertEqual(len(found["rows"]), 50)
        more = self.get("/api/schedules?after=" + quote(found["after"]))
        self.assertEqual(len(more["rows"]), 11)
        found = self.get("/api/scope?d=lane&s=reports")["schedules"]
        self.assertEqual([row["next_at_ms"] for row in found], [at])
        self.assertEqual(len(self.get("/api/scope?d=lane&s=other")
                             ["schedules"]), 30)

    def test_live(self):
        """Server-sent events: one for what is, one for what is committed; and
        nothing is held while a page is open."""
        self.submit("mail", "a")
        self.board()
        stream = socket.create_connection(("127.0.0.1", self.port),
                                          timeout=LIMIT)
        self.addCleanup(stream.close)
        stream.sendall(("GET /api/live HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n"
                        "\r\n" % (self.host, self.cookie)).encode())
        lines = stream.makefile("rb")
        while lines.readline() != b"\r\n":
            pass

        def event():
            while True:
                line = lines.readline()
                if line.startswith(b"data: "):
                    return int(line[6:])

        def seen():
            return {row["scope"]: row["ready"] for row in
                    self.get("/api/overview")["scopes"]}

        event()
        self.submit("new", "b")
        while seen() != {"mail": 1, "new": 1}:
            event()
        # A checkpoint that needs all readers to be gone is not kept waiting.
        self.wait(lambda: self.sql("PRAGMA wal_checkpoint(TRUNCATE)")
                  == [(0, 0, 0)])

    def test_journal(self):
        """A database without WAL."""
        self.sql("PRAGMA journal_mode=delete")
        self.submit("mail", "a")
        self.board()
        self.wait(lambda: [row["ready"] for row in self.get(
            "/api/overview")["scopes"]] == [1])
        self.submit("mail", "b")
        self.assertEqual(len(self.get("/api/rows?d=lane&s=mail")["rows"]), 2)

    def test_command(self):
        """`claimq board` prints the address with the token, and ends by a
        signal."""
        process = subprocess.Popen(
            [sys.executable, "-m", "claimq", "board", self.path, "--port",
             "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertIn(b"read-only", process.stdout.readline())
        url = process.stdout.readline().decode().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\?token=[\w-]{32})",
                             url)
        self.assertTrue(found, url)
        self.port = int(found.group(1))
        self.host = "127.0.0.1:%d" % self.port
        status, headers, _ = self.ask("GET", found.group(2), cookie=False)
        self.assertEqual(status, 200)
        self.cookie = headers["Set-Cookie"].split(";")[0]
        self.get("/api/overview")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 0)
        self.assertEqual(process.stderr.read(), b"")


if __name__ == "__main__":
    run(Tests)
