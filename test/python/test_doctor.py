"""claimq doctor: each finding is provoked, and has a cure."""
import os
import shutil
import sqlite3
import unittest.mock

import claimq
from claimq import doctor
from support import Case, command, command_json, run


class Tests(Case):
    def setUp(self):
        super().setUp()
        self.db.close()
        home = os.path.abspath(self.id().split(".")[-1])
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home + "/app")
        os.rename(self.path, home + "/app/app.db")
        self.path, self.home = home + "/app/app.db", home
        self.db = claimq.connect(self.path)
        self.addCleanup(self.db.close)

    def found(self, what, rows=None):
        """(state, found, cure) of one finding."""
        row, = [row for row in rows or doctor.examine(self.path)
                if row["what"] == what]
        if row["state"] == "bad":
            self.assertTrue(row["cure"])
        return row["state"], row["found"], row["cure"]

    def bad(self, what, text, rows=None):
        state, found, _ = self.found(what, rows)
        self.assertEqual(state, "bad", found)
        self.assertIn(text, found)

    def put(self, name, text):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def test_well(self):
        code, rows = command_json("doctor", self.path)
        self.assertEqual(code, 0)
        self.assertEqual([row for row in rows if row["state"] == "bad"], [])
        self.assertEqual([row["what"] for row in rows], [
            "python", "sqlite", "extension", "disk", "file", "journal",
            "synchronous", "busy timeout", "upkeep"])
        code, out, _ = command("doctor", self.path)
        self.assertEqual(code, 0)
        self.assertIn("ok    journal: wal\n", out)

    def test_python(self):
        class Connection:
            """Of a Python that was built without extensions."""
        with unittest.mock.patch("sqlite3.Connection", Connection):
            self.bad("python", "cannot load extensions")
            self.assertIn("pyenv", self.found("python")[2])

    def test_sqlite(self):
        with unittest.mock.patch("sqlite3.sqlite_version", "3.37.2"), \
                unittest.mock.patch("sqlite3.sqlite_version_info", (3, 37, 2)):
            self.bad("sqlite", "3.37.2")
        with unittest.mock.patch("sqlite3.sqlite_version_info", (3, 45, 1)):
            self.assertEqual(self.found("sqlite")[0], "note")

    def test_extension(self):
        with unittest.mock.patch("claimq.loadable_path",
                                 lambda: "/nowhere/claimq"):
            self.bad("extension", "/nowhere/claimq")

    def test_file(self):
        self.bad("file", "no such file", doctor.examine(self.path + "x"))
        self.assertFalse(os.path.exists(self.path + "x"))
        self.bad("file", "not a database", doctor.examine(__file__))
        sqlite3.connect("plain.db").close()
        self.bad("file", "no tables of claimq", doctor.examine("plain.db"))
        code, out, errors = command("doctor", self.path + "x")
        self.assertEqual((code, errors), (1, ""))
        self.assertIn("bad   file: ", out)
        self.assertIn("cure: ", out)

    def test_disk(self):
        home = os.path.realpath(self.home)
        with open("mounts", "w") as file:
            file.write("/dev/sda1 / ext4 rw 0 0\n"
                       "server:/export %s nfs4 rw 0 0\n"
                       "/dev/sdb1 %s/ap xfs rw 0 0\n" % (home, home))
        self.bad("disk", "nfs4", doctor.examine(self.path, "mounts"))
        with open("other mounts", "w", encoding="utf-8") as file:
            file.write("//server/x /a\\040b/\u00e9 cifs rw 0 0\n")
        self.bad("disk", "cifs", doctor.examine("/a b/\u00e9/app.db",
                                                "other mounts"))
        with open("mounts", "a") as file:
            file.write("/dev/sdc1 %s/app xfs rw 0 0\n" % home)
        self.assertEqual(self.found("disk", doctor.examine(
            self.path, "mounts"))[:2], ("ok", "xfs"))
        self.assertEqual(self.found("disk", doctor.examine(
            self.path, "no such mounts"))[0], "note")

    def test_journal(self):
        self.sql("PRAGMA journal_mode=delete")
        self.bad("journal", "delete")

    def test_log(self):
        self.submit("mail", "a")
        with unittest.mock.patch("claimq.doctor.LOG", 1000):
            self.bad("journal", "the log has")

    def test_connection(self):
        """What only the program itself can ask."""
        db = sqlite3.connect(self.path, timeout=0)
        self.addCleanup(db.close)
        rows = doctor.connection(db)
        self.bad("extension", "not loaded", rows)
        self.bad("busy timeout", "0 ms", rows)
        self.assertEqual(self.found("synchronous", rows)[0], "ok")
        claimq.load(db)
        db.execute("PRAGMA busy_timeout=5000").fetchall()
        db.execute("PRAGMA synchronous=NORMAL")
        rows = doctor.connection(db)
        self.assertEqual([row["state"] for row in rows], ["ok", "ok", "note"])
        db.execute("PRAGMA synchronous=OFF")
        self.bad("synchronous", "OFF", doctor.connection(db))
        self.db.close()
        db.execute("PRAGMA journal_mode=delete").fetchall()
        db.execute("PRAGMA synchronous=NORMAL")
        self.bad("synchronous", "NORMAL", doctor.connection(db))

    def test_upkeep(self):
        self.submit("mail", "a", "now_ms", 1000)
        (claim, token), = self.sql(
            "SELECT claim_id, lease_token FROM claimq_lane('mail', 'w')"
            " WHERE now_ms=2000")
        self.sql("SELECT claimq_complete(?, ?, 'now_ms', 3000)", claim,
                 token)
        self.assertEqual(self.found("upkeep")[0], "ok")
        with unittest.mock.patch("claimq.doctor.MANY", 1):
            self.bad("upkeep", "over 1 rows")
            self.assertIn("claimq vacuum", self.found("upkeep")[2])
            command("vacuum", self.path, "--older-than", "7d")
            self.assertEqual(self.found("upkeep")[0], "ok")

    def test_upkeep_others(self):
        """Messages that were processed, and letters that are settled."""
        self.sql("SELECT claimq_queue('q', 1)")
        for n in range(3):
            self.sql("SELECT claimq_publish('q', ?, 'now_ms', 1000)", n)
        (claim, token), *_ = self.sql(
            "SELECT claim_id, lease_token FROM claimq_outbox('q', 'w')"
            " WHERE now_ms=2000 AND max=2")
        self.sql("SELECT claimq_complete(?, ?, 'now_ms', 3000)", claim, token)
        self.assertIn("2 rows", self.found("upkeep")[1])
        self.sql("INSERT INTO claimq_letter(source, scope, ref, created_at_ms,"
                 " failed_at_ms, status) VALUES('lane', 'x', 1, 1, 1,"
                 " 'discarded'), ('lane', 'x', 2, 1, 1, 'pending')")
        self.assertIn("3 rows", self.found("upkeep")[1])
        command("vacuum", self.path)
        self.assertIn("0 rows", self.found("upkeep")[1])

    def test_alembic(self):
        self.put("migrations/env.py", "from alembic import context\n")
        self.bad("alembic", "migrations/env.py")
        self.assertIn("include_name", self.found("alembic")[2])
        self.put("migrations/env.py", "from alembic import context\n"
                 "include_name=... 'claimq'")
        self.assertEqual(self.found("alembic")[0], "ok")
        self.put("migrations/env.py", "another program's\n")
        self.assertNotIn("alembic", [row["what"] for row in
                                     doctor.examine(self.path)])

    def test_rails(self):
        self.put("app/Gemfile", "gem 'rails'\n")
        self.bad("rails", "Gemfile")
        self.put("app/Gemfile", "gem 'rails'\ngem 'claimq'\n")
        self.assertEqual(self.found("rails")[0], "ok")

    def test_drizzle(self):
        self.put("app/drizzle.config.ts", "export default {}\n")
        self.bad("drizzle", "drizzle.config.ts")
        self.assertIn("tablesFilter", self.found("drizzle")[2])

    def test_prisma(self):
        self.put("prisma/schema.prisma", 'provider = "sqlite"\n')
        self.bad("prisma", "schema.prisma")


run(Tests)
