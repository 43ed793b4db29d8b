"""kombu's own tests of transports, run against claimq's.

    python3 kombu_own.py DIRECTORY        kombu's source package, unpacked

Those for a broker that runs (t/integration/common.py, with MongoDB's version of
two tests, because a call of drain_events() delivers one message there, too), and
those that kombu has for its transport in memory, which get a file.  What is true
of other brokers only is left out, with the reason.
"""
import os
import pathlib
import re
import shutil
import sys

import kombu
import pytest

PORT = "it tells brokers apart by their port, and a file has none"
MEMORY = "it is about the variables of the transport in memory"
EARLIER = "it casts before a queue is bound: an earlier test has left one"
LEFT_OUT = {
    "test_failover_switches_to_alternate_url": PORT,
    "test_queue_for": MEMORY,
    "test_drain_events_unregistered_queue": MEMORY,
    "test_producer_on_return": "kombu's virtual channels return nothing",
    "test_reply__collect": "a queue for replies is deleted after the reply",
    "test_cast": EARLIER,
    "test_abcast": EARLIER,
    "test_call": EARLIER,
    "test_multi_call": EARLIER,
}
BROKER = '''
import itertools
import os
import claimq.celery
import kombu

numbers = itertools.count()


def url():
    return "claimq:///%s/%d.db" % (os.getcwd(), next(numbers))


def connection():
    return kombu.Connection(url())
'''
BROKERS = '''
import kombu
import pytest
import broker
from .common import (BaseEventLoop, BaseExchangeTypes, BaseFailover, BaseMessage,
                     BaseTimeToLive, BasicFunctionality)
from .test_mongodb import test_MongoDBPriority as Priority

NOWHERE = "claimq:////no/such/directory/broker.db"


@pytest.fixture
def connection():
    return broker.connection()


@pytest.fixture
def invalid_connection():
    return kombu.Connection(NOWHERE)


@pytest.fixture
def failover_connection():
    return kombu.Connection([NOWHERE, broker.url()])


class test_Basic(BasicFunctionality):
    pass


class test_EventLoop(BaseEventLoop):
    pass


class test_Exchanges(BaseExchangeTypes):
    pass


class test_Failover(BaseFailover):
    pass


class test_Messages(BaseMessage):
    pass


class test_Priority(Priority):
    pass


class test_TimeToLive(BaseTimeToLive):
    pass


del Priority
'''
IN_MEMORY = ("t/unit/transport/test_memory.py", "t/unit/test_simple.py",
             "t/unit/test_pidbox.py")


def change(file, *changes):
    text = file.read_text()
    for before, after in changes:
        assert before in text, "%s has no %s any more" % (file, before)
        text = text.replace(before, after)
    file.write_text(text)


def copy(source):
    """The tests, with claimq's broker, and with more patience."""
    shutil.rmtree("own", ignore_errors=True)
    shutil.copytree(os.path.join(source, "t"), "own/t")
    own = pathlib.Path("own")
    (own / "broker.py").write_text(BROKER)
    (own / "t/integration/test_claimq.py").write_text(BROKERS)
    change(own / "t/integration/common.py",
           ("deadline = monotonic() + 1\n", "deadline = monotonic() + 60\n"))
    for name in IN_MEMORY:
        change(own / name, ("Connection(transport='memory')",
                            "__import__('broker').connection()"))


class Report:
    passed = failed = left_out = 0

    def pytest_collection_modifyitems(self, items):
        for item in items:
            why = LEFT_OUT.get(item.originalname)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))

    def pytest_runtest_logreport(self, report):
        name = re.sub(r"^.*?(\w+)\.py::", r"\1.", report.nodeid)
        name = re.sub(r"[^\w.]+", ".", name)
        if report.skipped:
            print("left out", name, report.longrepr[2])
            self.left_out += 1
        elif report.failed:
            lines = report.longreprtext.splitlines()
            print("failed %s: %s" % (name, " | ".join(lines[-8:])))
            self.failed += report.when == "call"
        elif report.when == "call":
            print("ok", name)
            self.passed += 1


def main(source):
    copy(os.path.abspath(source))
    os.chdir("own")
    sys.path.insert(0, os.getcwd())
    report = Report()
    pytest.main(["-p", "no:cacheprovider", "-p",
                 "no:terminal", "-o", "python_classes=test_*",
                 "-W", "ignore", "t/integration/test_claimq.py", *IN_MEMORY],
                plugins=[report])
    print("note kombu %s's own tests of transports: %d ran, %d passed, %d left"
          " out" % (kombu.__version__, report.passed + report.failed,
                    report.passed, report.left_out))
    if report.passed:
        print("end")


if __name__ == "__main__":
    main(sys.argv[1])
