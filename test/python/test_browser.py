"""claimq board in a real browser, Debian's Chromium, without a window.

    python3 test_browser.py DIRECTORY     where screenshots are put
"""
import json
import os
import sys

import claimq
import webdriver
from claimq.look import now_ms
from support import HOUR, run
from test_board import Boards

SHOTS = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "shots")
MISSING = webdriver.find()[1]


class Tests(Boards):
    @classmethod
    def setUpClass(cls):
        cls.browser = None if MISSING else webdriver.Browser()

    @classmethod
    def tearDownClass(cls):
        if cls.browser:
            cls.browser.close()

    def setUp(self):
        if MISSING:
            self.skipTest(MISSING)
        super().setUp()

    def enter(self, **options):
        """A board, and a browser that is let in; the page is live."""
        self.at = self.board(**options)
        self.browser.size(1240, 900)
        self.browser.open(self.at.url + "?token=" + self.at.token)
        self.browser.wait("return location.search === ''"
                          " && document.querySelector('#live.on') !== null"
                          " && document.querySelector('h1') !== null")

    def go(self, path):
        self.browser.open(self.at.url + path)
        self.browser.wait("return document.querySelector('#live.on') !== null"
                          " && document.querySelector('h1') !== null")

    def cells(self, table):
        """The texts of a table, row by row."""
        return self.browser.run(
            "return [...document.querySelectorAll("
            "  `[data-table=${arguments[0]}] tbody tr`)].map("
            "  (row) => [...row.cells].map((cell) => cell.textContent.trim()))",
            table)

    def until(self, table, wanted):
        try:
            self.wait(lambda: [row[:len(wanted[0])] if wanted else row
                               for row in self.cells(table)] == wanted)
        except AssertionError:
            self.assertEqual(self.cells(table), wanted)

    def yes(self):
        """Say yes to the question."""
        self.browser.wait("return document.querySelector('dialog').open")
        self.browser.click("dialog button[value=yes]")

    def test_overview(self):
        """The page shows what SQL says, and what comes later, without being
        loaded again."""
        for n in range(5):
            self.submit("mail", n, "delay_ms", HOUR * (n % 2))
        self.claim("mail", "worker-a")
        self.letter("failed", "x", "why")
        self.enter()
        wanted = [["%s %s" % (row[0], row[1]), *map(str, row[2:])]
                  for row in self.sql(
                      "SELECT scope, discipline, ready, held, delayed, expired,"
                      " dead FROM claimq_stats WHERE discipline='lane'"
                      " ORDER BY scope DESC")]
        self.until("scopes", wanted)
        self.assertEqual(len(wanted), 2)
        for name in ("ready", "held", "delayed", "expired", "dead"):
            self.assertEqual(
                self.browser.text("[data-figure=%s] .n" % name),
                str(self.one("SELECT sum(%s) FROM claimq_stats"
                             " WHERE discipline='lane'" % name)))
        self.browser.run("window.same = true")
        self.submit("new", "y")
        self.until("scopes", [["mail lane", "2", "1", "2", "0", "0"],
                              ["new lane", "1", "0", "0", "0", "0"],
                              ["failed lane", "0", "0", "0", "0", "1"]])
        self.assertTrue(self.browser.run("return window.same"))
        self.assertIn("worker-a", self.browser.text("main"))

    def test_blocked(self):
        """Columns that most files do not need are there when they do."""
        first = self.submit("mail", 1)
        self.submit("mail", 2, "after", "[%d]" % first)
        self.enter()
        self.until("scopes", [["mail lane", "1", "0", "0", "1", "0", "0"]])
        self.assertIn("Blocked", self.browser.text("thead"))
        self.claim("mail", n=1)
        self.until("scopes", [["mail lane", "0", "1", "0", "1", "0", "0"]])
        self.go("job?id=%d" % (first + 1))
        self.assertIn("Waits for", self.browser.text("main"))

    def test_filter(self):
        """Filter and sort, by keyboard and by mouse."""
        for name, n in (("apple", 1), ("banana", 3), ("cherry", 2)):
            for _ in range(n):
                self.submit(name, "x")
        self.enter()
        self.until("scopes", [["banana lane"], ["cherry lane"],
                              ["apple lane"]])
        self.browser.click("th button[data-with=scope]")
        self.until("scopes", [["apple lane"], ["banana lane"],
                              ["cherry lane"]])
        self.browser.press("/")
        self.browser.press(*"BAN")
        self.until("scopes", [["banana lane"]])
        self.browser.press("\ue00c")          # escape
        self.browser.press("j", "\ue007")     # the first row, enter
        self.browser.wait("return location.search", "?d=lane&s=banana")
        self.browser.wait("return document.querySelector('h1').textContent",
                          "banana")
        self.browser.press("o")
        self.until("scopes", [["banana lane"], ["cherry lane"],
                              ["apple lane"]])

    def test_scope(self):
        job = self.submit("mail", "<b>first</b>", "priority", 2)
        self.submit("mail", "second", "capabilities", '["gpu"]')
        self.claim("mail", "worker-a")
        self.enter()
        self.go("scope?d=lane&s=mail")
        self.until("why", [["held"], ['capabilities are missing["gpu"]']])
        self.until("held", [["#%d" % job, "worker-a"]])
        self.until("rows", [["#1", "held worker-a", "<b>first</b>"],
                            ["#2", "ready", "second"]])
        self.submit("mail", "third")
        self.until("rows", [["#1", "held worker-a", "<b>first</b>"],
                            ["#3", "ready", "third"],
                            ["#2", "ready", "second"]])
        self.browser.click("[data-do=set][data-with=ended]")
        self.until("rows", [])
        self.sql("SELECT claimq_cancel(3)")
        self.until("rows", [["#3", "cancelled", "third"]])

    def test_replaced(self):
        """Another file is put at the path while a question is open: the
        question goes, the page shows the other file, and nothing is
        changed."""
        self.submit("old", "o")
        self.enter(write=True)
        self.go("job?id=1")
        self.browser.click("[data-with=cancel]")
        self.browser.wait("return document.querySelector('dialog').open")
        self.replace()
        self.browser.wait("return !document.querySelector('dialog').open"
                          " && document.querySelector('main').textContent"
                          ".includes('new')")
        self.assertIn("replaced", self.browser.text("#toast"))
        self.assertEqual(self.one("SELECT state FROM claimq_job"), "ready")
        self.browser.click("[data-with=cancel]")
        self.yes()
        self.wait(lambda: self.one("SELECT state FROM claimq_job")
                  == "cancelled")

    def test_pages(self):
        for n in range(60):
            self.submit("mail", n)
        self.enter()
        self.go("scope?d=lane&s=mail")
        self.until("rows", [["#%d" % (n + 1)] for n in range(50)])
        self.browser.click("[data-do=next]")
        self.until("rows", [["#%d" % (n + 1)] for n in range(50, 60)])
        self.browser.click("[data-do=back]")
        self.until("rows", [["#%d" % (n + 1)] for n in range(50)])

    def test_hostile(self):
        """What is stored stays text, wherever it is shown."""
        bad = "<script>window.hit=1</script><img src=x onerror=window.hit=1>"
        job = self.submit(bad, bad, "namespace", bad, "max_attempts", 1)
        (_, claim, token), = self.claim(bad, bad)
        self.sql("SELECT claimq_renew(?, ?, ?, 'progress', ?)", claim, token,
                 HOUR, bad)
        self.sql("SELECT claimq_retry(?, ?, ?, 'error_class', ?)", claim,
                 token, bad, bad)
        self.submit(bad, bad)
        self.claim(bad, bad)
        self.sql("SELECT claimq_enqueue(?, ?)", bad, bad)
        self.enter()
        letter = self.one("SELECT letter_id FROM claimq_letter")
        for path in ("", "workers", "letters", "job?id=%d" % job,
                     "letter?id=%d" % letter, "batch?id=1",
                     "scope?d=lane&s=" + bad.replace("<", "%3C"),
                     "scope?d=session&s=" + bad.replace("<", "%3C")):
            self.go(path)
            self.browser.wait("return document.querySelector('main')"
                              ".textContent.includes('<script>window.hit')")
            self.assertEqual(self.browser.run(
                "return document.querySelectorAll('main script, main img')"
                ".length"), 0, path)
            self.assertIsNone(self.browser.run("return window.hit"))
        self.go("job?id=%d" % job)
        self.assertEqual(self.browser.text("pre"), bad)
        # And the policy would not have it: nothing is parsed as HTML here.
        self.assertEqual(self.browser.run(
            "try { document.createElement('p').innerHTML = '<b>x</b>';"
            " return 'parsed'; } catch (error) { return error.name; }"),
            "TypeError")

    def test_job(self):
        job = self.submit("mail", json.dumps({"to": "ann"}))
        (_, claim, token), = self.claim("mail", "worker-a")
        self.sql("SELECT claimq_retry(?, ?, 'mailbox full', 'delay_ms', 0)",
                 claim, token)
        (_, claim, token), = self.claim("mail", "worker-b")
        self.enter()
        self.go("job?id=%d" % job)
        self.browser.wait("return document.querySelectorAll('.time li')"
                          ".length", 3)
        for text in ("mailbox full", "worker-a", "worker-b", "running"):
            self.assertIn(text, self.browser.text(".time"))
        self.assertIn("attempts2priority", self.browser.text("main"))
        self.assertEqual(self.browser.text("pre"), '{\n  "to": "ann"\n}')
        self.sql("SELECT claimq_renew(?, ?, ?, 'progress', 'half of it')",
                 claim, token, HOUR)
        self.browser.wait("return document.querySelector('main').textContent"
                          ".includes('half of it')")
        self.sql("SELECT claimq_complete(?, ?, 'result', 'sent')", claim, token)
        self.browser.wait("return document.querySelector('.title')"
                          ".textContent.includes('completed')")
        self.assertIn("sent", self.browser.text("main"))
        self.assertIn("Events", self.browser.text("main"))

    def test_steps(self):
        """Steps and headers stand in the time line, where they belong."""
        job = self.submit("mail", "x", "headers", json.dumps(
            {"trace": "<i>1</i>", "sampled": True}))
        (_, claim, token), = self.claim("mail", "worker-a")
        at = self.one("SELECT claimed_at_ms FROM claimq_job")
        self.sql("SELECT claimq_step(?, ?, 'charge', '<b>17</b>', 'now_ms',"
                 " ?)", claim, token, at)
        self.sql("SELECT claimq_retry(?, ?, 'later', 'delay_ms', 0, 'now_ms',"
                 " ?)", claim, token, at + 1)
        (claim, token), = self.sql("SELECT claim_id, lease_token FROM"
                                   " claimq_lane('mail', 'worker-b', ?) WHERE"
                                   " now_ms=?", HOUR, at + 2)
        self.enter()
        self.go("job?id=%d" % job)
        self.sql("SELECT claimq_step(?, ?, 'pack', ?, 'now_ms', ?)", claim,
                 token, "y" * 300, at + 3)
        self.browser.wait("return document.querySelectorAll('.time li')"
                          ".length", 5)
        lines = self.browser.run(
            "return [...document.querySelectorAll('.time li > div:first-of-type"
            "')].map((one) => one.textContent)")
        for line, begin in zip(lines, (
                "Submittedtrace<i>1</i>sampledtrue", "Attempt 0",
                "Step charge<b>17</b>", "Attempt 1", "Step packyyy")):
            self.assertEqual(line[:len(begin)], begin)
        self.assertTrue(lines[4].endswith("y …"))
        self.assertIn("2 attempts, 2 steps", self.browser.text("main"))

    def test_schedules(self):
        self.sql("SELECT claimq_schedule('nightly', '0 3 * * *', 'reports',"
                 " 'all')")
        self.enter()
        self.browser.press("c")
        self.until("schedules", [["nightly", "0 3 * * *", "reports"]])
        self.sql("SELECT claimq_unschedule('nightly')")
        self.sql("SELECT claimq_schedule('hourly', '@hourly', 'reports', 1)")
        self.until("schedules", [["hourly", "@hourly", "reports"]])

    def test_letters(self):
        """Search, requeue and discard, one and many."""
        ids = [self.letter("mail", "p%d" % n, "reason %d" % n,
                           "odd" if n % 2 else "even") for n in range(6)]
        self.enter(write=True)
        self.browser.press("l")
        rows = [["", "#%d" % key, "mail lane"] for key in reversed(ids)]
        self.until("letters", rows)
        self.browser.press("/")
        self.browser.press(*"ODD")
        self.until("letters", [rows[0], rows[2], rows[4]])
        self.browser.press("\ue00c")
        # Two of them are put back.
        for key in (ids[5], ids[1]):
            self.browser.click("[data-letter='%d'] input" % key)
        self.browser.wait("return document.querySelector("
                          "'[data-with=requeue]').textContent", "Requeue 2")
        self.browser.click("[data-with=requeue]")
        self.yes()
        self.until("letters", [rows[2]])
        self.assertEqual(self.sql(
            "SELECT letter_id FROM claimq_letter WHERE status='resolved'"),
            [(ids[1],), (ids[5],)])
        self.assertEqual(self.sql(
            "SELECT payload FROM claimq_job WHERE state='ready'"
            " ORDER BY payload"), [("p1",), ("p5",)])
        # One is given up, on a page of its own.
        self.browser.click("[data-letter='%d'] a" % ids[3])
        self.browser.wait("return document.querySelector('h1').textContent",
                          "Letter %d" % ids[3])
        self.browser.click("[data-with=discard]")
        self.yes()
        self.wait(lambda: self.sql(
            "SELECT letter_id FROM claimq_letter WHERE status='discarded'")
            == [(ids[3],)])
        # No is no.
        self.browser.press("l")
        self.until("letters", [rows[1], rows[3], rows[5]])
        self.browser.click("thead input")
        self.browser.wait("return document.querySelector("
                          "'[data-with=discard]').textContent", "Discard 3")
        self.browser.click("[data-with=discard]")
        self.browser.wait("return document.querySelector('dialog').open")
        self.browser.click("dialog button[value=no]")
        self.browser.wait("return !document.querySelector('dialog').open")
        self.assertEqual(self.one("SELECT count(*) FROM claimq_letter"
                                  " WHERE status='pending'"), 3)

    def test_read_only(self):
        """Without --write the buttons are off, and a request is refused."""
        letter = self.letter("mail", "p", "why")
        self.enter()
        self.go("letters")
        self.until("letters", [["", "#%d" % letter]])
        self.browser.click("[data-letter='%d'] input" % letter)
        self.browser.wait("return document.querySelector('main').textContent"
                          ".includes('1 chosen')")
        self.assertEqual(self.browser.run(
            "return [...document.querySelectorAll('[data-do=change]')]"
            ".map((button) => button.disabled)"), [True, True])
        for what in ("requeue", "discard"):
            self.assertEqual(self.browser.run(
                "return fetch('/api/change', {method: 'POST', headers:"
                " {'Content-Type': 'application/json'}, body:"
                " JSON.stringify({do: arguments[0], ids: [arguments[1]]})})"
                ".then((answer) => answer.status)", what, letter), 403)
        self.assertEqual(self.one("SELECT status FROM claimq_letter"),
                         "pending")

    def test_strangers(self):
        """A wrong token, a page from elsewhere, a name that was made to point
        here."""
        board = self.board(write=True)
        letter = self.letter("mail", "p", "why")
        self.browser.open(board.url + "?token=wrong")
        self.assertIn("not the token", self.browser.text("body"))
        self.browser.open(board.url)
        self.assertIn("has the token", self.browser.text("body"))
        self.at = board
        self.browser.open(board.url + "?token=" + board.token)
        self.browser.wait("return document.querySelector('h1') !== null")
        # The browser has the cookie now.  localhost is another site than
        # 127.0.0.1, and both are this board: a page of it has no cookie, and
        # its requests to the other name are from elsewhere.
        other = board.url.replace("127.0.0.1", "localhost")
        self.browser.open(other)
        self.assertIn("has the token", self.browser.text("body"))
        stranger = self.board()
        self.browser.open(stranger.url.replace("127.0.0.1", "localhost")
                          + "?token=" + stranger.token)
        self.browser.wait("return document.querySelector('h1') !== null")
        self.browser.cdp("Page.setBypassCSP", enabled=True)
        self.browser.open(stranger.url.replace("127.0.0.1", "localhost"))
        self.browser.wait("return document.querySelector('h1') !== null")
        for method, mode in (("GET", "cors"), ("POST", "cors"),
                             ("POST", "no-cors")):
            self.browser.run(
                "return fetch(arguments[0] + 'api/' + (arguments[1] === 'GET'"
                " ? 'overview' : 'change'), {method: arguments[1], mode:"
                " arguments[2], credentials: 'include', headers:"
                " {'Content-Type': arguments[2] === 'cors' ?"
                " 'application/json' : 'text/plain'}, body: arguments[1] ==="
                " 'GET' ? undefined : JSON.stringify({do: 'discard', ids:"
                " [arguments[3]]})}).then((answer) => answer.text(),"
                " (error) => error.name).then((text) => window.got = text)",
                board.url, method, mode, letter)
            self.assertIn(self.browser.run("return window.got"),
                          ["TypeError", ""])
        self.browser.cdp("Page.setBypassCSP", enabled=False)
        self.assertEqual(self.one("SELECT status FROM claimq_letter"),
                         "pending")
        # Chromium lets every name that ends so be this machine: to the server
        # it is a name that somebody else chose.
        self.browser.open("http://evil.localhost:%d/?token=%s" % (
            board.server_address[1], board.token))
        self.assertIn("does not answer to that name",
                      self.browser.text("body"))

    def test_narrow(self):
        """On a narrow screen nothing sticks out."""
        self.letter("a-lane-with-a-long-name-" * 4, "p" * 500, "why " * 50)
        self.submit("mail", "x" * 500)
        self.claim("mail", "a-worker-with-a-long-name-" * 4)
        self.enter()
        self.browser.size(360, 700)
        for path in ("", "letters", "workers", "job?id=2",
                     "scope?d=lane&s=mail", "letter?id=1"):
            self.go(path)
            self.browser.wait("return document.querySelector('.sheet')"
                              " !== null")
            self.assertLessEqual(self.browser.run(
                "return document.documentElement.scrollWidth"), 360, path)

    def test_pause(self):
        """A lane's policy, with a button that is there with --write only."""
        self.submit("my mail", "a")
        self.sql("SELECT claimq_policy('my mail', 'max_active', 2, 'lease_ms',"
                 " 120000)")
        self.sql("SELECT claimq_policy(NULL, 'keep_ms', -1)")
        self.enter()
        self.go("scope?d=lane&s=my%20mail")
        self.browser.wait("return document.querySelector('[data-policy]')"
                          " !== null")
        text = self.browser.text("[data-policy]")
        for part in ("0 of 2", "lease2 min", "ended jobs are keptfor ever for"
                     " every lane", "failed jobs are keptfor 30 d built in"):
            self.assertIn(part, text)
        self.assertIsNone(self.browser.text("[data-lane]"))
        self.enter(write=True)
        self.go("scope?d=lane&s=my%20mail")
        for name, paused in (("Pause", 1), ("Resume", 0)):
            self.browser.wait("return document.querySelector('[data-lane]')"
                              ".textContent", name)
            self.browser.click("[data-lane]")
            self.yes()
            self.wait(lambda: self.one("SELECT paused FROM claimq_policy"
                                       " WHERE lane='my mail'") == paused)
            self.browser.wait("return document.querySelector('.title .pill')"
                              " !== null", bool(paused))
        self.sql("SELECT claimq_policy('my mail', 'paused', 1)")
        self.browser.press("o")
        self.until("scopes", [["my mail lane paused"]])

    def test_groups(self):
        self.sql("SELECT claimq_policy('mail', 'group_max_active', 1, 'fair',"
                 " 1)")
        for n in range(5):
            self.submit("mail", n, "group_key", "<b>%d</b>" % (n % 2))
        self.claim("mail")
        self.enter()
        self.go("scope?d=lane&s=mail")
        self.until("groups", [["<b>0</b>", "1", "2"], ["<b>1</b>", "0", "2",]])
        self.assertEqual(self.cells("groups")[1][3], "open")
        self.assertRegex(self.cells("groups")[0][3], r"^at its limit \d+ min$")
        self.assertIn("groupstake turns", self.browser.text("[data-policy]"))

    def test_names(self):
        """The name of a worker is on one line, also where there is little
        room."""
        for n, name in enumerate(("mail-7f9c6d5b8-x2x4k.eu-west-1.example",
                                  "a worker of many words " * 5)):
            self.submit("mail", "x" * 200, "partition", n)
            self.sql("SELECT claimq_enqueue('s%d', 'x')" % n)
            self.sql("SELECT * FROM claimq_lane('mail', ?, ?, 1, ?)", name,
                     HOUR, "incarnation 5d1b3c1e-%d" % n)
        self.enter()
        for width in (1240, 700):
            self.browser.size(width, 900)
            for path in ("workers", "scope?d=lane&s=mail"):
                self.go(path)
                self.browser.wait("return document.querySelectorAll('.who')"
                                  ".length >= 2")
                self.assertEqual(self.browser.run(
                    "const line = parseFloat(getComputedStyle(document.body)"
                    ".lineHeight); return [...document.querySelectorAll("
                    "'.who')].filter((name) => name.getBoundingClientRect()"
                    ".height > 1.5 * line).length"), 0, (width, path))
                self.assertLessEqual(self.browser.run(
                    "return document.documentElement.scrollWidth"), width)

    def test_screenshots(self):
        """Overview, scope and job, in light and dark."""
        self.db.close()
        self.path = os.path.abspath("shop.db")
        self.db = claimq.connect(self.path)
        self.addCleanup(self.db.close)
        job = story(self)
        self.enter()
        os.makedirs(SHOTS, exist_ok=True)
        for scheme, ground in (("light", "rgb(246, 247, 249)"),
                               ("dark", "rgb(16, 20, 27)")):
            self.browser.colours(scheme)
            for name, path in (("overview", ""),
                               ("scope", "scope?d=lane&s=mail"),
                               ("groups", "scope?d=lane&s=render"),
                               ("job", "job?id=%d" % job),
                               ("letters", "letters")):
                self.go(path)
                if name == "scope":
                    self.browser.wait("return document.querySelector("
                                      "'[data-table=why]') !== null")
                self.browser.wait(
                    "return document.querySelector('.sheet') !== null")
                self.assertEqual(self.browser.run(
                    "return getComputedStyle(document.body).backgroundColor"),
                    ground)
                file = os.path.join(SHOTS, "%s-%s.png" % (name, scheme))
                self.browser.picture(file)
                self.assertGreater(os.path.getsize(file), 10000)
        self.browser.colours("light")


