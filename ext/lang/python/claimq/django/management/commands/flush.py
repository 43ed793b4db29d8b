"""Django's flush, which TransactionTestCase calls, too; and the queue is empty
after it.  (Django's own leaves models alone that are not managed, and a DELETE
could not remove what a worker holds.)"""
from django.core.management.commands import flush
from django.db import connections, transaction

from claimq.django import _tables


class Command(flush.Command):
    def handle(self, **options):
        connection = connections[options["database"]]
        ops = connection.ops
        flush = ops.execute_sql_flush

        def flush_both(statements):
            with transaction.atomic(using=connection.alias):
                flush(statements)
                _tables.empty(connection)

        if connection.vendor == "sqlite":
            ops.execute_sql_flush = flush_both      # when it is confirmed
        try:
            super().handle(**options)
        finally:
            ops.execute_sql_flush = flush
