"""claimq.celery: the transport with kombu, and workers of Celery's.

    PYTHON=... python3 test_celery.py

PYTHON runs the workers.  The tasks are those of test/packages/celery/shop.py.
"""
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import claimq
import claimq.celery
import kombu
import sqlalchemy
import sqlalchemy.orm

from support import LIMIT, Case, run

PYTHON = os.environ.get("PYTHON", sys.executable)


class Transport(Case):
    def setUp(self):
        super().setUp()
        self.sql("CREATE TABLE orders(id)")
        self.broker = self.connection()

    def connection(self, **options):
        connection = kombu.Connection("claimq:///" + self.path,
                                      transport_options=options)
        self.addCleanup(connection.release)
        return connection

    def queue(self, name="mail", connection=None):
        return (connection or self.broker).SimpleQueue(name)

    def jobs(self):
        return self.sql("SELECT lane, state FROM claimq_job ORDER BY job_id")

    def check(self):
        self.assertEqual(self.sql("SELECT * FROM claimq_check"), [])

    def counts(self):
        return (self.one("SELECT count(*) FROM orders"),
                self.one("SELECT count(*) FROM claimq_job"))

    def test_the_order_and_its_message_both_or_neither(self):
        queue = self.queue()
        for end in None, ZeroDivisionError:
            try:
                with claimq.transaction(self.db), \
                        claimq.celery.using(self.db):
                    self.sql("INSERT INTO orders VALUES (1)")
                    queue.put("order 1")
                    if end:
                        raise end
            except ZeroDivisionError:
                pass
            self.assertEqual(self.counts(), (1, 1))
        queue.put("order 2")                    # no longer inside
        self.assertEqual(self.counts(), (1, 2))
        self.check()

    def test_a_message_in_a_session_of_sqlalchemy(self):
        """Without the extension, and before the broker has opened the file."""
        engine = sqlalchemy.create_engine("sqlite:///" + self.path)
        self.addCleanup(engine.dispose)
        insert = sqlalchemy.text("INSERT INTO orders VALUES (1)")
        queue = kombu.Queue("mail", kombu.Exchange("mail"), "mail")
        producer = self.broker.Producer(auto_declare=False)
        for end in "rollback", "commit":
            with sqlalchemy.orm.Session(engine) as session:
                session.execute(insert)
                with claimq.celery.using(session):
                    producer.publish("order", exchange="mail",
                                     routing_key="mail", declare=[queue])
                getattr(session, end)()
        self.assertEqual(self.counts(), (1, 1))
        self.assertEqual(self.queue().get(timeout=LIMIT).payload, "order")

    def test_a_message_on_a_connection_of_djangos(self):
        class Wrapper:
            connection = None

            def ensure_connection(wrapper):
                wrapper.connection = self.db

        queue = self.queue()
        self.sql("BEGIN")
        with claimq.celery.using(Wrapper()):
            queue.put("order")
        self.sql("ROLLBACK")
        self.assertEqual(self.counts(), (0, 0))

    def test_a_connection_to_another_file(self):
        queue = self.queue()
        other = claimq.connect(self.path + ".other")
        self.addCleanup(other.close)
        with self.assertRaisesRegex(ValueError, "broker are in .*other"):
            with claimq.celery.using(other):
                queue.put("x")
        self.assertEqual(self.jobs(), [])

    def test_an_error_inside_is_not_repeated_outside(self):
        """kombu would publish again, when the transaction is gone."""
        queue = self.queue()
        self.sql("CREATE TRIGGER t BEFORE INSERT ON claimq_job BEGIN"
                 " SELECT raise(ROLLBACK, 'no'); END")
        producer = self.broker.Producer()
        with self.assertRaises(Exception):
            with claimq.transaction(self.db), claimq.celery.using(self.db):
                producer.publish("x", routing_key="mail", retry=True)
        self.sql("DROP TRIGGER t")
        self.assertEqual(self.counts(), (0, 0))

    def test_what_is_no_broker(self):
        for url in ("claimq://", "claimq://app.db", "claimq:///:memory:",
                    "claimq://host/app.db"):
            with self.assertRaisesRegex(ValueError, "claimq:///app.db"):
                kombu.Connection(url).connect()

    def test_ack_reject_and_requeue(self):
        queue = self.queue()
        for n in 1, 2, 3:
            queue.put(n)
        self.assertEqual(len(queue), 3)
        first, second, third = (queue.get(timeout=LIMIT) for _ in "123")
        self.assertEqual(len(queue), 0)
        first.ack()
        second.reject()
        self.assertFalse(third.delivery_info["redelivered"])
        third.requeue()
        back = queue.get(timeout=LIMIT)
        self.assertEqual((back.payload, back.delivery_info["redelivered"]),
                         (3, True))
        self.assertEqual([state for _, state in self.jobs()],
                         ["completed", "failed", "active"])
        self.assertEqual(self.sql("SELECT scope, reason FROM claimq_letter"),
                         [("mail", "rejected by its consumer")])
        self.check()

    def test_an_ack_in_a_transaction(self):
        """What the consumer has written and its ack: both or neither."""
        queue = self.queue()
        queue.put("x")
        for end, state in ("ROLLBACK", "active"), ("COMMIT", "completed"):
            message = queue.get(timeout=LIMIT)
            self.sql("BEGIN IMMEDIATE")
            with claimq.celery.using(self.db):
                self.sql("INSERT INTO orders VALUES (1)")
                message.ack()
            self.sql(end)
            self.assertEqual(self.jobs(), [("mail", state)])
            self.sql("SELECT claimq_revoke(1)")     # or after a lease
        self.assertEqual(self.one("SELECT count(*) FROM orders"), 1)

    def test_closing_gives_back_what_is_held(self):
        queue = self.queue()
        queue.put("x")
        queue.get(timeout=LIMIT)
        self.assertEqual(self.jobs(), [("mail", "active")])
        self.broker.close()
        self.assertEqual(self.jobs(), [("mail", "ready")])

    def test_prefetch(self):
        queue = self.queue()
        for n in range(5):
            queue.put(n)
        got = []
        channel = self.broker.channel()
        consumer = kombu.Consumer(
            channel, [queue.queue(channel)], prefetch_count=2,
            callbacks=[lambda body, message: got.append(message)])
        with consumer:
            for n in 2, 3:
                while True:
                    try:
                        self.broker.drain_events(timeout=LIMIT)
                    except socket.timeout:
                        break
                self.assertEqual(len(got), n)
                self.assertEqual(self.one("SELECT count(*) FROM claimq_job"
                                          " WHERE state='active'"), 2)
                got[n - 2].ack()

    def test_what_is_held_is_renewed(self):
        queue = self.queue(connection=self.connection(visibility_timeout=1))
        queue.put("x")
        message = queue.get(timeout=LIMIT)
        lease = "SELECT expires_at_ms FROM claimq_job"
        first = self.one(lease)
        self.wait(lambda: self.one(lease) > first + 1000)
        message.ack()
        self.assertEqual(self.sql("SELECT state, reclaim_count"
                                  " FROM claimq_job"), [("completed", 0)])

    def test_an_ack_of_what_was_taken_over(self):
        queue = self.queue()
        queue.put("x")
        message = queue.get(timeout=LIMIT)
        self.sql("SELECT claimq_revoke(1)")
        with self.assertLogs("claimq", logging.WARNING) as logs:
            message.ack()
        self.assertIn("was taken over", logs.output[-1])
        self.assertEqual(queue.get(timeout=LIMIT).payload, "x")

    def test_priority_purge_and_several_queues(self):
        one, two = self.queue("one"), self.queue("two")
        for n in 0, 9, 5:
            one.put(n, priority=n)
        two.put("x")
        self.assertEqual(one.get(timeout=LIMIT).payload, 9)
        self.assertEqual((len(one), len(two)), (2, 1))
        self.assertEqual(one.clear(), 2)        # not what is held
        self.assertEqual((len(one), len(two)), (0, 1))
        self.check()

    def test_what_needs_no_ack_is_gone(self):
        queue = self.broker.SimpleQueue("mail", no_ack=True)
        queue.put("x")
        self.assertEqual(queue.get(timeout=LIMIT).payload, "x")
        self.assertEqual(self.jobs(), [])
        self.check()

    def test_what_is_too_old_is_passed_over(self):
        queue = self.queue()
        queue.put("old", expiration=0.001)
        queue.put("new", expiration=3600)
        at = self.one("SELECT max(created_at_ms) FROM claimq_job")
        self.wait(lambda: time.time() * 1000 > at + 1)
        self.assertEqual(queue.get(timeout=LIMIT).payload, "new")

    def test_what_is_no_message_becomes_a_dead_letter(self):
        queue = self.queue()
        for payload in "hello", "[]", '{"body": 1}', None:
            self.submit("mail", payload)
        queue.put("x")
        self.assertEqual(queue.get(timeout=LIMIT).payload, "x")
        self.assertEqual(self.sql("SELECT DISTINCT substr(reason, 1, 18),"
                                  " count(*) FROM claimq_letter"),
                         [("this is no message", 4)])

    def test_a_body_can_be_read_in_the_database(self):
        queue = self.queue()
        queue.put({"to": "Ä"})
        queue.put(b"\x00\xff", serializer="raw",
                  content_type="application/data", content_encoding="binary")
        body = "SELECT payload ->> '$.body' FROM claimq_job ORDER BY job_id"
        self.assertEqual(json.loads(self.one(body)), {"to": "Ä"})
        self.assertEqual([queue.get(timeout=LIMIT).body for _ in "12"][1],
                         b"\x00\xff")

    def test_fanout_reaches_every_process(self):
        """Queues that were bound by other connections, until they expire."""
        exchange = kombu.Exchange("news", type="fanout")
        queues = [kombu.Queue(name, exchange, expires=expires)
                  for name, expires in (("a", None), ("b", 1), ("c", None))]
        for queue in queues:
            queue(self.connection().channel()).declare()
        producer = self.broker.Producer(exchange=exchange)
        producer.publish("one")
        self.assertEqual(sorted(self.jobs()),
                         [(name, "ready") for name in "abc"])
        self.sql("UPDATE claimq_kombu_binding SET expires_at_ms=1"
                 " WHERE expires_at_ms IS NOT NULL")
        producer.publish("two")
        kombu.Queue("d", exchange)(self.broker.channel()).declare()
        self.assertEqual(sorted(lane for lane, _ in self.jobs()),
                         ["a", "a", "c", "c"])
        queues[0](self.broker.channel()).declare()
        queues[0](self.broker.channel()).delete()
        producer.publish("three")
        self.assertEqual(sorted(lane for lane, _ in self.jobs()),
                         ["c", "c", "c", "d"])
        self.check()

    def test_a_queue_that_is_consumed_does_not_expire(self):
        exchange = kombu.Exchange("news", type="fanout")
        channel = self.broker.channel()
        queue = kombu.Queue("a", exchange, expires=1)(channel)
        with kombu.Consumer(channel, [queue], callbacks=[print]):
            self.sql("UPDATE claimq_kombu_binding SET expires_at_ms=1")
            with self.assertRaises(socket.timeout):
                self.broker.drain_events(timeout=0.01)
        self.assertGreater(self.one("SELECT expires_at_ms"
                                    " FROM claimq_kombu_binding"), 1)

    def test_a_fork_opens_its_own_connections(self):
        queue = self.queue()
        queue.put("parent")
        message = queue.get(timeout=LIMIT)
        child = os.fork()
        if child == 0:
            try:
                message.ack()           # it does not hold it
                queue.put("child")
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.jobs(), [("mail", "active"), ("mail", "ready")])
        message.ack()
        self.assertEqual(queue.get(timeout=LIMIT).payload, "child")
        self.check()

    def test_a_file_that_is_locked_is_tried_again(self):
        queue = self.queue(connection=self.connection(timeout=0.01))
        self.sql("BEGIN IMMEDIATE")
        with self.assertRaises(claimq.celery.Trouble):
            queue.channel.store.put("mail", {}, 0)
        self.sql("COMMIT")
        queue.put("x")
        self.assertEqual(queue.get(timeout=LIMIT).payload, "x")


