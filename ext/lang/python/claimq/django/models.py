"""claimq's tables, for reading, and for adding work.

    Job.objects.create(lane="mail", payload="order 42")

is a plain INSERT: the connection need not have the extension, and the job
belongs to the transaction that is open.  Of a job that is there, only `payload`
and `headers` can be changed; for the rest there are claimq's functions.  The
columns are those of the manual (ext/doc/tables.md), and times are milliseconds
since 1970.
"""
from django.db import models

from ._tables import now_ms


class ValueField(models.Field):
    """Any value that SQLite has, as it is: text, bytes, a number, or None."""

    def db_type(self, connection):
        return "ANY"


def _text(**options):
    return models.TextField(null=True, blank=True, **options)


def _number(**options):
    return models.BigIntegerField(null=True, blank=True, **options)


class Job(models.Model):
    job_id = models.BigAutoField(primary_key=True)
    lane = models.TextField()
    payload = ValueField(null=True, blank=True)
    headers = _text()
    priority = models.BigIntegerField(default=0)
    partition = models.BigIntegerField(default=0)
    capabilities = models.TextField(default="[]")
    group_key = _text()
    source_key = _text()
    created_at_ms = models.BigIntegerField(default=now_ms)
    available_at_ms = _number()
    max_attempts = _number()
    backoff_ms = _number()
    backoff_factor = _number()
    backoff_max_ms = _number()
    max_reclaims = _number()
    max_runtime_ms = _number()
    reclaim = _text()
    admission = _text()
    flow_id = _text()
    namespace = _text()
    instance_tag = _text()
    # What follows is written by claimq.
    state = models.TextField(default="ready", editable=False)
    attempt_index = models.BigIntegerField(default=0, editable=False)
    retry_count = models.BigIntegerField(default=0, editable=False)
    reclaim_count = models.BigIntegerField(default=0, editable=False)
    fencing_token = models.BigIntegerField(default=0, editable=False)
    attempts = models.BigIntegerField(default=0, editable=False)
    owner = _text(editable=False)
    claimed_at_ms = _number(editable=False)
    expires_at_ms = _number(editable=False)
    terminal_at_ms = _number(editable=False)
    last_error = _text(editable=False)
    error_class = _text(editable=False)
    settled_by = _text(editable=False)
    progress = ValueField(null=True, editable=False)
    result = ValueField(null=True, editable=False)

    class Meta:
        managed = False
        db_table = "claimq_job"

    def __str__(self):
        return "job %s of %s" % (self.pk, self.lane)

    @property
    def is_held(self):
        """Does somebody work on it, under a lease that is not over?"""
        return (self.state == "active" and self.owner is not None
                and self.expires_at_ms > now_ms())


class Attempt(models.Model):
    """A view: the attempts at a job, `job.history`."""
    pk = models.CompositePrimaryKey("job_id", "attempt_index")
    job = models.ForeignKey(Job, models.DO_NOTHING, related_name="history")
    attempt_index = models.BigIntegerField()
    owner = _text()
    started_at_ms = _number()
    ended_at_ms = _number()
    expires_at_ms = _number()
    outcome = _text()
    error = _text()
    error_class = _text()

    class Meta:
        managed = False
        db_table = "claimq_attempt"


class Letter(models.Model):
    """A dead letter: work that has failed for good."""
    letter_id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    scope = models.TextField()
    ref = ValueField()
    payload = ValueField(null=True)
    headers = _text()
    created_at_ms = models.BigIntegerField()
    failed_at_ms = models.BigIntegerField()
    reason = _text()
    error_class = _text()
    attempts = models.BigIntegerField()
    status = models.TextField()
    requeued_as = ValueField(null=True)

    class Meta:
        managed = False
        db_table = "claimq_letter"

    def __str__(self):
        return "letter %s of %s" % (self.pk, self.scope)
