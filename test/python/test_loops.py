"""The loops of the Python package for an outbox, for sessions and for a
contest."""
import logging
import threading

import claimq
from support import HOUR, LIMIT, Case, run

logging.getLogger("claimq").propagate = False


class Loops(Case):
    def publish(self, *payloads, queue="q", partitions=1, partition=0):
        self.sql("SELECT claimq_queue(?, ?, 'backoff_ms', 0)", queue,
                 partitions)
        for payload in payloads:
            self.sql("SELECT claimq_publish(?, ?, 'partition', ?,"
                     " 'headers', '{\"h\":1}')", queue, payload, partition)

    def cursor(self, partition=0):
        return self.one("SELECT cursor FROM claimq_partition WHERE"
                        " partition=?", partition)

    #-----------------------------------------------------------------------
    # Outbox

    def test_a_batch_is_completed(self):
        self.publish("1", "[2]", "3")
        got = []

        def handler(batch):
            got.append((len(batch), batch.partition,
                        [(m.json, m.headers, m.row["seq"]) for m in batch]))

        self.assertEqual(claimq.Outbox(self.path, "q", handler).drain(), 1)
        self.assertEqual(got, [(3, 0, [(1, {"h": 1}, 1), ([2], {"h": 1}, 2),
                                       (3, {"h": 1}, 3)])])
        self.assertEqual(claimq.Outbox(self.path, "q", handler).drain(), 0)

    def test_what_is_done_does_not_come_again(self):
        self.publish(*"abcde")
        sent, fail = [], ["c", "c", "e"]

        def handler(batch):
            for message in batch:
                if fail and message.payload == fail[0]:
                    fail.pop(0)
                    raise ValueError(message.payload)
                sent.append(message.payload)
                batch.done(message)

        claimq.Outbox(self.path, "q", handler).drain()
        self.assertEqual((sent, fail), (list("abcde"), []))

    def test_done_counts_in_order(self):
        """Of a, b and c only c is done: all come again."""
        self.publish(*"abc")
        got = []

        def handler(batch):
            got.append("".join(m.payload for m in batch))
            if len(got) == 1:
                batch.done(batch.messages[2])
                raise claimq.Retry("again", delay_ms=0)

        self.sql("SELECT claimq_queue('q', 1, 'degrade', 0)")
        claimq.Outbox(self.path, "q", handler).drain()
        self.assertEqual(got, ["abc", "abc"])

    def test_reject_and_release(self):
        self.publish(*"abcd")
        got = []

        def handler(batch):
            got.append("".join(m.payload for m in batch))
            batch.done(batch.messages[0])
            if len(got) == 1:
                raise claimq.Release()
            raise claimq.Reject("poison")

        claimq.Outbox(self.path, "q", handler, max=3).drain()
        self.assertEqual(got, ["abc", "bcd"])
        self.assertEqual(self.sql("SELECT payload, reason FROM claimq_letter"),
                         [("c", "poison"), ("d", "poison")])

    def test_partitions_at_once(self):
        for partition in range(3):
            self.publish("x", "y", partitions=3, partition=partition)
        together = threading.Barrier(3, timeout=LIMIT)
        seen = []

        def handler(batch):
            together.wait()
            seen.append(batch.partition)

        loop = claimq.Outbox(self.path, "q", handler, concurrency=3)
        self.assertEqual(loop.drain(), 3)
        self.assertEqual(sorted(seen), [0, 1, 2])
        self.publish("z", partitions=3, partition=1)
        self.publish("z", partitions=3, partition=2)
        only = claimq.Outbox(self.path, "q", lambda batch: seen.append(
            batch.partition), partition=2)
        self.assertEqual((only.drain(), seen[3:]), (1, [2]))

    def test_a_loop_waits_and_is_stopped(self):
        self.publish()
        got, out = [], []
        loop = claimq.Outbox(self.path, "q", lambda batch: got.append(
            batch.messages[0].payload))
        thread = threading.Thread(target=lambda: out.append(loop.run()))
        thread.start()
        for payload in "ab":
            self.publish(payload)
            self.wait(lambda: got[-1:] == [payload])
        loop.stop()
        thread.join(LIMIT)
        self.assertEqual(out, [2])

    #-----------------------------------------------------------------------
    # Sessions

    def enqueue(self, session, *payloads):
        for payload in payloads:
            self.sql("SELECT claimq_enqueue(?, ?)", session, payload)

    def test_a_session_is_in_order(self):
        self.enqueue("s1", "a", "b")
        self.enqueue("s2", "x")
        self.enqueue("s1", "c")
        got, busy, lock = [], [], threading.Lock()

        def handler(turn):
            with lock:
                self.assertNotIn(turn.session, busy)
                busy.append(turn.session)
            got.append((turn.session, [m.payload for m in turn]))
            with lock:
                busy.remove(turn.session)

        loop = claimq.Session(self.path, handler, concurrency=3)
        self.assertEqual(loop.drain(), 4)
        self.assertEqual([rows for name, rows in got if name == "s1"],
                         [["a"], ["b"], ["c"]])
        self.assertIn(("s2", ["x"]), got)

    def test_a_session_that_fails_keeps_its_place_and_pauses(self):
        self.enqueue("s1", "a", "b")
        self.enqueue("s2", "x")
        got = []

        def handler(turn):
            got.append(turn.messages[0].payload)
            if turn.session == "s1":
                raise ValueError("no")

        claimq.Session(self.path, handler).drain()
        self.assertEqual(got, ["a", "x"])
        self.assertGreater(self.one(
            "SELECT available_at_ms - enqueued_at_ms FROM claimq_batch"
            " WHERE payload='a'"), 900)
        self.assertIn("ValueError: no", self.one(
            "SELECT last_error FROM claimq_batch WHERE payload='a'"))

    def test_one_session_and_commands(self):
        self.enqueue("s1", "a")
        self.enqueue("s2", "x")
        self.sql("SELECT claimq_enqueue('s2', 'stop', 'work_class',"
                 " 'session_command')")
        got = []
        claimq.Session(self.path, lambda turn: got.append(
            turn.messages[0].payload), session="s2").drain()
        self.assertEqual(got, ["x", "stop"])

    #-----------------------------------------------------------------------
    # Contests

    def test_one_holds_it(self):
        with claimq.Contest(self.path, "leader") as first:
            self.assertFalse(claimq.Contest(self.path, "leader").acquire(0))
            self.assertTrue(claimq.Contest(self.path, "leader",
                                           kind=1).acquire(0))
            self.assertEqual(self.sql("SELECT claimq_guard(?, ?)",
                                      *first.claim), [(1,)])
            first.check()
            self.assertFalse(first.lost.is_set())
            token = first.fencing_token
        second = claimq.Contest(self.path, "leader")
        self.assertTrue(second.acquire(0))
        self.assertGreater(second.fencing_token, token)
        second.release()
        second.release()
        self.assertTrue(second.acquire(LIMIT))
        second.release()

    def test_the_next_one_waits(self):
        first = claimq.Contest(self.path, "leader", lease_ms=HOUR)
        self.assertTrue(first.acquire())
        got, waiting = [], claimq.Contest(self.path, "leader")

        def wait():
            with waiting:
                got.append(waiting.fencing_token)

        thread = threading.Thread(target=wait)
        thread.start()
        first.release()
        thread.join(LIMIT)
        self.assertEqual(got, [first.fencing_token + 1])

    def test_it_is_renewed(self):
        with claimq.Contest(self.path, "leader", lease_ms=3000) as held:
            end = "SELECT expires_at_ms FROM claimq_leases"
            first = self.one(end)
            self.wait(lambda: held.lost.is_set() or self.one(end) > first)
            self.assertFalse(held.lost.is_set())

    def test_lost_is_seen_at_once(self):
        with claimq.Contest(self.path, "leader", lease_ms=600000) as held:
            self.sql("SELECT claimq_revoke(?)", held.claim[0])
            self.assertTrue(held.lost.wait(LIMIT))
            with self.assertRaises(claimq.Lost):
                held.check()

    def test_waiting_can_be_stopped(self):
        with claimq.Contest(self.path, "leader"):
            waiting, got = claimq.Contest(self.path, "leader"), []
            thread = threading.Thread(target=lambda: got.append(
                waiting.acquire()))
            thread.start()
            waiting.stop()
            thread.join(LIMIT)
            self.assertEqual(got, [False])


run(Loops)
