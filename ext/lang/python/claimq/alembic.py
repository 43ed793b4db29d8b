"""For alembic's env.py: autogenerate leaves claimq's tables alone.

    from claimq.alembic import include_name

    context.configure(..., include_name=include_name)

Without it, autogenerate takes them for tables that were removed from the models
and writes a migration that drops them, with all that is queued.
"""


def include_name(name, type_, parent_names):
    return not (type_ == "table" and name.startswith("claimq"))
