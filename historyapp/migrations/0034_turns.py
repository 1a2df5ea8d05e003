"""The turn of each step. Workers count the turns of the steps that are there, see ``historyapp.services.outcomes``.

The column is added as the database adds columns, which takes no time; Django would copy SQLite's table.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0033_relatives")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE historyapp_episode ADD COLUMN turn integer DEFAULT 0 NOT NULL CHECK (turn >= 0)",
            "ALTER TABLE historyapp_episode DROP COLUMN turn",
            state_operations=[
                migrations.AddField("episode", "turn", models.PositiveIntegerField(db_default=0))
            ],
        ),
        migrations.RunSQL("DELETE FROM historyapp_staleoutcomes", migrations.RunSQL.noop),
        migrations.RunSQL(
            "INSERT INTO historyapp_staleoutcomes (session_id, after) "
            "SELECT id, 0 FROM historyapp_session WHERE steps > 0 OR head > 0",
            migrations.RunSQL.noop,
        ),
    ]
