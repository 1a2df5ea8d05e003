"""Where in its parent's session a sub-agent was started. Sessions that are there have null until their transcript
or that of their parent is imported again.

The column is added as the database adds columns, which takes no time; Django would copy SQLite's table.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0034_turns")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE historyapp_session ADD COLUMN spawned_position integer NULL "
            "CHECK (spawned_position >= 0)",
            "ALTER TABLE historyapp_session DROP COLUMN spawned_position",
            state_operations=[
                migrations.AddField("session", "spawned_position", models.PositiveIntegerField(null=True))
            ],
        ),
        migrations.AddIndex(
            "session",
            models.Index(
                fields=["spawned_by", "spawned_position"],
                name="session_spawned_at",
                condition=models.Q(("spawned_position__isnull", False)),
            ),
        ),
    ]
