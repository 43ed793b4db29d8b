"""`claimq metrics`: what it prints is OpenMetrics, and says what claimq_stats
and the events say."""
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

import claimq
from claimq import metrics
from claimq.look import Look
from support import Case, HOUR, LIMIT, command, run

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})?'
                    r' (-?[0-9.e+-]+|\+Inf)')


def parse(text):
    """{(name, labels): value}; asserts what OpenMetrics demands of a text."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-2:]
    found, family, seen = {}, None, set()
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in seen, line
            seen.add(family)
            ends = {"gauge": ("",), "counter": ("_total",),
                    "histogram": ("_bucket", "_sum", "_count")}[kind]
        elif line.startswith("# "):
            assert line.split(" ")[2] == family, line
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name in [family + end for end in ends], line
            key = name, tuple(sorted(re.findall(
                r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels or "")))
            assert key not in found, line
            found[key] = float(value)
    return found


def sample(found, name, **labels):
    return found.get((name, tuple(sorted(labels.items()))))


class Tests(Case):
    def fill(self):
        for n in range(5):
            self.submit("mail", "m%d" % n, "partition", n % 2)
        self.submit("mail", "later", "delay_ms", HOUR)
        self.submit('a "b"\\\n', "x")
        self.claim("mail")
        self.letter("mail", "bad", "no")
        self.sql("SELECT claimq_queue('q', 2)")
        self.sql("SELECT claimq_publish('q', 'a', 'partition', 1)")
        self.sql("SELECT claimq_enqueue('s', 'b')")
        self.sql("SELECT claimq_enqueue('t', 'b')")
        self.sql("SELECT * FROM claimq_contest('leader', 'n', ?)", HOUR)

    def printed(self):
        code, out, errors = command("metrics", self.path)
        self.assertEqual((code, errors), (0, ""))
        return out

    def test_what_there_is(self):
        self.fill()
        found = parse(self.printed())
        mail = {"discipline": "lane", "lane": "mail"}
        for state, n in (("ready", 4), ("delayed", 1), ("held", 1),
                         ("expired", 0), ("blocked", 0), ("limited", 0)):
            self.assertEqual(sample(found, "claimq_depth", **mail,
                                    state=state), n, state)
        self.assertEqual(sample(found, "claimq_held", **mail), 1)
        self.assertEqual(sample(found, "claimq_expired", **mail), 0)
        self.assertEqual(sample(found, "claimq_dead", **mail), 1)
        self.assertGreaterEqual(
            sample(found, "claimq_oldest_ready_age_seconds", **mail), 0)
        self.assertEqual(sample(found, "claimq_depth", discipline="session",
                                state="ready"), 2)
        self.assertEqual(sample(found, "claimq_depth", discipline="outbox",
                                queue="q", state="ready"), 1)
        self.assertEqual(sample(found, "claimq_processed_total", queue="q"), 0)
        self.assertEqual(sample(found, "claimq_depth", discipline="lane",
                                lane='a \\"b\\"\\\\\\n', state="ready"), 1)
        self.assertLessEqual({name for name, _ in found},
                             metrics.names(listening=False))

    def test_the_counts_are_those_of_the_board(self):
        self.fill()
        found = parse(self.printed())
        look = Look(self.path)
        self.addCleanup(look.close)
        _, totals, _ = look.fullest(100)
        for state in metrics.STATES:
            self.assertEqual(totals[state], sum(
                n for (name, labels), n in found.items()
                if name == "claimq_depth" and ("state", state) in labels
                and ("discipline", "dead_letter") not in labels), state)

    def test_a_file_without_jobs(self):
        found = parse(self.printed())
        self.assertEqual([name for name, _ in found],
                         ["claimq_counted_at_seconds"])

    def test_a_file_that_is_not_there(self):
        self.assertEqual(command("metrics", "none.db")[0], 3)
        self.assertEqual(command("metrics", "none.db", "--listen", ":0")[0], 3)
        self.assertEqual(command("metrics", self.path, "--listen",
                                 ":99999")[0], 2)

    def test_addresses(self):
        for text, wanted in (
                ("127.0.0.1:80", ("127.0.0.1", 80)), (":80", ("127.0.0.1", 80)),
                ("80", ("127.0.0.1", 80)), ("0.0.0.0", ("0.0.0.0", 9840)),
                ("localhost", ("localhost", 9840)), ("[::1]:80", ("::1", 80)),
                ("::1", ("::1", 9840)), ("[::]", ("::", 9840))):
            self.assertEqual(metrics.address(text), wanted, text)

    def serve(self):
        server = subprocess.Popen(
            [sys.executable, "-m", "claimq", "metrics", self.path, "--listen",
             "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server.stdout.readline().decode().strip()

    def ask(self, url):
        with urllib.request.urlopen(url, timeout=LIMIT) as answer:
            self.assertEqual(answer.headers["Content-Type"], metrics.TYPE)
            return answer.read().decode()

    def test_what_only_rises(self):
        now = 1000000
        self.submit("mail", "before", "now_ms", now)
        (_, claim, token), = self.sql(
            "SELECT job_id, claim_id, lease_token FROM claimq_lane('mail', 'w')"
            " WHERE now_ms=?", now)
        self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)", claim, token, now)
        url = self.serve()
        found = parse(self.ask(url))
        self.assertEqual(sample(found, "claimq_completed_total", lane="mail"),
                         0)

        def take(at, lease=HOUR):
            (claim, token), = self.sql(
                "SELECT claim_id, lease_token FROM claimq_lane('mail', 'w', ?)"
                " WHERE now_ms=?", lease, at)
            return claim, token

        # Waits 3 s; is retried after 2 s; is taken 100 s later, and given up;
        # is reclaimed after its lease, and completed after 7 s.
        self.submit("mail", "a", "now_ms", now)
        self.sql("SELECT claimq_retry(?, ?, 'no', 'delay_ms', 0, 'now_ms', ?)",
                 *take(now + 3000), now + 5000)
        take(now + 105000, lease=1000)
        self.sql("SELECT claimq_complete(?, ?, 'now_ms', ?)",
                 *take(now + 200000), now + 207000)
        self.submit("mail", "b", "now_ms", now + 300000)
        self.sql("SELECT claimq_reject(?, ?, 'no', 'now_ms', ?)",
                 *take(now + 300040), now + 300050)
        job = self.submit("mail", "c")
        self.sql("SELECT claimq_cancel(?)", job)
        self.sql("SELECT claimq_restored()")

        found = parse(self.ask(url))
        for name, n in (("completed", 1), ("failed", 1), ("cancelled", 1),
                        ("retried", 1), ("reclaimed", 1)):
            self.assertEqual(sample(found, "claimq_%s_total" % name,
                                    lane="mail"), n, name)
        for name, n, sum_of, buckets in (
                ("waiting", 2, 3.04, {"0.01": 0, "0.05": 1, "1.0": 1, "5.0": 2,
                                      "+Inf": 2}),
                ("running", 4, None, {"0.01": 1, "5.0": 2, "10.0": 3,
                                      "+Inf": 4})):
            name = "claimq_%s_seconds" % name
            self.assertEqual(sample(found, name + "_count", lane="mail"), n)
            if sum_of:
                self.assertEqual(sample(found, name + "_sum", lane="mail"),
                                 sum_of)
            for le, want in buckets.items():
                self.assertEqual(sample(found, name + "_bucket", lane="mail",
                                        le=le), want, (name, le))
        self.assertIsNone(sample(found, "claimq_cancelled_total", lane=""))
        self.assertLessEqual({name for name, _ in found}, metrics.names())
        self.assertLessEqual({name + "_total" for name in metrics.COUNTERS},
                             {name for name, _ in found})
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(url.replace("/metrics", "/else"))

    def test_another_file_is_put_there(self):
        self.submit("old", "x")
        self.sql("PRAGMA journal_mode=delete")
        url = self.serve()
        self.assertIn('lane="old"', self.ask(url))
        other = claimq.connect(self.path + "2")
        other.execute("SELECT claimq_submit('new', 'x')").fetchall()
        other.execute("PRAGMA journal_mode=delete").fetchall()
        other.close()
        os.replace(self.path + "2", self.path)
        self.assertIn('lane="new"', self.ask(url))

    def test_prometheus_reads_it(self):
        self.fill()
        try:
            importlib.import_module("prometheus_client")
        except ImportError:
            where = os.path.abspath("prometheus")
            try:
                subprocess.run(
                    [sys.executable, "-m", "pip", "install", "--quiet",
                     "--disable-pip-version-check", "--retries", "0",
                     "--timeout", "10", "--target", where,
                     "prometheus_client"],
                    check=True, capture_output=True, timeout=LIMIT,
                    stdin=subprocess.DEVNULL)
            except (OSError, subprocess.SubprocessError):
                self.skipTest("prometheus_client is not here, and PyPI cannot"
                              " be reached")
            sys.path.insert(0, where)
        from prometheus_client.openmetrics import parser
        for text in (self.printed(), self.ask(self.serve())):
            families = {family.name: family for family in
                        parser.text_string_to_metric_families(text)}
            self.assertEqual(families["claimq_depth"].type, "gauge")
            self.assertIn(
                {"discipline": "lane", "lane": 'a "b"\\\n', "state": "ready"},
                [one.labels for one in families["claimq_depth"].samples])
        self.assertEqual(families["claimq_waiting_seconds"].type, "histogram")

    def test_every_query_of_the_grafana_board_names_what_is_exported(self):
        file = pathlib.Path(claimq.__file__).with_name("grafana.json")
        board = json.loads(file.read_text(encoding="utf-8"))
        queries = [target["expr"] for panel in board["panels"]
                   for target in panel["targets"]]
        queries += [one["query"]["query"] for one
                    in board["templating"]["list"] if one["type"] == "query"]
        self.assertGreater(len(queries), 10)
        used = set()
        for query in queries:
            found = set(re.findall(r"\bclaimq_[a-z_]+", query))
            self.assertTrue(found, query)
            used |= found
        self.assertLessEqual(used, metrics.names())
        # And all that there is, is shown.
        self.assertLessEqual(metrics.names(), used)


run(Tests)
