"""claimq's tables for SQLAlchemy: to read, and to add work.

    from claimq.sqlalchemy import Job

    session.add(Job(lane="mail", payload="order 42"))

is a plain INSERT: the connection need not have the extension, and the job
belongs to the transaction of the session.  Of a job that is there, only
`payload` and `headers` can be changed; for the rest there are claimq's
functions.  The columns are those of the manual (ext/doc/tables.md), and times
are milliseconds since 1970.

The models have a registry and metadata of their own, so create_all() and alembic
with yours leave the tables alone: claimq_init() creates them.
"""
from sqlalchemy import Column, FetchedValue, Integer, MetaData, Table, Text
from sqlalchemy.orm import foreign, registry, relationship
from sqlalchemy.types import UserDefinedType

__all__ = ["Attempt", "Job", "Letter", "metadata"]

metadata = MetaData()
_models = registry(metadata=metadata)


class Value(UserDefinedType):
    """Any value that SQLite has, as it is: text, bytes, a number, or None."""
    cache_ok = True

    def get_col_spec(self, **_):
        return "ANY"


def _columns(kind, names, **options):
    return [Column(name, kind, **options) for name in names.split()]


def _kept(kind, names):
    """Columns that SQLite or claimq fills: an INSERT leaves them out."""
    return [Column(name, kind, server_default=FetchedValue())
            for name in names.split()]


@_models.mapped
class Attempt:
    """A view: the attempts at a job, `job.history`."""
    __table__ = Table(
        "claimq_attempt", metadata,
        *_columns(Integer, "job_id attempt_index", primary_key=True),
        *_columns(Text, "owner outcome error error_class"),
        *_columns(Integer, "started_at_ms ended_at_ms expires_at_ms"))


@_models.mapped
class Job:
    __table__ = Table(
        "claimq_job", metadata, Column("job_id", Integer, primary_key=True),
        Column("lane", Text, nullable=False),
        *_columns(Value, "payload"),
        *_columns(Text, "headers group_key source_key flow_id namespace"
                  " instance_tag"),
        *_columns(Integer, "available_at_ms max_attempts backoff_ms"
                  " backoff_factor backoff_max_ms max_reclaims max_runtime_ms"),
        *_kept(Integer, "priority partition created_at_ms"),
        *_kept(Text, "capabilities reclaim admission"),
        # What follows is written by claimq.
        *_kept(Integer, "attempt_index retry_count reclaim_count fencing_token"
               " attempts claimed_at_ms expires_at_ms terminal_at_ms"),
        *_kept(Text, "state owner last_error error_class settled_by"),
        *_kept(Value, "progress result"))
    __mapper_args__ = {"eager_defaults": False}
    history = relationship(
        Attempt, order_by=Attempt.__table__.c.attempt_index, viewonly=True,
        primaryjoin=foreign(Attempt.__table__.c.job_id)
        == __table__.c.job_id)

    def __repr__(self):
        return "<job %s of %s>" % (self.job_id, self.lane)


@_models.mapped
class Letter:
    """A dead letter: work that has failed for good."""
    __table__ = Table(
        "claimq_letter", metadata,
        Column("letter_id", Integer, primary_key=True),
        *_columns(Text, "source scope headers reason error_class status"),
        *_columns(Integer, "created_at_ms failed_at_ms attempts"),
        *_columns(Value, "ref payload requeued_as"))

    def __repr__(self):
        return "<letter %s of %s>" % (self.letter_id, self.scope)
