"""The types of the Python package, for mypy --strict.  This is not run, but
compiled: what is wrong on purpose has a comment, which mypy wants to need."""
from typing import Any, Dict, List

import claimq


class Mail(Dict[str, str]):
    pass


def send(job: claimq.Job[Mail]) -> str:
    count: int = job.step("count", lambda: len(job.json["to"]))
    wrong: str = job.step("count", lambda: 1)  # type: ignore[assignment]
    number: int = job.json["to"]  # type: ignore[assignment]
    headers: Dict[str, Any] = job.headers
    if job.lost.is_set() or headers:
        raise claimq.Release(delay_ms=5)
    return "%s %d %s %d" % (job.json["to"], count, wrong, number)


def other(job: claimq.Job[List[int]]) -> None:
    raise claimq.Retry("later", delay_ms=1.5)


db = claimq.connect("app.db", timeout=1)
with claimq.transaction(db) as same:
    same.execute("SELECT 1")
claimq.submit(db, "mail", {"to": "ann"}, task="welcome", max_attempts=3)
worker = claimq.Worker[Mail]("app.db", ["urgent", "mail"], send, concurrency=4)
worker.task("numbers", other)
claimq.Worker[Mail]("app.db", "mail", other)  # type: ignore[arg-type]
claimq.Worker("app.db", "mail", send, concurency=2)  # type: ignore[call-arg]


@worker.task("welcome")
def welcome(job: claimq.Job[Mail]) -> None:
    print(job.json["to"])


begun: int = worker.drain()


def relay(batch: claimq.Batch[Mail]) -> None:
    for message in batch:
        print(message.json["to"])
        batch.done(message)


def talk(turn: claimq.Turn[Mail]) -> None:
    print(turn.session, [message.json for message in turn])


claimq.Outbox("app.db", "orders", relay, max=10).run()
claimq.Session("app.db", talk).run()
with claimq.Contest("app.db", "leader") as leader:
    token: int = leader.fencing_token
