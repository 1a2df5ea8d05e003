"""Where the turn of each step begins, and running totals: compactions, and steps by kind.

Workers count those of the steps that are there, see ``historyapp.services.outcomes``. The columns are added as
the database adds columns, which takes no time; Django would copy SQLite's table.
"""

from django.db import migrations, models

import historyapp.models.fields


def _add(name: str, definition: str, field: models.Field) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"ALTER TABLE historyapp_episode ADD COLUMN {name} {definition} NOT NULL",
        f"ALTER TABLE historyapp_episode DROP COLUMN {name}",
        state_operations=[migrations.AddField("episode", name, field)],
    )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0035_spawned_position")]

    operations = [
        _add(
            "turn_first",
            "integer DEFAULT 0 CHECK (turn_first >= 0)",
            models.PositiveIntegerField(db_default=0),
        ),
        _add(
            "compactions",
            "integer DEFAULT 0 CHECK (compactions >= 0)",
            models.PositiveIntegerField(db_default=0),
        ),
        _add(
            "kind_totals",
            "text DEFAULT '{}'",
            historyapp.models.fields.JSONText(db_default="{}", default=dict),
        ),
        migrations.RunSQL("DELETE FROM historyapp_staleoutcomes", migrations.RunSQL.noop),
        migrations.RunSQL(
            "INSERT INTO historyapp_staleoutcomes (session_id, after) "
            "SELECT id, 0 FROM historyapp_session WHERE steps > 0 OR head > 0",
            migrations.RunSQL.noop,
        ),
    ]
