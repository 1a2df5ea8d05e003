"""What a search of sessions compares, in one column without case: databases differ about letters beyond ASCII."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

import historyapp.models.fields

OF = ("title", "agent", "tags_text")
_BATCH = 500


def fill(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    sessions = apps.get_model("historyapp", "Session")._default_manager
    for session in sessions.only("pk", *OF).iterator(_BATCH):
        folded = "\n".join(getattr(session, name) for name in OF).casefold()
        sessions.filter(pk=session.pk).update(search_text=folded)


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0006_episode_excerpts")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="search_text",
            field=historyapp.models.fields.FoldedText(blank=True, default="", of=OF),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
