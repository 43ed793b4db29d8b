"""The tasks of test_celery.py.  BROKER, OPTIONS (JSON) and DATABASE are in the
environment."""
import json
import os
import time

import claimq
import claimq.celery
from celery import Celery

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(
    task_acks_late=True, task_ignore_result=True,
    broker_connection_retry_on_startup=False,
    broker_transport_options=json.loads(os.environ.get("OPTIONS", "{}")))


@app.task
def note(file, text):
    with open(file, "a") as log:
        log.write("%s\n" % text)


@app.task(bind=True)
def again(self, file):
    note(file, "attempt %d" % self.request.retries)
    if self.request.retries < 2:
        raise self.retry(countdown=0.01)


@app.task
def begin(file):
    """Goes on when there is a second file."""
    note(file, "begun")
    while not os.path.exists(file + ".go"):
        time.sleep(0.02)
    note(file, "ended")


@app.task
def ship(number, file):
    """The first attempt is killed after it has written."""
    db = claimq.connect(os.environ["DATABASE"])
    with claimq.transaction(db):
        db.execute("INSERT INTO shipped VALUES (?)", [number])
        _be_killed(file)
        if app.connection().transport_cls == "claimq":
            claimq.celery.complete(db)
    db.close()


def _be_killed(file):
    if not os.path.exists(file):
        open(file, "w").close()
        time.sleep(600)
