import logging

from django.apps import AppConfig
from django.core import checks
from django.db.backends.signals import connection_created

import claimq

log = logging.getLogger("claimq")
_said = set()           # what was logged, once


def load(connection, **_):
    """Load the extension into every connection to SQLite.  One that cannot
    have it can still read, and enqueue: the checks say what is missing."""
    if connection.vendor == "sqlite":
        try:
            claimq.load(connection.connection)
        except Exception as error:
            if str(error) not in _said:
                _said.add(str(error))
                log.warning("claimq was not loaded: %s", error)


class ClaimqConfig(AppConfig):
    name = "claimq.django"
    label = "claimq"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        from . import checks as ours
        connection_created.connect(load, dispatch_uid="claimq")
        checks.register(ours.settings)
        checks.register(ours.file, checks.Tags.database)