class Worker(Case):
    """Celery's own worker."""
    patience = 3 * LIMIT

    def setUp(self):
        super().setUp()
        self.sql("CREATE TABLE orders(id)")
        self.sql("CREATE TABLE shipped(id)")
        self.file = self.path + ".file"
        for name in self.file, self.file + ".go":
            if os.path.exists(name):
                os.remove(name)
        self.around = {"BROKER": "claimq:///" + self.path, "OPTIONS": "{}",
                       "DATABASE": self.path}

    def program(self, *arguments, **around):
        return subprocess.Popen(
            [PYTHON, "-W", "ignore", *arguments], start_new_session=True,
            env={**os.environ, **self.around, **around},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)

    def output(self, *arguments, **around):
        process = self.program(*arguments, **around)
        out = process.communicate(timeout=2 * LIMIT)[0].decode()
        self.assertEqual(process.returncode, 0, out)
        return out

    def tasks(self, code, **around):
        """Run code that has the tasks."""
        return self.output("-c", "import claimq, claimq.celery, shop, sys\n"
                           + code, **around)

    def worker(self, *arguments, app="shop", **around):
        process = self.program("-m", "celery", "-A", app, "worker",
                               "--pidfile=", "-l", "warning", *arguments,
                               **around)
        self.addCleanup(self.kill, process)
        return process

    def kill(self, process):
        """The worker and the processes of its pool."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        if not process.stdout.closed:
            process.communicate()

    def lines(self):
        try:
            with open(self.file) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def test_tasks_of_several_queues(self):
        """With priority, delayed, retried, asked from afar; and SIGTERM lets a
        task end."""
        self.tasks("""
