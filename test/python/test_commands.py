"""The commands of `claimq` for operators: jobs, workers, schedules, and what
changes them."""
import json

from claimq.look import now_ms
from support import HOUR, Case, command, command_json, run


class Tests(Case):
    def ids(self, *arguments):
        code, rows = command_json("jobs", self.path, *arguments)
        return code, [row["job_id"] for row in rows]

    def test_jobs(self):
        held = self.submit("mail", "an Apple")
        self.claim("mail", "worker-a")
        late = self.submit("mail", "a pear", "delay_ms", HOUR)
        ready = self.submit("other", "a plum")
        blocked = self.submit("other", "x", "after", "[%d]" % ready)
        gone = self.submit("mail", "y")
        self.sql("SELECT claimq_cancel(?)", gone)
        failed = self.letter("mail", "z", "worms")
        failed = self.one("SELECT ref FROM claimq_letter WHERE letter_id=?",
                          failed)
        self.assertEqual(self.ids(), (0, [blocked, ready, late, held]))
        self.assertEqual(self.ids("--lane", "mail"), (0, [late, held]))
        self.assertEqual(self.ids("--lane", "mial"), (1, []))
        for state, wanted in (("held", [held]), ("delayed", [late]),
                              ("ready", [ready]), ("blocked", [blocked]),
                              ("cancelled", [gone]), ("failed", [failed]),
                              ("ended", [failed, gone]), ("expired", []),
                              ("completed", [])):
            self.assertEqual(self.ids("--state", state),
                             (0 if wanted else 1, wanted), state)
        self.assertEqual(self.ids("--search", "APPLE"), (0, [held]))
        self.assertEqual(self.ids("--state", "all", "--search", "worms"),
                         (0, [failed]))
        self.assertEqual(self.ids("--limit", 2), (0, [blocked, ready]))
        self.assertEqual(self.ids("--limit", 2, "--before", ready),
                         (0, [late, held]))
        code, out, _ = command("jobs", self.path, "--state", "held")
        head, line = [line.split() for line in out.splitlines()]
        self.assertEqual(head[:5], ["job", "lane", "state", "age", "until"])
        self.assertEqual(line[:3], [str(held), "mail", "held"])
        self.assertIn("worker-a", line)

    def test_jobs_far(self):
        """What is behind many others is found, in several steps."""
        first = self.submit("rare", "x")
        self.sql("BEGIN")
        for n in range(5100):
            self.submit("often", n)
        self.sql("COMMIT")
        self.assertEqual(self.ids("--lane", "rare"), (0, [first]))
        self.assertEqual(len(self.ids("--limit", 5050)[1]), 5050)

    def test_job(self):
        job = self.submit("mail", "a", "max_attempts", 2)
        behind = self.submit("mail", "b", "after", "[%d]" % job)
        for reason in ("first", "second"):
            (_, claim, token), = self.claim("mail", "worker-a")
            self.sql("SELECT claimq_step(?, ?, 'download', 'of the '||?)",
                     claim, token, reason)
            self.sql("SELECT claimq_retry(?, ?, ?, 'delay_ms', 0)",
                     claim, token, reason)
        code, found = command_json("job", self.path, job)
        self.assertEqual((code, found["job"]["state"]), (0, "failed"))
        self.assertEqual([row["outcome"] for row in found["attempts"]],
                         ["retry", "failed"])
        self.assertEqual([row["status"] for row in found["letters"]],
                         ["pending"])
        self.assertNotIn("lease_token", json.dumps(found))
        code, out, _ = command("job", self.path, job)
        self.assertEqual(code, 0)
        lines = [line.split() for line in out.splitlines()]
        self.assertIn(["state", "failed"], lines)
        for heading in (["attempt", "owner", "began", "ran", "outcome",
                         "error"], ["letter", "status", "requeued", "as",
                                    "reason"]):
            self.assertIn(heading, lines)
        self.assertRegex(out, r"0 +worker-a .* retry +first\n")
        self.assertRegex(out, r"step +stored +value\ndownload .* of the first\n")
        self.assertNotRegex(out, "(?m)^(said|place|slot|awaited|head_id) ")
        code, out, _ = command("job", self.path, behind)
        self.assertIn("waits for  lane  state\n", out)
        code, out, errors = command("job", self.path, 4711)
        self.assertEqual((code, out, errors),
                         (1, "", "claimq: there is no job 4711\n"))

    def test_cancel(self):
        one, two = self.submit("mail", "a"), self.submit("mail", "b")
        self.claim("mail")
        self.assertEqual(command_json("cancel", self.path, one, two, 99), (1, [
            {"id": one, "result": "claimed"}, {"id": two, "result":
                                               "cancelled"},
            {"id": 99, "result": "missing"}]))
        self.assertEqual(command_json("cancel", self.path, "--force", one),
                         (0, [{"id": one, "result": "cancelled"}]))

    def test_change(self):
        job = self.submit("mail", "a")
        self.assertEqual(command_json(
            "change", self.path, job, "--lane", "other", "--priority", 7,
            "--payload", "b", "--delay", "2h", "--capabilities", "gpu,big",
            "--partition", 3, "--group", "g", "--max-attempts", 4,
            "--max-reclaims", 5), (0, [{"id": job, "result": "changed"}]))
        self.assertEqual(self.sql(
            "SELECT lane, priority, payload, capabilities,"
            " partition, group_key, max_attempts, max_reclaims"
            " FROM claimq_job"),
            [("other", 7, "b", '["big","gpu"]', 3, "g", 4, 5)])
        due = self.one("SELECT available_at_ms FROM claimq_job")
        self.assertGreater(due, now_ms() + HOUR)
        self.assertEqual(command("change", self.path, job, "--delay", 0)[0], 0)
        self.assertLessEqual(self.one(
            "SELECT available_at_ms FROM claimq_job"), now_ms())
        self.assertEqual(command_json("change", self.path, 99, "--priority",
                                      1), (1, [{"id": 99, "result":
                                                "missing"}]))
        for wrong in (["change", self.path, job],
                      ["change", self.path, job, "--delay", "soon"],
                      ["change", self.path, job, "--priority", 1 << 63],
                      ["change", self.path]):
            self.assertEqual(command(*wrong)[0], 2, wrong)

    def test_pause(self):
        self.submit("mail", "a")
        self.submit("other", "b")
        self.assertEqual(command("pause", self.path, "mail", "new")[0], 0)
        self.assertEqual(self.claim("mail"), [])
        self.assertEqual(len(self.claim("other")), 1)
        code, rows = command_json("why", self.path, "lane", "mail")
        self.assertEqual((code, [row["reason"] for row in rows]),
                         (1, ["paused"]))
        self.assertEqual(command_json("resume", self.path, "mail", "other"),
                         (1, [{"id": "mail", "result": "resumed"},
                              {"id": "other", "result": "not_paused"}]))
        self.assertEqual(len(self.claim("mail")), 1)
        code, out, _ = command("resume", self.path, "new")
        self.assertEqual((code, [line.split() for line in out.splitlines()]),
                         (0, [["lane", "result"], ["new", "resumed"]]))

    def test_pause_limited(self):
        """Limits that the lane has stay; one of 0 is replaced."""
        self.sql("SELECT claimq_policy('mail', 'max_active', 5, 'rate', 3,"
                 " 'per_ms', 1000)")
        self.assertEqual(command("pause", self.path, "mail")[::2], (0, ""))
        self.assertEqual(self.sql("SELECT paused, max_active, rate"
                                  " FROM claimq_policy"), [(1, 5, 3)])
        self.assertEqual(command("resume", self.path, "mail")[0], 0)
        self.assertEqual(self.sql("SELECT paused, max_active, rate"
                                  " FROM claimq_policy"), [(0, 5, 3)])
        self.sql("SELECT claimq_policy('mail', 'max_active', 0)")
        self.assertEqual(command("resume", self.path, "mail", "--max-active",
                                 4)[0], 0)
        self.assertEqual(self.sql("SELECT paused, max_active, rate"
                                  " FROM claimq_policy"), [(0, 4, 3)])

    def test_policy(self):
        self.assertEqual(command("policy", self.path)[0], 1)
        self.assertEqual(command("policy", self.path, "mail", "lease_ms=60000",
                                 "max_active=5", "reclaim=grant")[0], 0)
        self.assertEqual(command("policy", self.path, "*",
                                 "max_attempts=3")[0], 0)
        code, rows = command_json("policy", self.path)
        self.assertEqual((code, [(row["lane"], row["lease_ms"],
                                  row["max_attempts"]) for row in rows]),
                         (0, [(None, None, 3), ("mail", 60000, None)]))
        self.assertEqual(command("policy", self.path, "mail", "max_active=",
                                 "reclaim=")[0], 0)
        code, out, _ = command("policy", self.path, "mail")
        lines = [line.split() for line in out.splitlines()]
        self.assertIn(["mail", "lease_ms", "60000"], lines)
        self.assertNotIn("max_active", out)
        self.assertNotIn("fair", out)
        code, out, _ = command("policy", self.path, "*")
        self.assertIn(["*", "max_attempts", "3"],
                      [line.split() for line in out.splitlines()])
        code, out, _ = command("policy", self.path, "mail", "colour=red")
        self.assertEqual(code, 1)
        self.assertIn("unknown option", out)
        self.assertEqual(command("policy", self.path, "mail", "colour")[0], 2)
        self.assertEqual(command("policy", self.path, "none")[0], 1)

    def test_vacuum(self):
        for n in range(30):
            self.submit("mail", n, "now_ms", 1000)
        for _, claim, token in self.claim("mail", n=30):
            self.sql("SELECT claimq_complete(?, ?)", claim, token)
        left = self.submit("mail", "x")
        code, found = command_json("vacuum", self.path, "--older-than", "1d")
        self.assertEqual((code, self.one("SELECT count(*) FROM claimq_job")),
                         (0, 31))
        code, found = command_json("vacuum", self.path, "--older-than", 0)
        self.assertEqual(code, 0)
        self.assertGreaterEqual(found["removed"], 30)
        self.assertEqual(self.sql("SELECT job_id FROM claimq_job"), [(left,)])
        code, out, _ = command("vacuum", self.path)
        self.assertEqual((code, out), (0, "0 rows were removed\n"))

    def test_schedules(self):
        self.assertEqual(command("schedules", self.path)[0], 1)
        at = self.one("SELECT claimq_schedule('nightly', '0 3 * * *',"
                      " 'reports', 'all')")
        for n in range(60):
            self.sql("SELECT claimq_schedule(?, 'every 90 s', 'other', ?,"
                     " 'enabled', 0)", "other%02d" % n, n)
        self.sql("SELECT claimq_schedule('west', '5 4 * * *', 'reports', 1,"
                 " 'offset_minutes', -210)")
        self.sql("SELECT claimq_schedule('zone', '5 4 * * *', 'reports', 1,"
                 " 'timezone', 'Europe/Berlin')")
        code, rows = command_json("schedules", self.path)
        self.assertEqual((code, len(rows), rows[0]["next_at_ms"]),
                         (0, 63, at))
        code, out, _ = command("schedules", self.path)
        lines = out.splitlines()
        self.assertEqual(lines[0].split(),
                         ["name", "lane", "spec", "clock", "next", "last",
                          "enabled", "payload"])
        self.assertRegex(lines[1],
                         r"^nightly +reports +0 3 [*] [*] [*] +UTC .* yes +all$")
        self.assertRegex(lines[-2], r"^west .* UTC-03:30 ")
        self.assertRegex(lines[-1], r"^zone .* Europe/Berlin ")

    def test_workers(self):
        """Who holds something, or was seen in the last minute; nobody else."""
        self.assertEqual(command("workers", self.path), (
            1, "worker  run  holds  expired  until  seen  done  what\n", ""))
        old = now_ms() - HOUR
        for owner, at in (("long-gone", old), ("here", now_ms() + HOUR)):
            self.submit("mail", "x", "now_ms", old)
            (claim, token), = self.sql(
                "SELECT claim_id, lease_token FROM claimq_lane('mail', ?)"
                " WHERE now_ms=?", owner, at)
            self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", claim,
                     token, at)
        for owner, at, lease in (("holds", now_ms(), HOUR),
                                 ("expired", old, 1000)):
            self.submit("mail", "x", "now_ms", old)
            self.sql("SELECT job_id FROM claimq_lane('mail', ?, ?)"
                     " WHERE now_ms=?", owner, lease, at)
        code, rows = command_json("workers", self.path)
        self.assertEqual((code, [(row["owner"], row["live"],
                                  row["expired"]) for row in rows]),
                         (0, [("expired", 0, 1), ("holds", 1, 0),
                              ("here", 0, 0)]))
        code, rows = command_json("workers", self.path, "--all")
        self.assertIn("long-gone", [row["owner"] for row in rows])
        code, out, _ = command("top", self.path, "--once")
        self.assertIn("3 workers (1 hold, 1 expired, 1 seen in the last"
                      " minute)", out.splitlines()[0])

    def test_why_unknown(self):
        """A name that was mistyped is not an empty lane."""
        self.submit("mail", "a")
        code, out, errors = command("why", self.path, "lane", "mial")
        self.assertEqual((code, out, errors), (
            1, "", "claimq: there is no lane mial: do you mean mail?\n"))
        code, out, errors = command("why", self.path, "lane", "mial", "--json")
        self.assertEqual((code, json.loads(out)), (1, []))
        self.assertIn("there is no lane mial", errors)
        self.assertIn("queue 'x' is not registered", command(
            "why", self.path, "outbox", "x")[2])
        self.assertIn("there is no session x", command(
            "why", self.path, "session", "x")[2])
        (_, claim, token), = self.claim("mail")
        self.sql("SELECT claimq_complete(?, ?)", claim, token)
        self.assertIn("lane mail: there is nothing that waits", command(
            "why", self.path, "lane", "mail")[2])
        self.sql("SELECT claimq_queue('q', 2)")
        self.assertIn("outbox q: there is nothing", command(
            "why", self.path, "outbox", "q")[2])

    def test_headings(self):
        letter = self.letter("mail", "a", "why")
        code, out, _ = command("requeue", self.path, letter, 99)
        lines = out.splitlines()
        self.assertEqual((code, lines[0].split(), lines[1].split()),
                         (1, ["letter", "result"], [str(letter), "2"]))
        self.assertRegex(lines[2], r"99 +claimq: not_found: there is no")
        code, out, _ = command("revoke", self.path, 2)
        self.assertEqual([line.split() for line in out.splitlines()],
                         [["job", "result"], ["2", "no_active_lease"]])

    def test_explicit_clock(self):
        """A database whose callers give the time gets it from the command."""
        job = self.submit("mail", "a")
        self.sql("SELECT claimq_init('clock', 'explicit')")
        for arguments in (["change", job, "--priority", 3], ["pause", "mail"],
                          ["resume", "mail"], ["vacuum"], ["jobs"],
                          ["job", job], ["cancel", job]):
            name, *more = arguments
            self.assertEqual(command(name, self.path, *more)[::2], (0, ""),
                             arguments)


run(Tests)
