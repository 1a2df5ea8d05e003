"""The folder and the repository of sessions, by which lists are filtered and grouped.

Workers compute those of the sessions that are there, see ``historyapp.services.list_columns``. The columns are
added as the database adds columns, which takes no time; Django would copy SQLite's table.
"""

from django.db import migrations, models

import historyapp.core.run_places
import historyapp.models.fields


def _add(name: str, field: models.Field) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"ALTER TABLE historyapp_session ADD COLUMN {name} text DEFAULT '' NOT NULL",
        f"ALTER TABLE historyapp_session DROP COLUMN {name}",
        state_operations=[migrations.AddField("session", name, field)],
    )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0045_annotations")]

    operations = [
        _add(
            "folder",
            historyapp.models.fields.ComputedText(
                blank=True,
                by=historyapp.core.run_places.folder_of,
                db_default="",
                default="",
                of="metadata",
            ),
        ),
        _add(
            "repository",
            historyapp.models.fields.ComputedText(
                blank=True,
                by=historyapp.core.run_places.repository_of,
                db_default="",
                default="",
                of="metadata",
            ),
        ),
        migrations.RunSQL(
            "UPDATE historyapp_session SET is_listed = false WHERE metadata <> '{}'", migrations.RunSQL.noop
        ),
    ]
