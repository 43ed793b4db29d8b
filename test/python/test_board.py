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
import time
from urllib.parse import quote

import claimq
import claimq.board
from claimq.board import Board
from claimq.look import GROUPS, OF_GROUP, SEARCH, now_ms
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

    def change(self, what, ids, headers=(), edition=1, **more):
        sent = {"Origin": "http://" + self.host,
                "Content-Type": "application/json"}
        sent.update(headers)
        status, _, body = self.ask(
            "POST", "/api/change", sent,
            json.dumps({"do": what, "ids": ids,
                        "edition": edition}).encode(), **more)
        return status, json.loads(body)

    def replace(self):
        """Put another database at the path, whose job 1 is another job;
        returns a connection to that."""
        newer = claimq.connect(self.path + ".new")
        newer.execute("SELECT claimq_submit('new', 'n')").fetchall()
        newer.close()
        self.db.close()
        for end in ("-wal", "-shm"):
            if os.path.exists(self.path + end):
                os.remove(self.path + end)
        os.rename(self.path, self.path + ".old")
        os.rename(self.path + ".new", self.path)
        self.db = claimq.connect(self.path)
        self.addCleanup(self.db.close)


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
        for ids in ([], ["1"], 1, None, [True], [1.5], [1] * 501,
                    [1 << 63], [letter, -1 - (1 << 63)]):
            self.assertEqual(self.change("discard", ids)[0], 400, ids)
        for lanes in ([], [1], "mail", None, [None], ["a"] * 501,
                      ["\ud800"]):
            self.assertEqual(self.change("pause", lanes)[0], 400, lanes)
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
        for what, key in (("requeue", letter), ("discard", letter),
                          ("revoke", 1), ("cancel", 1), ("pause", "mail"),
                          ("resume", "mail")):
            status, found = self.change(what, [key])
            self.assertEqual(status, 403)
            self.assertIn("--write", found["error"])
        self.assertEqual(self.sql("SELECT 1 FROM sqlite_master"
                                  " WHERE name='claimq_policy'"), [])
        with board.answers().pool.look() as look:
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
        for kind, wrong in (
                ("d=lane&s=a", "[1,2,3]"), ("d=lane&s=a", "[1,2,3,4,5,[6]]"),
                ("d=lane&s=a", "[1,2,3,4,5,9223372036854775808]"),
                ("d=lane&s=a&kind=ended", "[1]"),
                ("d=lane&s=a&kind=blocked", '"x"'),
                ("d=session&s=a", "[1]"), ("d=session&s=a", "[null,1]"),
                ("d=outbox&s=a", "9223372036854775808"),
                ("d=outbox&s=a", "1.5"), ("d=outbox&s=a", "true"),
                ("d=outbox&s=a", "[" * 30000), ("d=outbox&s=a", "9" * 9000)):
            self.assertIn("error", self.get("/api/rows?%s&after=%s" % (
                kind, wrong), 400), (kind, wrong[:50]))
        for path in ("/api/schedules?after=1", "/api/schedules?after={}",
                     "/api/rows?d=outbox&s=a&kind=" + "9" * 30,
                     "/api/letters?before=" + "9" * 30):
            self.assertIn("error", self.get(path, 400), path)
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
        wanted = self.sql(
            "SELECT discipline, scope, %s, min(oldest_ready_at_ms)"
            " FROM claimq_stats WHERE discipline<>'dead_letter' GROUP BY 1, 2"
            % ", ".join("sum(%s)" % name for name in names[2:-1]))

        def counted():
            found = self.get("/api/overview?sort=scope")
            return not found["about"]["counted"]["approx"] and found

        found = self.wait(counted)
        self.assertEqual(sorted(tuple(row[name] for name in names)
                                for row in found["scopes"]), sorted(wanted))
        self.assertEqual(found["totals"]["ready"],
                         self.one("SELECT sum(ready) FROM claimq_stats"
                                  " WHERE discipline<>'dead_letter'"))
        self.assertEqual([row["owner"] for row in found["workers"]],
                         ["worker-a"])
        found = self.get("/api/overview?filter=MAI")
        self.assertEqual([row["scope"] for row in found["scopes"]], ["mail"])
        found = self.get("/api/workers")
        self.assertEqual(found["workers"][0]["until_ms"], self.one(
            "SELECT max(expires_at_ms) FROM claimq_job"))

    def test_counted(self):
        """An answer does not claim to be of a later count than it is."""
        answers = self.board().answers()
        self.wait(lambda: not self.get("/api/overview")
                  ["about"]["counted"]["approx"])
        newer, answer = answers.live.picture, answers.get_overview

        def slow(given):
            found = answer(given)
            answers.live.picture = newer
            return found
        answers.get_overview = slow
        answers.live.picture = dict(newer, approx=True)
        for approx in (True, False):
            self.assertEqual(self.get("/api/overview")["about"]["counted"]
                             ["approx"], approx)

    def test_workers(self):
        """Who was last seen an hour ago is not there."""
        for owner, at in (("gone", now_ms() - HOUR),
                          ("here", now_ms() + HOUR)):
            self.submit("mail", "x", "now_ms", at)
            (claim, token), = self.sql(
                "SELECT claim_id, lease_token FROM claimq_lane('mail', ?)"
                " WHERE now_ms=?", owner, at)
            self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", claim,
                     token, at)
        self.submit("mail", "y")
        self.claim("mail", "holds")
        self.board()
        self.wait(lambda: not self.get("/api/overview")
                  ["about"]["counted"]["approx"])
        found = self.get("/api/overview")
        self.assertEqual(found["all_workers"], 2)
        for rows in found["workers"], self.get("/api/workers")["workers"]:
            self.assertEqual([row["owner"] for row in rows],
                             ["holds", "here"])

    def test_answers(self):
        """Every page of the board has its answer."""
        job = self.submit("mail", "a", "priority", 3)
        self.submit("mail", "b", "capabilities", '["gpu"]')
        self.claim("mail", "worker-a")
        self.sql("SELECT claimq_queue('q', 2)")
        self.sql("SELECT claimq_publish('q', 'm', 'partition', 1)")
        self.sql("SELECT claimq_enqueue('s', 'b')")
        self.sql("SELECT * FROM claimq_contest('a/b', 'n', ?, NULL, 7)", HOUR)
        letter = self.letter("other", "c", "why", "class")
        self.board()
        found = self.get("/api/job?id=%d" % job)
        self.assertEqual((found["job"]["kind"], found["job"]["owner"]),
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
                         ["owner"], "n")
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
        self.sql("SELECT claimq_policy('mail', 'max_active', 3, 'rate', 5,"
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

    def test_groups(self):
        """The groups of a lane: what each holds, what waits, when it opens."""
        def groups(lane):
            found = self.get("/api/groups?s=" + lane)
            return [[row[name] for name in ("group_key", "held", "waiting",
                                            "limit", "opens_at_ms")]
                    for row in found["rows"]], found["more"], found["rough"]

        self.board()
        self.submit("mail", 0, "group_key", "a")
        self.assertEqual(groups("mail"), ([], False, False))
        self.sql("SELECT claimq_policy('mail', 'group_max_active', 2)")
        for n in range(6):
            self.submit("mail", n, "group_key", "aab"[n % 3])
        self.submit("mail", n, "group_key", "a", "delay_ms", HOUR)
        # No claim has met them yet.
        self.wait(lambda: groups("mail")[0] == [["a", 0, 5, None, None],
                                                ["b", 0, 2, None, None]])
        claims = self.claim("mail", n=3)
        self.submit("mail", 9, "group_key", "c")
        until, = self.sql("SELECT min(expires_at_ms) FROM claimq_slot")
        self.wait(lambda: groups("mail")[0] == [
            ["a", 2, 3, "group_max_active", *until],
            ["b", 1, 1, None, None], ["c", 0, 1, None, None]])
        self.sql("SELECT claimq_complete(?, ?)", *claims[0][1:])
        self.wait(lambda: groups("mail")[0][0] == ["a", 1, 3, None, None])
        # For good; and a rate.
        self.sql("SELECT claimq_policy('mail', 'group_max_active', 0)")
        self.claim("mail")
        self.wait(lambda: groups("mail")[0][0] == [
            "a", 1, 3, "group_max_active", None])
        self.sql("SELECT claimq_policy('calls', 'group_rate', 1,"
                 " 'group_per_ms', ?)", HOUR)
        for n in range(2):
            self.submit("calls", n, "group_key", "host")
        self.claim("calls", n=2)
        at = self.one("SELECT at_ms FROM claimq_start WHERE lane='calls'"
                      " AND group_id>0")
        self.wait(lambda: groups("calls")[0] == [
            ["host", 1, 1, "group_rate", at + HOUR]])

    def test_many_groups(self):
        """The first of many groups, and of many jobs."""
        self.sql("SELECT claimq_policy('mail', 'fair', 1)")
        self.sql("BEGIN")
        for n in range(GROUPS + 2):
            self.submit("mail", n, "group_key", "g%04d" % n, "partition",
                        n % 3)
        self.sql("COMMIT")
        self.board()
        found = self.get("/api/groups?s=mail")
        self.assertEqual([row["group_key"] for row in found["rows"]],
                         ["g%04d" % n for n in range(GROUPS)])
        self.assertEqual((found["more"], found["rough"]), (True, False))
        self.sql("BEGIN")
        for n in range(SEARCH):
            self.submit("mail", n, "group_key", "g0000")
        self.sql("COMMIT")
        self.wait(lambda: self.get("/api/groups?s=mail")["rough"])
        found = self.get("/api/groups?s=mail")["rows"][0]
        self.assertEqual(found["waiting"], OF_GROUP)

    def test_pause(self):
        """Pause and resume a lane: its limits stay as they are."""
        self.board(write=True)
        self.submit("mail", "a")
        self.submit("other lane", "b")

        def paused():
            rows = self.get("/api/overview")["scopes"]
            found = {row["scope"] for row in rows if row["paused"]}
            return {row["scope"]: self.get("/api/scope?d=lane&s="
                                           + quote(row["scope"]))["paused"]
                    for row in rows}, found

        self.wait(lambda: len(paused()[0]) == 2)
        self.assertEqual(paused(), ({"mail": False, "other lane": False},
                                    set()))
        self.assertEqual(self.change("pause", ["mail"])[1], {
            "results": [{"id": "mail", "result": "paused"}]})
        self.assertEqual(paused(), ({"mail": True, "other lane": False},
                                    {"mail"}))
        self.assertEqual(self.claim("mail"), [])
        self.assertEqual(self.sql("SELECT lane, paused, max_active"
                                  " FROM claimq_policy"), [("mail", 1, None)])
        self.assertEqual(
            [row["result"] for row in self.change(
                "resume", ["mail", "other lane"])[1]["results"]],
            ["resumed", "not_paused"])
        self.assertEqual(self.one("SELECT paused FROM claimq_policy"), 0)
        # By what is said of every lane; and by a lane that may hold nothing.
        self.sql("SELECT claimq_policy(NULL, 'paused', 1)")
        self.sql("SELECT claimq_policy('other lane', 'paused', 0,"
                 " 'max_active', 0)")
        self.assertEqual(paused()[0], {"mail": False, "other lane": True})
        self.sql("SELECT claimq_policy('mail', 'paused', NULL,"
                 " 'max_active', 5)")
        self.assertEqual(paused()[0], {"mail": True, "other lane": True})
        self.change("resume", ["mail", "other lane"])
        self.assertEqual(paused()[0], {"mail": False, "other lane": False})
        self.assertEqual(self.sql(
            "SELECT lane, paused, max_active FROM claimq_policy"
            " WHERE lane IS NOT NULL ORDER BY lane"),
            [("mail", 0, 5), ("other lane", 0, None)])

    def test_steps(self):
        """The steps and the headers of a job."""
        job = self.submit("mail", "a", "headers", '{"trace":"t1"}')
        (_, claim, token), = self.claim("mail")
        self.board()
        found = self.get("/api/job?id=%d" % job)
        self.assertEqual(found["steps"], [])
        self.assertEqual(found["job"]["headers"], '{"trace":"t1"}')
        at = self.one("SELECT claimed_at_ms FROM claimq_job")
        for n, (name, value) in enumerate((
                ("pack", "x" * 500), ("charge", 17), ("bytes", b"\x00\xff"),
                ("nothing", None))):
            self.sql("SELECT claimq_step(?, ?, ?, ?, 'now_ms', ?)", claim,
                     token, name, value, at + n)
        self.assertEqual(
            [(row["name"], row["value"], row["type"], row["size"],
              row["at_ms"]) for row in self.get("/api/job?id=%d" % job)
             ["steps"]],
            [("pack", "x" * 200, "text", 500, at),
             ("charge", 17, "integer", 2, at + 1),
             ("bytes", {"blob": "00ff"}, "blob", 2, at + 2),
             ("nothing", None, "null", None, at + 3)])
        other = self.submit("mail", "b")
        self.assertEqual(self.get("/api/job?id=%d" % other)["steps"], [])
        self.assertIsNone(self.get("/api/job?id=%d" % other)["job"]["headers"])
        big = self.submit("mail", "c", "headers",
                          json.dumps({"a": "x" * 70000}))
        self.assertEqual(len(self.get("/api/job?id=%d" % big)["job"]
                             ["headers"]), 65536)

    def test_leaving(self):
        """How many ended jobs will be removed."""
        at = now_ms() - 200 * HOUR
        for n in range(3):
            self.submit("mail" if n else "other", n, "now_ms", at)
        for lane in ("mail", "other"):
            for claim in self.sql(
                    "SELECT claim_id, lease_token FROM claimq_lane(?, 'w',"
                    " ?, 9) WHERE now_ms=?", lane, HOUR, at):
                self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", *claim,
                         at)
        self.board()
        self.wait(lambda: self.get("/api/overview")["leaving"]
                  == {"n": 3, "rough": False})
        self.assertEqual(self.get("/api/scope?d=lane&s=mail")["leaving"],
                         {"n": 2, "rough": False})
        self.assertNotIn("leaving", self.get("/api/scope?d=session&s=mail"))
        self.sql("SELECT claimq_policy('mail', 'keep_ms', -1)")
        self.wait(lambda: self.get("/api/overview")["leaving"]["n"] == 1)
        self.sql("SELECT claimq_vacuum()")
        self.wait(lambda: self.get("/api/overview")["leaving"]["n"] == 0)

    def test_lane_policy(self):
        """What a lane says, and what is said of every lane."""
        self.submit("mail", "a")
        self.board()
        found = self.get("/api/scope?d=lane&s=mail")
        self.assertEqual(found["policy"], {
            "own": [], "every": [], "built_in":
            {"keep_ms": 168 * HOUR, "keep_failed_ms": 720 * HOUR}})
        self.assertFalse(found["paused"])
        self.sql("SELECT claimq_policy('mail', 'lease_ms', 60000)")
        self.sql("SELECT claimq_policy(NULL, 'lease_ms', 5, 'keep_ms', -1)")
        found = self.get("/api/scope?d=lane&s=mail")["policy"]
        self.assertEqual([[row["lane"], row["lease_ms"], row["keep_ms"]]
                          for row in (found["own"] + found["every"])],
                         [["mail", 60000, None], [None, 5, -1]])
        self.assertNotIn("begun", found["own"][0])
        self.assertNotIn("policy", self.get("/api/scope?d=session&s=mail"))

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
            "name", "spec", "lane", "next_at_ms", "payload")],
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

    def stream(self):
        """A socket on which /api/live is sent, and how its answer begins."""
        stream = socket.create_connection(("127.0.0.1", self.port),
                                          timeout=LIMIT)
        self.addCleanup(stream.close)
        stream.sendall(("GET /api/live HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n"
                        "\r\n" % (self.host, self.cookie)).encode())
        return stream, stream.recv(12)

    def event(self, lines, number=0):
        """Until a change of that number, or a later one, is reported on a
        stream."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            line = lines.readline()
            if line.startswith(b"data: ") and int(line[6:]) >= number:
                return
        self.fail("no change was reported")

    def test_streams(self):
        """A page that was closed is not counted, though nothing was sent to it
        since."""
        alive, claimq.board._ALIVE = claimq.board._ALIVE, 3600

        def restore():
            claimq.board._ALIVE = alive
        self.addCleanup(restore)
        self.board()
        self.get("/api/overview")
        streams = [self.stream() for _ in range(32)]
        self.assertEqual({head for _, head in streams}, {b"HTTP/1.1 200"})
        self.assertEqual(self.stream()[1], b"HTTP/1.1 503")
        for stream, _ in streams:
            stream.close()
        self.wait(lambda: self.stream()[1] == b"HTTP/1.1 200")

    def test_strangers(self):
        """Half requests do not fill the machine with threads, and keep nobody
        waiting who has the token."""
        board = self.board()
        self.get("/api/overview")
        before = threading.active_count()
        for _ in range(150):
            half = socket.create_connection(("127.0.0.1", self.port),
                                            timeout=LIMIT)
            self.addCleanup(half.close)
            half.sendall(b"GET / HT")
        self.get("/api/overview")
        self.wait(lambda: threading.active_count() <= before + 40)
        # One who has the token is let be, however many come after.
        known = http.client.HTTPConnection("127.0.0.1", self.port,
                                           timeout=LIMIT)
        self.addCleanup(known.close)
        for path in ("/api/overview", "/api/workers"):
            known.request("GET", path, headers={"Cookie": self.cookie})
            answer = known.getresponse()
            self.assertEqual((answer.status, bool(answer.read())), (200, True))
            for _ in range(50):
                half = socket.create_connection(("127.0.0.1", self.port),
                                                timeout=LIMIT)
                self.addCleanup(half.close)
                half.sendall(b"G")

        def strangers():
            with board._lock:
                return len(board._strangers)
        self.wait(lambda: strangers() == 32)

    def test_replaced(self):
        """Another file at the path is noticed by every request, and no change
        acts on a row of it that the page has not shown."""
        self.submit("old", "o")
        self.board(write=True)
        first = self.get("/api/overview")
        self.assertEqual(first["about"]["edition"], 1)
        stream, _ = self.stream()
        lines = stream.makefile("rb")
        self.replace()
        status, found = self.change("cancel", [1])
        self.assertEqual(status, 409)
        self.assertIn("Another file", found["error"])
        self.assertEqual(self.sql("SELECT lane, state FROM claimq_job"),
                         [("new", "ready")])
        found = self.get("/api/overview")
        self.assertEqual([row["scope"] for row in found["scopes"]], ["new"])
        self.assertEqual(found["about"]["edition"], 2)
        self.assertEqual(self.get("/api/job?id=1")["job"]["lane"], "new")
        self.assertEqual(self.get("/api/start")["edition"], 2)
        # The stream goes on with the new file.
        self.event(lines, self.get("/api/overview")["about"]["number"])
        self.assertEqual(self.change("cancel", [1], edition=None)[0], 409)
        self.assertEqual(self.change("cancel", [1], edition=2)[1], {
            "results": [{"id": 1, "result": "cancelled"}]})

    def test_replaced_unasked(self):
        """Open pages learn of it, though nobody asks or commits."""
        self.submit("old", "o")
        self.board()
        stream, _ = self.stream()
        lines = stream.makefile("rb")

        def counted():
            return not self.get("/api/overview")["about"]["counted"]["approx"]

        self.wait(counted)
        number = self.get("/api/overview")["about"]["number"]
        self.event(lines, number)
        os.rename(self.path, self.path + ".old")
        self.event(lines)
        self.assertIn("no such file", self.get("/api/overview", 503)["error"])
        self.assertIn("no such file", self.get("/api/job?id=1", 503)["error"])
        os.rename(self.path + ".old", self.path)
        self.assertEqual(self.get("/api/overview")["about"]["edition"], 1)

    def test_not_utf8(self):
        """A payload that is not UTF-8 does not end a search."""
        self.letter("mail", "timeout of Ann", "why")
        self.sql("SELECT claimq_submit('mail', CAST(x'6fff' AS TEXT))")
        (_, claim, token), = self.claim("mail")
        self.sql("SELECT claimq_reject(?, ?, 'Timeout')", claim, token)
        self.board()
        for text, n in (("timeout", 2), ("ann", 1), ("o\ufffd", 1),
                        ("zebra", 0)):
            self.assertEqual(len(self.get("/api/letters?search="
                                          + quote(text))["rows"]), n, text)

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