file = %r
shop.note.delay(file, 'plain')
shop.note.apply_async([file, 'mail'], queue='mail')
shop.note.apply_async([file, 'urgent'], priority=9)
shop.note.apply_async([file, 'later'], countdown=0.5)
shop.note.apply_async([file, 'never'], countdown=3600)
shop.again.delay(file)
""" % self.file)
        self.assertEqual(self.sql("SELECT count(*), sum(available_at_ms -"
                                  " created_at_ms > 3500000) FROM claimq_job"
                                  " WHERE available_at_ms > created_at_ms"),
                         [(2, 1)])
        worker = self.worker("-c", "2", "-Q", "celery,mail", "-n", "w@here")
        self.wait(lambda: len(self.lines()) == 7)
        self.assertEqual(sorted(self.lines()), [
            "attempt 0", "attempt 1", "attempt 2", "later", "mail", "plain",
            "urgent"])
        # A second question needs the queue for replies again.
        self.assertEqual(self.tasks("""
for _ in 1, 2:
    print(shop.app.control.ping(timeout=%d, limit=1))
""" % LIMIT), "[{'w@here': {'ok': 'pong'}}]\n" * 2)
        self.tasks("shop.begin.delay(%r)" % self.file)
        self.wait(lambda: self.lines()[-1] == "begun")
        worker.send_signal(signal.SIGTERM)
        open(self.file + ".go", "w").close()
        out = worker.communicate(timeout=2 * LIMIT)[0].decode()
        self.assertEqual((worker.returncode, self.lines()[-1]), (0, "ended"),
                         out)
        self.assertEqual(self.sql(
            "SELECT state, count(*) FROM claimq_job GROUP BY 1"),
            [("completed", 8), ("ready", 1)])
        self.assertEqual(self.sql("SELECT * FROM claimq_check"), [])

    def test_a_killed_worker_and_its_task(self):
        """The order and its task are one transaction, and so are what the task
        writes and the end of its message."""
        self.tasks("""
