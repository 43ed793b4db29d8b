"""What top and board read: pages are complete and in order, cost the same
whatever the size of the file, and need no right to write."""
import sqlite3

import claimq.look
from claimq.live import BUCKET, BUCKETS, Live, series
from claimq.look import Look, PAGE, SEARCH, now_ms
from support import HOUR, Case, run


class Tests(Case):
    def look(self, **options):
        look = Look(self.path, **options)
        self.addCleanup(look.close)
        return look

    def pages(self, read, cursor="after"):
        """All rows, page by page, and how many pages that took."""
        found, after, n = [], None, 0
        while True:
            page = read(after)
            found += page["rows"]
            n += 1
            after = page[cursor]
            if after is None:
                return found, n
            self.assertLess(n, 1000)

    def fill(self, n):
        with_caps = ['["a"]', '["b"]', "[]"]
        self.sql("BEGIN IMMEDIATE")
        for i in range(n):
            self.submit("mail", "p%d" % i, "priority", i % 3, "partition",
                        i % 2, "capabilities", with_caps[i % 3],
                        "delay_ms", HOUR * (i % 4), "now_ms",
                        now_ms() - 1000 + i % 5)
        self.sql("COMMIT")

    def test_read_only(self):
        look = self.look()
        with self.assertRaises(sqlite3.OperationalError):
            look.rows("DELETE FROM claimq_meta")
        with self.assertRaises(sqlite3.OperationalError):
            look.value("SELECT claimq_submit('mail', 'a')")
        # Two locks: the file is open for reading alone.
        look.db.execute("PRAGMA query_only=0").fetchall()
        with self.assertRaises(sqlite3.OperationalError):
            look.rows("DELETE FROM claimq_meta")
        self.assertEqual(self.one("SELECT count(*) FROM claimq_job"), 0)

    def test_wait(self):
        """claimq_wait() works on a connection that can only read."""
        look = self.look()
        look.wait(0)
        self.assertEqual(look.wait(0), 0)
        self.submit("mail", "a")
        self.assertEqual(look.wait(60000), 1)

    def test_jobs(self):
        """All jobs once, in the order of claims within a partition and set."""
        self.fill(400)
        self.claim("mail", n=50)
        rows, n = self.pages(lambda after: self.look().page(
            "lane", "mail", after=after))
        wanted = self.sql(
            "SELECT job_id FROM claimq_job ORDER BY partition, %s DESC, %s,"
            " priority DESC, created_at_ms, job_id"
            % (claimq.look.BUCKET, claimq.look.DUE))
        self.assertEqual([(row["job_id"],) for row in rows], wanted)
        self.assertEqual(n, -(-400 // PAGE))
        kinds = {}
        for row in rows:
            kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
        stats, = self.sql("SELECT sum(ready), sum(delayed), sum(held)"
                          " FROM claimq_stats"
                          " WHERE scope='mail'")
        self.assertEqual((kinds["ready"], kinds["delayed"], kinds["held"]),
                         stats)

    def test_delayed(self):
        self.fill(400)
        self.claim("mail", n=5)
        rows, _ = self.pages(lambda after: self.look().page(
            "lane", "mail", "delayed", after))
        wanted = self.sql("SELECT job_id FROM claimq_job WHERE state='delayed'")
        self.assertEqual(sorted((row["job_id"],) for row in rows),
                         sorted(wanted))

    def test_ended(self):
        for n in range(120):
            self.submit("mail" if n % 2 else "other", n)
        for lane in ("mail", "other"):
            for _, claim, token in self.claim(lane, n=200):
                self.sql("SELECT claimq_complete(?, ?)", claim, token)
        rows, _ = self.pages(lambda after: self.look().page(
            "lane", "mail", "ended", after))
        wanted = self.sql("SELECT job_id FROM claimq_event"
                          " WHERE lane='mail' ORDER BY event_id DESC")
        self.assertEqual([(row["job_id"],) for row in rows], wanted)
        self.assertEqual({row["kind"] for row in rows}, {"completed"})

    def test_batches(self):
        for n in range(120):
            self.sql("SELECT claimq_enqueue('s', ?, 'delay_ms', ?)", n,
                     HOUR * (n % 2))
        rows, _ = self.pages(lambda after: self.look().page(
            "session", "s", after=after))
        self.assertEqual(len({row["enqueue_seq"] for row in rows}), 120)
        self.assertEqual([row["kind"] for row in rows],
                         ["ready"] * 60 + ["delayed"] * 60)

    def test_messages(self):
        self.sql("SELECT claimq_queue('q', 2)")
        for n in range(130):
            self.sql("SELECT claimq_publish('q', ?, 'partition', 1)", n)
        (claim, token), *_ = self.sql(
            "SELECT claim_id, lease_token FROM claimq_outbox('q', 'w')"
            " WHERE partition=1 AND max=10")
        self.sql("SELECT claimq_complete(?, ?)", claim, token)
        rows, _ = self.pages(lambda after: self.look().page(
            "outbox", "q", "1", after))
        self.assertEqual([row["seq"] for row in rows], list(range(11, 131)))

    def test_letters(self):
        """Pages of letters, also where some are held and some are done, and
        where a search finds nothing for long."""
        self.sql("BEGIN")
        for n in range(2 * SEARCH + 300):
            self.sql("INSERT INTO claimq_letter(source, scope, ref, payload,"
                     " created_at_ms, failed_at_ms, reason, status)"
                     " VALUES(?, ?, ?, ?, 1, 2, ?, ?)",
                     ("lane", "session", "outbox")[n % 3], "s%d" % (n % 2), n,
                     "pay%d" % n, "needle" if n in (5, SEARCH + 101) else None,
                     "discarded" if n % 50 == 0 else "pending")
        self.sql("COMMIT")
        self.sql("SELECT count(*) FROM claimq_dead_letter('s0', 'w', ?,"
                 " 20) WHERE source='lane'", HOUR)
        look = self.look()

        def all_of(**chosen):
            rows, n = self.pages(lambda before: look.letters(
                before=before, **chosen), "before")
            return [row["letter_id"] for row in rows], n

        def wanted(where):
            return [row[0] for row in self.sql(
                "SELECT letter_id FROM claimq_letter WHERE %s"
                " ORDER BY letter_id DESC" % where)]

        open_ = "status IN ('pending','reprocessing')"
        self.assertEqual(all_of()[0], wanted(open_))
        self.assertEqual(all_of(source="lane", scope="s0")[0],
                         wanted(open_ + " AND source='lane' AND scope='s0'"))
        self.assertEqual(all_of(status="discarded")[0],
                         wanted("status='discarded'"))
        self.assertEqual(all_of(status="all", scope="s1")[0],
                         wanted("scope='s1'"))
        ids, n = all_of(search="NEEDLE")
        self.assertEqual(ids, wanted("reason='needle'"))
        self.assertEqual(n, 3)
        self.assertEqual(all_of(search="pay77")[0],
                         wanted(open_ + " AND payload LIKE '%pay77%'"))

    def test_job(self):
        job = self.submit("mail", "a", "max_attempts", 2)
        for reason in ("first", "second"):
            (_, claim, token), = self.claim("mail")
            self.sql("SELECT claimq_retry(?, ?, ?, 'delay_ms', 0,"
                     " 'error_class', 'c')", claim, token, reason)
        look = self.look()
        found = look.job(job)
        self.assertEqual((found["kind"], found["payload"]), ("failed", "a"))
        self.assertNotIn("lease_token", found)
        self.assertNotIn("settled_token", found)
        self.assertEqual([(row["attempt_index"], row["outcome"], row["error"])
                          for row in look.attempts(job)],
                         [(0, "retry", "first"), (1, "failed", "second")])
        self.assertEqual([row["outcome"] for row in look.events(found)],
                         ["failed"])
        self.assertEqual([row["status"] for row in look.letters_of(found)],
                         ["pending"])
        self.assertIsNone(look.job(4711))

    def test_attempts(self):
        """The same rows as claimq_attempt, at each stage of a job."""
        job = self.submit("mail", "a")
        look = self.look()

        def same():
            cursor = self.db.execute("SELECT * FROM claimq_attempt"
                                     " WHERE job_id=?", [job])
            names = [column[0] for column in cursor.description]
            wanted = [dict(zip(names, row)) for row in cursor.fetchall()]
            self.assertEqual(look.attempts(job), wanted)
            return len(wanted)

        self.assertEqual(same(), 0)
        (_, claim, token), = self.claim("mail")
        self.assertEqual(same(), 1)
        self.sql("SELECT claimq_release(?, ?)", claim, token)
        self.assertEqual(same(), 1)
        (_, claim, token), = self.claim("mail")
        self.sql("SELECT claimq_retry(?, ?, 'x', 'delay_ms', 0)", claim, token)
        self.assertEqual(same(), 1)
        (_, claim, token), = self.claim("mail")
        self.assertEqual(same(), 2)
        self.sql("SELECT claimq_complete(?, ?)", claim, token)
        self.assertEqual(same(), 2)

    def test_cost(self):
        """A page takes as many steps with 60,000 rows as with 1,000."""
        def steps(action):
            n = [0]

            def count():
                n[0] += 1
            look.db.set_progress_handler(count, 20)
            action()
            look.db.set_progress_handler(None, 0)
            return n[0]

        def all_steps():
            job = self.one("SELECT max(job_id) FROM claimq_job"
                           " WHERE state='completed'")
            page = look.page("lane", "busy")
            found = look.job(job)
            letters = look.letters()
            return {
                "first page": steps(lambda: look.page("lane", "busy")),
                "next page": steps(lambda: look.page("lane", "busy",
                                                     after=page["after"])),
                "delayed": steps(lambda: look.page("lane", "busy", "delayed")),
                "job": steps(lambda: (look.job(job), look.attempts(job))),
                "letters": steps(look.letters),
                "more letters": steps(lambda: look.letters(
                    before=letters["before"])),
                "session": steps(lambda: look.page("session", "s")),
                "messages": steps(lambda: look.page("outbox", "q", "0")),
                "owners": steps(look.recent_owners),
            }

        def grow(n):
            self.sql("BEGIN")
            self.sql("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1"
                     " FROM c WHERE i<?) INSERT INTO claimq_job(lane,"
                     " payload, priority, created_at_ms, available_at_ms,"
                     " state) SELECT 'busy', i, i%3, 1, iif(i%5, 1, ?),"
                     " iif(i%5, 'ready', 'delayed') FROM c",
                     n, now_ms() + HOUR)
            self.sql("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1"
                     " FROM c WHERE i<?) INSERT INTO claimq_letter(source,"
                     " scope, ref, created_at_ms, failed_at_ms) SELECT 'lane',"
                     " 'busy', i, 1, 1 FROM c", n)
            self.sql("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1"
                     " FROM c WHERE i<?) INSERT INTO claimq_batch(session,"
                     " payload, batch_id, enqueued_at_ms)"
                     " SELECT 's', i, i, 1 FROM c", n)
            for _ in range(600):
                self.submit("done", 1)
            for _, claim, token in self.claim("done", n=1000):
                self.sql("SELECT claimq_complete(?, ?)", claim, token)
            self.sql("COMMIT")

        self.sql("SELECT claimq_init('sessions', 1)")
        self.sql("SELECT claimq_queue('q', 1)")
        grow(1000)
        for n in range(200):
            self.sql("SELECT claimq_publish('q', ?)", n)
        look = self.look()
        few = all_steps()
        grow(60000)
        many = all_steps()
        for name in few:
            self.assertLessEqual(many[name], few[name] * 1.2 + 3, name)

    def test_leaving(self):
        """What will be removed is what claimq_vacuum() removes."""
        def end(lane, hours, state="completed", *options):
            """A job that ended some hours ago."""
            at = now_ms() - hours * HOUR
            job = self.submit(lane, "x", "priority", 9, "now_ms", at, *options)
            (claim, token), = self.sql(
                "SELECT claim_id, lease_token FROM claimq_lane(?, 'w', ?)"
                " WHERE now_ms=?", lane, HOUR, at)
            if state == "failed":
                self.sql("SELECT claimq_reject(?, ?, 'x', 'now_ms', ?)",
                         claim, token, at)
            else:
                self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", claim,
                         token, at)
            return job

        def lanes():
            return dict(self.sql("SELECT lane, count(*) FROM claimq_job"
                                 " GROUP BY 1"))

        def same(wanted):
            found, rough = look.leaving()
            before, _ = lanes(), self.sql("SELECT claimq_vacuum()")
            after = lanes()
            gone = {lane: n - after.get(lane, 0) for lane, n in before.items()
                    if n != after.get(lane, 0)}
            self.assertEqual((found, gone, rough), (wanted, wanted, False))
            self.assertEqual(look.leaving(), ({}, False))

        look, day = self.look(), 24
        self.assertEqual(look.leaving(), ({}, False))
        for _ in range(3):                      # the letter of one is open
            end("bad", 31 * day, "failed")
        self.submit("plain", "waits", "now_ms", now_ms() - 9 * day * HOUR)
        end("plain", 8 * day)
        end("bad", 8 * day, "failed")
        end("keyed", 8 * day, "completed", "source_key", "k",
            "unique_for_ms", 90 * day * HOUR)
        end("plain", 6 * day)
        self.sql("UPDATE claimq_letter SET status='discarded'"
                 " WHERE letter_id<>2")
        same({"plain": 1, "bad": 2})
        # Policies.
        for hours in (4, 2):
            for lane in ("hour", "ever", "said", "plain"):
                end(lane, hours)
        self.sql("SELECT claimq_policy('hour', 'keep_ms', ?)", HOUR)
        self.sql("SELECT claimq_policy('ever', 'keep_ms', -1)")
        self.sql("SELECT claimq_policy('bad', 'keep_failed_ms', ?)", HOUR)
        self.sql("SELECT claimq_policy(NULL, 'keep_ms', ?)", 3 * HOUR)
        same({"hour": 2, "said": 1, "plain": 2, "bad": 1})
        # One that others wait for stays.
        end("other", 6)
        first = self.submit("first", "x", "now_ms", now_ms() - 5 * HOUR)
        second = self.submit("first", "y", "now_ms", now_ms() - 5 * HOUR)
        self.submit("last", "z", "after", "[%d,%d]" % (first, second))
        (claim, token), = self.sql(
            "SELECT claim_id, lease_token FROM claimq_lane('first', 'w')"
            " WHERE now_ms=?", now_ms() - 5 * HOUR)
        self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", claim, token,
                 now_ms() - 5 * HOUR)
        same({"other": 1})
        self.sql("SELECT claimq_cancel(max(job_id)) FROM claimq_job")
        same({"first": 1})

    def test_leaving_bound(self):
        """No more jobs are looked at than may be, those first that claimq
        looks at next."""
        at = now_ms() - 200 * HOUR
        for n in range(6):
            self.submit("mail" if n < 3 else "late", n, "now_ms", at)
        for lane in ("mail", "late"):
            for claim in self.sql(
                    "SELECT claim_id, lease_token FROM claimq_lane(?, 'w', ?,"
                    " 9) WHERE now_ms=?", lane, HOUR, at):
                self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", *claim,
                         at)
        look, most = self.look(), claimq.look.LEAVING

        def restore():
            claimq.look.LEAVING = most
        self.addCleanup(restore)
        self.assertEqual(look.leaving(), ({"mail": 3, "late": 3}, False))
        claimq.look.LEAVING = 4
        self.assertEqual(look.leaving(), ({"mail": 3, "late": 1}, True))
        self.sql("INSERT OR REPLACE INTO claimq_meta(name, value)"
                 " VALUES('kept_job', 4)")
        self.assertEqual(look.leaving(), ({"mail": 2, "late": 2}, True))

    def test_series(self):
        """The plots: what was submitted and ended when, and how deep it was."""
        live = Live(self.path)
        now = now_ms()
        start = now - now % BUCKET - 5 * BUCKET
        for n in range(6):
            self.submit("mail", n, "now_ms", start + 1)
        self.submit("other", 1, "now_ms", start + 2)
        for n, verb in ((1, "complete(?, ?"), (2, "complete(?, ?"),
                        (3, "reject(?, ?, 'x'")):
            at = start + n * BUCKET + 5
            (claim, token), = self.sql(
                "SELECT claim_id, lease_token FROM claimq_lane('mail', 'w')"
                " WHERE now_ms=?", at)
            self.sql("SELECT claimq_%s, 'now_ms', ?)" % verb, claim, token, at)
        picture = live._look(self.look())
        found = series(picture, "lane", "mail")
        # The clock may have gone on into the next bar meanwhile.
        end = BUCKETS - 6 - (picture["at_ms"] - now + now % BUCKET) // BUCKET
        self.assertEqual(found["depth"][end - 1:end + 6], [0, 6, 5, 4, 3, 3, 3])
        self.assertEqual(found["done"][end - 1:end + 6], [0, 0, 1, 1, 0, 0, 0])
        self.assertEqual(found["failed"][end - 1:end + 6],
                         [0, 0, 0, 0, 1, 0, 0])
        self.assertEqual(series(picture)["depth"][end:end + 2], [7, 6])

    def test_preview(self):
        """Before anything is counted: what the indexes say."""
        for n in range(5):
            self.submit("mail", n, "delay_ms", HOUR * (n % 2))
        self.sql("SELECT claimq_enqueue('s', 1)")
        self.sql("SELECT claimq_queue('q', 3)")
        self.sql("SELECT claimq_publish('q', 1)")
        self.letter("other", 1, "x")
        found = {(row["discipline"], row["scope"]):
                 (row["ready"], row["delayed"], row["dead"])
                 for row in self.look().preview()}
        self.assertEqual(found, {
            ("lane", "mail"): (3, 2, 0), ("session", "s"): (1, 0, 0),
            ("outbox", "q"): (1, 0, 0), ("lane", "other"): (0, 0, 1)})

    def test_live(self):
        """A commit, and a row that falls due without one, make a new
        picture."""
        live = Live(self.path, pause=0.01)
        live.watching(1)
        live.start()
        self.addCleanup(live.stop)

        def ready():
            picture = live.picture
            return picture and not picture["approx"] and {
                row["scope"]: row["ready"] for row in picture["scopes"]}

        self.wait(lambda: ready() == {})
        self.submit("mail", 1)
        self.wait(lambda: ready() == {"mail": 1})
        self.submit("soon", 1, "delay_ms", 300)
        self.wait(lambda: ready() == {"mail": 1, "soon": 1})
        self.claim("mail", "worker-a")
        self.wait(lambda: [worker["owner"]
                           for worker in live.picture["workers"]]
                  == ["worker-a"])
        worker, = live.picture["workers"]
        self.assertEqual(worker["until_ms"], self.one(
            "SELECT expires_at_ms FROM claimq_job WHERE lane='mail'"))
        self.assertEqual(worker["holds"][0]["scope"], "mail")


run(Tests)
