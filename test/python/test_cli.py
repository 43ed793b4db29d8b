"""The commands of `claimq` that scripts use: what they print, what they change,
and how they end."""
import json
import os
import sqlite3

import claimq
from support import Case, HOUR, command, command_json, run


class Tests(Case):
    def rows(self, sql, *arguments):
        cursor = self.db.execute(sql, arguments)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def test_stats(self):
        for n in range(3):
            self.submit("mail", "m%d" % n)
        self.submit("later", "l", "delay_ms", HOUR)
        self.claim("mail")
        self.sql("SELECT claimq_queue('q', 2)")
        self.sql("SELECT claimq_publish('q', 'a')")
        self.sql("SELECT claimq_enqueue('s', 'b')")
        self.sql("SELECT * FROM claimq_contest('leader', 'n', ?)", HOUR)
        wanted = self.rows("SELECT * FROM claimq_stats")
        self.assertEqual(command_json("stats", self.path), (0, wanted))
        self.assertEqual(len(wanted), 6)
        self.assertEqual(
            command_json("stats", self.path, "--discipline", "lane",
                         "--scope", "mail"),
            (0, [row for row in wanted if row["scope"] == "mail"]))
        code, out, _ = command("stats", self.path)
        line, = [line.split() for line in out.splitlines() if "mail" in line]
        self.assertEqual((code, line[:5]), (0, ["lane", "mail", "0", "2", "0"]))

    def test_why(self):
        self.assertEqual(command("why", self.path, "lane", "mail")[0], 1)
        self.submit("mail", "a", "capabilities", '["gpu"]')
        code, rows = command_json("why", self.path, "lane", "mail")
        self.assertEqual((code, [row["reason"] for row in rows]),
                         (1, ["capability"]))
        for given in ("gpu,big", '["gpu"]'):
            code, rows = command_json("why", self.path, "lane", "mail",
                                      "--capabilities", given)
            self.assertEqual((code, [row["reason"] for row in rows]),
                             (0, ["claimable"]))

    def test_check(self):
        self.submit("mail", "a")
        code, out, _ = command("check", self.path)
        self.assertEqual((code, out), (0, "nothing is wrong\n"))
        self.assertEqual(command_json("check", self.path), (0, []))
        self.sql("DELETE FROM claimq_meta WHERE name='contest_fence'")
        code, rows = command_json("check", self.path)
        self.assertEqual((code, rows), (1, [
            {"table_name": "claimq_meta", "row_key": "contest_fence",
             "problem": "missing, or no number"}]))
        self.assertEqual(command("check", self.path)[0], 1)

    def test_letters(self):
        first = self.letter("mail", "an Apple", "no such mailbox", "permanent")
        second = self.letter("mail", "a pear", "the APPLE store is closed")
        third = self.letter("other", "a plum", "worms", "permanent")

        def ids(*arguments):
            code, rows = command_json("letters", self.path, *arguments)
            return code, [row["letter_id"] for row in rows]

        self.assertEqual(ids(), (0, [third, second, first]))
        self.assertEqual(ids("--search", "apple"), (0, [second, first]))
        self.assertEqual(ids("--search", "PERMANENT"), (0, [third, first]))
        self.assertEqual(ids("--search", "grape"), (1, []))
        self.assertEqual(ids("--scope", "mail"), (0, [second, first]))
        self.assertEqual(ids("--source", "session"), (1, []))
        self.assertEqual(ids("--limit", "1"), (0, [third]))
        self.assertEqual(ids("--limit", "1", "--before", str(third)),
                         (0, [second]))
        self.assertEqual(ids("--status", "discarded"), (1, []))
        code, rows = command_json("letters", self.path, "--limit", "1")
        self.assertEqual([rows[0][name] for name in (
            "source", "scope", "reason", "error_class", "payload")],
            ["lane", "other", "worms", "permanent", "a plum"])

    def test_requeue(self):
        one = self.letter("mail", "a", "why")
        self.assertEqual(command_json("requeue", self.path, one),
                         (0, [{"id": one, "result": 2}]))
        self.assertEqual(self.sql("SELECT payload, state FROM claimq_job"
                                  " WHERE job_id=2"), [("a", "ready")])
        code, rows = command_json("requeue", self.path, one, 4711)
        self.assertEqual((code, [row["code"] for row in rows]),
                         (1, ["conflict", "not_found"]))
        self.assertEqual(self.one("SELECT count(*) FROM claimq_job"), 2)

    def test_not_utf8(self):
        """A payload that is not UTF-8 does not end a search."""
        self.letter("mail", "timeout of Ann", "why")
        self.sql("SELECT claimq_submit('mail', CAST(x'ff' AS TEXT))")
        (_, claim, token), = self.claim("mail")
        self.sql("SELECT claimq_reject(?, ?, 'Timeout')", claim, token)
        code, rows = command_json("letters", self.path, "--search", "timeout")
        self.assertEqual((code, [row["letter_id"] for row in rows]),
                         (0, [2, 1]))
        self.assertEqual(command("letters", self.path, "--search", "x")[0], 1)
        code, rows = command_json("requeue", self.path, "--all", "--search",
                                  "timeout")
        self.assertEqual((code, len(rows)), (0, 2))

    def test_requeue_all(self):
        for n in range(620):
            self.sql("INSERT INTO claimq_letter(source, scope, ref, payload,"
                     " created_at_ms, failed_at_ms, reason, origin)"
                     " VALUES('lane', 'mail', ?, ?, 1, 2, ?, '{}')",
                     n, "p%d" % n, "odd" if n % 2 else "even")
        code, rows = command_json("requeue", self.path, "--all", "--search",
                                  "ODD", "--scope", "mail")
        self.assertEqual((code, len(rows)), (0, 310))
        self.assertEqual(self.sql(
            "SELECT reason, status, count(*) FROM claimq_letter"
            " GROUP BY 1, 2 ORDER BY 1"),
            [("even", "pending", 310), ("odd", "resolved", 310)])
        # The oldest letter is the first to be a job again.
        self.assertEqual(self.sql("SELECT payload FROM claimq_job"
                                  " ORDER BY job_id LIMIT 2"),
                         [("p1",), ("p3",)])

    def test_discard(self):
        one, two, three = [self.letter("mail", name, "why") for name in "abc"]
        self.assertEqual(command_json("discard", self.path, two),
                         (0, [{"id": two, "result": "discarded"}]))
        self.sql("SELECT * FROM claimq_dead_letter('mail', 'w', ?)"
                 " WHERE source='lane'", HOUR)
        code, rows = command_json("discard", self.path, one, two, 99, three)
        self.assertEqual((code, [row.get("code") for row in rows]),
                         (1, ["conflict", "conflict", "not_found", None]))
        self.assertEqual(self.sql("SELECT status FROM claimq_letter"
                                  " ORDER BY letter_id"),
                         [("reprocessing",), ("discarded",), ("discarded",)])
        self.assertEqual(self.sql("SELECT * FROM claimq_check"), [])

    def test_discard_expired(self):
        one, two = [self.letter("mail", name, "why") for name in "ab"]
        held = self.sql("SELECT claim_id, lease_token FROM claimq_dead_letter("
                        "'mail', 'w', 1, 2) WHERE source='lane'"
                        " AND now_ms=9000000000000")
        # Two letters, one claim, held far in the future: a live one.
        self.assertEqual(command("discard", self.path, one)[0], 1)
        self.sql("UPDATE claimq_letter SET claimed_at_ms=1, expires_at_ms=2")
        self.assertEqual(command("discard", self.path, one)[0], 0)
        with self.assertRaises(sqlite3.OperationalError) as caught:
            self.sql("SELECT claimq_complete(?, ?)", *held[0])
        self.assertEqual(claimq.code(caught.exception), "claim_lost")
        self.assertEqual(self.sql("SELECT status FROM claimq_letter"
                                  " ORDER BY letter_id"),
                         [("discarded",), ("reprocessing",)])
        self.assertEqual(self.sql("SELECT * FROM claimq_check"), [])

    def test_revoke(self):
        job = self.submit("mail", "a")
        (_, claim, token), = self.claim("mail")
        self.assertEqual(command_json("revoke", self.path, job),
                         (0, [{"id": job, "result": "revoked"}]))
        with self.assertRaises(sqlite3.OperationalError) as caught:
            self.sql("SELECT claimq_complete(?, ?)", claim, token)
        self.assertEqual(claimq.code(caught.exception), "claim_lost")
        self.assertEqual(command_json("revoke", self.path, job),
                         (1, [{"id": job, "result": "no_active_lease"}]))

    def test_codes(self):
        self.assertEqual(command("stats", self.path + "x")[0], 3)
        self.assertFalse(os.path.exists(self.path + "x"))
        self.assertEqual(command("stats", __file__)[0], 3)
        with open("empty.db", "w"):
            pass
        code, out, errors = command("check", "empty.db")
        self.assertEqual((code, out), (3, ""))
        self.assertIn("no tables of claimq", errors)
        for wrong in (["stats"], ["nonsense", self.path],
                      ["why", self.path, "queue", "x"],
                      ["requeue", self.path], ["requeue", self.path, "1",
                                               "--all"],
                      ["revoke", self.path],
                      ["revoke", self.path, 1 << 63],
                      ["discard", self.path, "1", "9" * 30],
                      ["letters", self.path, "--before", "9" * 30]):
            self.assertEqual(command(*wrong)[0], 2, wrong)
        code, _, errors = command("why", self.path, "lane", "mail",
                                  "--capabilities", "[1")
        self.assertEqual(code, 1)
        self.assertIn("claimq: bad_argument: ", errors)
        self.assertNotIn("Traceback", errors)

    def test_read_only(self):
        """Commands that look leave the file as it is, byte for byte."""
        self.letter("mail", "a", "why")
        self.sql("PRAGMA journal_mode=delete")
        self.db.close()

        def content():
            with open(self.path, "rb") as file:
                return file.read()

        before = content()
        for arguments in (["stats"], ["why", "lane", "mail"], ["check"],
                          ["letters"], ["top", "--once"]):
            name, *more = arguments
            command(name, self.path, *more)
        self.assertEqual(content(), before)
        for end in ("-wal", "-shm", "-journal"):
            self.assertFalse(os.path.exists(self.path + end))

    def test_hostile(self):
        """What is in a payload does not reach the terminal as it is."""
        self.letter("mail\x1b[2J", "\x1b]0;title\x07\r\n\u202e", "\x9b31m")
        for arguments in (["letters"], ["stats"], ["top", "--once"]):
            name, *more = arguments
            code, out, _ = command(name, self.path, *more)
            self.assertEqual(code, 0)
            self.assertTrue(all(c.isprintable() or c == "\n" for c in out), out)
            self.assertIn("mail", out)

    def test_values(self):
        """JSON keeps what a payload is."""
        for payload in (b"\x00\xff", 9007199254740993, 1.5, None, "text"):
            self.letter("mail", payload, "why")
        code, rows = command_json("letters", self.path)
        self.assertEqual([row["payload"] for row in reversed(rows)],
                         [{"blob": "00ff"}, "9007199254740993", 1.5, None,
                          "text"])

    def test_top_once(self):
        for n in range(3):
            self.submit("mail", n)
        self.submit("images", 1)
        self.claim("mail", "worker-a")
        code, out, _ = command("top", self.path, "--once", "--sort", "scope")
        lines = [line.split() for line in out.splitlines()]
        self.assertEqual(code, 0)
        self.assertEqual([line[1] for line in lines[2:]], ["images", "mail"])
        self.assertEqual(lines[3][:4], ["lane", "mail", "2", "1"])
        code, out, _ = command("top", self.path, "--once", "--filter", "IMA")
        self.assertEqual(len(out.splitlines()), 3)
        code, _, errors = command("top", self.path)
        self.assertEqual(code, 3)
        self.assertIn("needs a terminal", errors)

    def test_explicit_clock(self):
        """A database whose callers give the time gets it from the command."""
        job = self.submit("mail", "a")
        letter = self.letter("mail", "b", "why")
        self.claim("mail", "worker-a")
        self.submit("mail", "c")
        self.sql("SELECT claimq_init('clock', 'explicit')")
        code, rows = command_json("stats", self.path, "--discipline", "lane")
        self.assertEqual((code, [(row["scope"], row["ready"], row["held"])
                                 for row in rows]), (0, [("mail", 1, 1)]))
        code, rows = command_json("why", self.path, "lane", "mail")
        self.assertEqual((code, [row["reason"] for row in rows]),
                         (0, ["held", "claimable"]))
        code, out, errors = command("top", self.path, "--once")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(command("check", self.path)[0], 0)
        self.assertEqual(command_json("requeue", self.path, letter)[0], 0)
        self.assertEqual(command_json("revoke", self.path, job),
                         (0, [{"id": job, "result": "revoked"}]))


run(Tests)
