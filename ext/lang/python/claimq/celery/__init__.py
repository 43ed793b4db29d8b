"""A broker for Celery, and a transport for kombu: `claimq:///app.db`.

    import claimq.celery                # makes the name known to kombu
    from celery import Celery

    app = Celery("shop", broker="claimq:///app.db")     # absolute: four slashes

    with claimq.transaction(db), claimq.celery.using(db):
        db.execute("INSERT INTO orders VALUES (?)", [42])
        confirm.delay(42)               # the order and its task: both or neither

A queue is a lane, a message a job, an ack claimq_complete.  What a worker holds
is renewed, and comes back one lease after the worker was killed.
"""
from kombu.transport import TRANSPORT_ALIASES

import claimq

from ._store import Trouble, plain, using
from ._transport import Channel, Transport

__all__ = ["Channel", "Transport", "Trouble", "complete", "using"]

TRANSPORT_ALIASES["claimq"] = "claimq.celery:Transport"


def complete(db):
    """Inside a task: acknowledge its message in the transaction that is open on
    this connection, which has the extension.  What the task has written and the
    end of its message are committed together, so the work is done once even if
    the worker is killed right after.  The task must have acks_late.

    Raises the error claim_lost if the message is somebody else's by now."""
    from celery import current_task
    request = current_task and current_task.request
    if request and (request.is_eager or request.called_directly):
        return                          # there is no message
    claim = ((request and request.properties) or {}).get("claimq")
    if not claim:
        raise LookupError("no task whose message came from a claimq broker"
                          " runs here")
    claimq._rows(plain(db), "SELECT claimq_complete(?, ?)", claim)
