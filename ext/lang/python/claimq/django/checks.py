"""manage.py check: what keeps tasks from being enqueued, or run, or makes them
wait for each other."""
import sqlite3

from django.core.checks import Error, Warning
from django.db import DEFAULT_DB_ALIAS, connections

import claimq


def databases():
    """The databases that have a queue: those of the backends, else the
    default."""
    found = set()
    try:
        from .backend import ClaimqBackend, task_backends
        found = {backend.database for backend in task_backends.all()
                 if isinstance(backend, ClaimqBackend)}
    except ImportError:                 # neither Django 6 nor django-tasks
        pass
    return sorted(found or {DEFAULT_DB_ALIAS})


def settings(**_):
    """What can be said without opening the database."""
    found = []
    for alias in databases():
        connection = connections[alias]
        where = "DATABASES[%r]" % alias
        if connection.vendor != "sqlite":
            found.append(Error(
                "%s is not SQLite, and claimq's tables are only there" % where,
                hint="Name another in OPTIONS: {'database': ...} of the "
                     "backend.", id="claimq.E002"))
            continue
        options = connection.settings_dict.get("OPTIONS", {})
        if options.get("transaction_mode") not in ("IMMEDIATE", "EXCLUSIVE"):
            found.append(Warning(
                "transactions of %s begin as readers" % where,
                hint="If another connection writes between the first read and "
                     "the first write of a transaction, it fails at once with "
                     "'database is locked', whatever the timeout. Set "
                     "OPTIONS: {'transaction_mode': 'IMMEDIATE'}.",
                id="claimq.W001"))
    try:
        db = sqlite3.connect(":memory:")
        try:
            claimq.load(db)
        finally:
            db.close()
    except Exception as error:
        found.append(Error(
            "the extension cannot be loaded: %s" % error,
            hint="Tasks can be enqueued without it, once the tables are there. "
                 "migrate and claimq_worker need it.",
            id="claimq.E001"))
    return found


def file(databases=None, **_):
    """With `check --database`, and before migrate: look at the file."""
    found = []
    for alias in set(databases or ()) & set(globals()["databases"]()):
        connection = connections[alias]
        if connection.vendor != "sqlite":
            continue
        with connection.cursor() as cursor:
            mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        if mode not in ("wal", "memory"):
            found.append(Warning(
                "the journal mode of DATABASES[%r] is %s" % (alias, mode),
                hint="With WAL, those who read and the one who writes do not "
                     "wait for each other: OPTIONS: {'init_command': "
                     "'PRAGMA journal_mode=wal'}.", id="claimq.W002"))
    return found
