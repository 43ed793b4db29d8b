from django.core.management.base import BaseCommand, CommandError
from django.db import connections

import claimq
from claimq.django import _run


class Command(BaseCommand):
    help = "Runs the tasks of a claimq backend until SIGTERM or Ctrl-C."

    def add_arguments(self, parser):
        parser.add_argument("--queue-name", default=None, help=(
            "the queues, separated by commas: the first that has any is served "
            "first; all those of the backend if it is not given"))
        parser.add_argument("--backend", default="default", help=(
            "the name of the backend in TASKS (%(default)s)"))
        parser.add_argument("--concurrency", type=int, default=1, help=(
            "how many tasks are run at a time, in threads (%(default)s)"))
        parser.add_argument("--lease", type=float, default=30, help=(
            "seconds after which the task of a worker that was killed is run "
            "by another (%(default)s). A living worker renews its lease"))
        parser.add_argument("--batch", action="store_true", help=(
            "end when no task is due"))

    def handle(self, *, queue_name, backend, concurrency, lease, batch,
               **options):
        from claimq.django.backend import ClaimqBackend, task_backends
        name, backend = backend, task_backends[backend]
        if not isinstance(backend, ClaimqBackend):
            raise CommandError("TASKS[%r] is not claimq's backend" % name)
        lanes = queue_name.split(",") if queue_name else sorted(backend.queues)
        if not lanes:
            raise CommandError("the backend allows every queue: name them with "
                               "--queue-name")
        connection = connections[backend.database]
        if connection.vendor != "sqlite" or connection.is_in_memory_db():
            raise CommandError("a worker needs a database of SQLite in a file; "
                               "in tests there is claimq.django.run_due()")
        settings = connection.settings_dict
        worker = claimq.Worker(
            str(settings["NAME"]), lanes, _run.handler(backend),
            lease_ms=round(lease * 1000), concurrency=concurrency,
            timeout=settings["OPTIONS"].get("timeout", 30))
        if options["verbosity"] > 0:
            self.stdout.write("worker %s: %s" % (worker.owner,
                                                 ", ".join(lanes)))
        begun = worker.drain() if batch else worker.run()
        if options["verbosity"] > 0:
            self.stdout.write("%d tasks were begun" % begun)
