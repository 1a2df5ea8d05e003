"""What the list of sessions is sorted by, and the strip of outcomes in its rows.

Workers compute the columns of the sessions that are there, see ``historyapp.services.list_columns``. They are
added as the database adds columns, which takes no time; Django would copy SQLite's table.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import historyapp.models.fields

_COLUMNS = ("created_at", "duration", "steps", "errors", "likely_failures", "shown_tokens", "money", "model")


def _add(name: str, definition: str, field: models.Field) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"ALTER TABLE historyapp_session ADD COLUMN {name} {definition} NOT NULL",
        f"ALTER TABLE historyapp_session DROP COLUMN {name}",
        state_operations=[migrations.AddField("session", name, field)],
    )


def _count(name: str, kind: str, field: type[models.Field]) -> migrations.RunSQL:
    return _add(name, f"{kind} DEFAULT 0 CHECK ({name} >= 0)", field(db_default=0, default=0))


class Migration(migrations.Migration):
    dependencies = [
        ("historyapp", "0041_day_figures"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        _count("likely_failures", "integer", models.PositiveIntegerField),
        _count("duration", "bigint", models.PositiveBigIntegerField),
        _count("shown_tokens", "bigint", models.PositiveBigIntegerField),
        _count("money", "bigint", models.PositiveBigIntegerField),
        _add("strip", "text DEFAULT ''", models.TextField(db_default="", default="")),
        _add("is_listed", "boolean DEFAULT false", models.BooleanField(db_default=False, default=True)),
        *(
            migrations.AddIndex(
                "session",
                models.Index(fields=["project", f"-{column}", "-id"], name=f"session_by_{column}"),
            )
            for column in _COLUMNS
        ),
        migrations.AddIndex(
            "session",
            models.Index(fields=["id"], name="session_unlisted", condition=models.Q(is_listed=False)),
        ),
        migrations.CreateModel(
            name="ListPreference",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("columns", historyapp.models.fields.JSONText(default=list)),
                ("order", models.CharField(default="", max_length=30)),
            ],
        ),
    ]
