"""What a step's first call is about, and whether its results look like a failure that nobody reported.

The columns are added as the database adds columns, which takes no time; Django would copy SQLite's table once
for each. Rows that are there keep the defaults until ``rebuild_projections`` reads their entries.
"""

from django.db import migrations, models

_TEXTS = {"kind": 10, "target": 200, "likely_failure": 40, "error_line": 200}
_TABLE = "historyapp_episode"


def _texts():
    for name, length in _TEXTS.items():
        yield migrations.RunSQL(
            f"ALTER TABLE {_TABLE} ADD COLUMN {name} varchar({length}) DEFAULT '' NOT NULL",
            f"ALTER TABLE {_TABLE} DROP COLUMN {name}",
            state_operations=[
                migrations.AddField(
                    "episode", name, models.CharField(blank=True, db_default="", max_length=length)
                )
            ],
        )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0023_partitions")]

    operations = [
        *_texts(),
        migrations.RunSQL(
            f"ALTER TABLE {_TABLE} ADD COLUMN total_likely_failures integer DEFAULT 0 NOT NULL "
            "CHECK (total_likely_failures >= 0)",
            f"ALTER TABLE {_TABLE} DROP COLUMN total_likely_failures",
            state_operations=[
                migrations.AddField(
                    "episode", "total_likely_failures", models.PositiveIntegerField(db_default=0)
                )
            ],
        ),
        migrations.AddIndex(
            "episode",
            models.Index(
                condition=models.Q(("likely_failure__gt", "")),
                fields=["session", "number", "started_at"],
                name="episode_likely_failures",
            ),
        ),
    ]