db = claimq.connect(%r)
for end in 0, 1:
    try:
        with claimq.transaction(db), claimq.celery.using(db):
            db.execute("INSERT INTO orders VALUES (42)")
            shop.ship.delay(42, %r)
            1 / end
    except ZeroDivisionError:
        pass
""" % (self.path, self.file))
        options = json.dumps({"visibility_timeout": 2})
        first = self.worker("-c", "1", OPTIONS=options)
        self.wait(lambda: os.path.exists(self.file))
        until = self.one("SELECT expires_at_ms FROM claimq_job")
        self.kill(first)
        self.worker("-c", "1")
        self.wait(lambda: self.one("SELECT state FROM claimq_job")
                  == "completed")
        started, = self.sql("SELECT started_at_ms FROM claimq_attempt"
                            " WHERE outcome='success'")[0]
        self.assertGreaterEqual(started, until)
        self.assertEqual(self.sql("SELECT *, (SELECT count(*) FROM orders)"
                                  " FROM shipped"), [(42, 1)])
        self.assertEqual(self.sql("SELECT outcome FROM claimq_attempt"),
                         [("interrupted_reclaimed",), ("success",)])
        self.assertEqual(self.sql("SELECT * FROM claimq_check"), [])

    def test_a_killed_worker_beside_it(self):
        """The same with kombu's own transport for databases: its outcome is
        printed."""
        beside = {"BROKER": "sqla+sqlite:///%s.beside" % self.path}
        if os.path.exists(self.path + ".beside"):
            os.remove(self.path + ".beside")
        self.tasks("shop.ship.delay(42, %r)" % self.file, **beside)
        first = self.worker("-c", "1", **beside)
        self.wait(lambda: os.path.exists(self.file))
        self.kill(first)
        self.worker("-c", "1", **beside)
        self.tasks("shop.note.delay(%r, 'after')" % self.file, **beside)
        self.wait(self.lines)           # the second worker works
        time.sleep(2)                   # the lease that the test above has
        print("note kombu's sqlalchemy transport after kill -9: done %d times;"
              " claimq: once" % self.one("SELECT count(*) FROM shipped"))

    def test_the_programs_of_the_readme(self):
        with open(os.environ["CLAIMQ_README"], encoding="utf-8") as file:
            text = file.read().partition("\n## Celery\n")[2]
        shop, ship = re.findall(r"(?ms)^```python\n(.*?)^```$", text)[:2]
        here = os.path.abspath("readme")
        os.makedirs(here, exist_ok=True)
        for name in os.listdir(here):
            if name.startswith("app.db"):
                os.remove(os.path.join(here, name))
        with open(os.path.join(here, "readme_shop.py"), "w") as file:
            file.write("import os\nos.chdir(%r)\n" % here + shop + ship)
        paths = {"PYTHONPATH": here + ":" + os.environ["PYTHONPATH"]}
        self.output("-c", "import readme_shop as shop, claimq\n"
                    "db = claimq.connect('app.db')\n"
                    "db.execute('CREATE TABLE orders(id)')\n"
                    "db.execute('CREATE TABLE shipped(id)')\n"
                    "shop.buy(42); shop.ship.delay(42)", **paths)
        worker = self.worker("-c", "1", app="readme_shop", **paths)
        db = claimq.connect(os.path.join(here, "app.db"))
        self.addCleanup(db.close)
        self.wait(lambda: db.execute(
            "SELECT count(*) FROM claimq_job WHERE state='completed'"
        ).fetchall() == [(2,)])
        worker.send_signal(signal.SIGTERM)
        self.assertIn("mail for order 42", worker.communicate()[0].decode())
        self.assertEqual(db.execute("SELECT * FROM orders, shipped").fetchall(),
                         [(42, 42)])


run(Transport, Worker)
