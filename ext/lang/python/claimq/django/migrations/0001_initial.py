"""The tables are claimq's own, which claimq_init() creates, and brings up to date
where they are there.  Django keeps no account of their columns."""
from django.db import migrations
from django.db.migrations.state import ModelState

from claimq.django import _tables, models


def _on_sqlite(do):
    def run(_, editor):
        if editor.connection.vendor == "sqlite":
            do(editor.connection)
    return run


def _known(model):
    state = ModelState.from_model(model)
    return migrations.CreateModel(state.name, list(state.fields.items()),
                                  state.options)


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.RunPython(_on_sqlite(_tables.create),
                             _on_sqlite(_tables.drop)),
        *map(_known, (models.Job, models.Attempt, models.Letter))]