def story(test):
    """Ten minutes of a shop, as if they had passed; returns a job that was
    tried several times."""
    sql, now = test.sql, now_ms()
    begin = now - 600000
    sql("BEGIN IMMEDIATE")
    lanes = (("mail", 1300), ("thumbnails", 2300), ("billing", 4700),
             ("webhooks", 1900))
    todo = []
    for lane, step in lanes:
        at, n = begin, 0
        while at < now - 3000:
            n += 1
            wave = 1 + (at - begin) // 60000 % 4 + (at > now - 90000) * 2
            at += step * 2 // wave + n * 7919 % 900
            todo.append((at, 0, lane, n))
            if n % 31 and (at < now - 20000 or n % 3):
                todo.append((at + (400, 1500, 7000, 12000)[n % 4], 1, lane, n))
    for at, what, lane, n in sorted(todo):
        if at > now - 1000:
            break
        if what == 0:
            sql("SELECT claimq_submit(?, ?, 'now_ms', ?, 'max_attempts', 3)",
                lane, json.dumps({"kind": ("welcome", "receipt", "reset")[n % 3],
                                  "customer": 1000 + n * 7919 % 9000}), at)
            continue
        for claim in sql("SELECT claim_id, lease_token FROM claimq_lane(?, ?,"
                         " 30000) WHERE now_ms=?", lane,
                         "%s-%d" % (lane, n % 3 + 1), at):
            if n % 23 == 5:
                sql("SELECT claimq_retry(?, ?, 'connection timed out after"
                    " 30 s', 'now_ms', ?, 'error_class', 'timeout')", *claim,
                    at + 80)
            elif n % 37 == 9:
                sql("SELECT claimq_reject(?, ?, ?, 'now_ms', ?, 'error_class',"
                    " 'permanent')", *claim,
                    ("550 mailbox unavailable", "the image has no pixels",
                     "card declined: insufficient funds")[n % 3], at + 60)
            else:
                sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", *claim,
                    at + 30)
    at = now - 260000
    job = test.submit("exports", json.dumps({
        "export": "orders-2026-10", "format": "csv", "rows": 48211,
        "note": "<script>alert('no')</script>"}), "now_ms", at,
        "max_attempts", 6, "headers", json.dumps({
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa-01",
            "user": 4711}))
    for n, reason in enumerate(("connection reset by peer", "the disk is full",
                                None)):
        at += 30000
        claim, = sql("SELECT claim_id, lease_token FROM claimq_lane('exports',"
                     " ?, ?) WHERE now_ms=?", "export-%d" % (n % 2 + 1), HOUR,
                     at)
        if n != 1:
            sql("SELECT claimq_step(?, ?, ?, ?, 'now_ms', ?)", *claim,
                ("select rows", "", "write file")[n], json.dumps(
                    {"rows": 48211} if n == 0 else {"file": "/tmp/orders.csv",
                                                    "bytes": 9112804}),
                at + 6000)
        at += 24000 + 9000 * n
        if reason:
            sql("SELECT claimq_retry(?, ?, ?, 'now_ms', ?, 'delay_ms', 0,"
                " 'error_class', ?)", *claim, reason, at,
                ("network", "disk")[n])
        else:
            sql("SELECT claimq_renew(?, ?, ?, 'now_ms', ?, 'progress', ?)",
                *claim, HOUR, at, json.dumps({"rows": 31000}))
    sql("SELECT claimq_policy('render', 'max_active', 8, 'group_max_active', 2,"
        " 'fair', 1, 'rate', 60, 'per_ms', 60000, 'lease_ms', 120000)")
    sql("SELECT claimq_policy('billing', 'paused', 1, 'keep_ms', 300000)")
    sql("SELECT claimq_policy(NULL, 'max_attempts', 8, 'keep_ms', 86400000)")
    for n in range(40):
        test.submit("render", "page %d" % n, "group_key",
                    ("acme", "globex", "initech", "umbrella")[n * n % 7 % 4])
    for n in range(5):
        test.claim("render", "render-%d.eu-west-1" % (n % 3 + 1),
                   60000 + n * 9000)
    for n in range(8):
        test.submit("reports", json.dumps({"report": "daily", "page": n}),
                    "delay_ms", 60000 * (n + 1))
    for n in range(4):
        test.claim("mail", "mail-%d" % (n % 3 + 1), 40000 + n * 9000)
    test.claim("thumbnails", "thumbnails-1", 25000, 2)
    sql("SELECT claimq_queue('orders', 4)")
    for n in range(60):
        sql("SELECT claimq_publish('orders', ?, 'key', ?)",
            json.dumps({"order": n}), str(n % 9))
    sql("SELECT * FROM claimq_outbox('orders', 'relay-1', 45000)")
    for n in range(6):
        sql("SELECT claimq_enqueue(?, ?)", "chat-%d" % (n % 2), "message")
    sql("SELECT * FROM claimq_contest('leader', 'node-a', 120000)")
    sql("COMMIT")
    return job


if __name__ == "__main__":
    run(Tests)
