"""The index of a search across sessions, see ``historyapp.models.search_steps``. Workers fill it."""

import django.db.models.deletion
import historyapp.models.fields
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_FTS5 = """
CREATE VIRTUAL TABLE historyapp_searchwords
USING fts5(tokens, content='', columnsize=0, tokenize='ascii')
"""
_POSTGRES = (
    "ALTER TABLE historyapp_searchstep ADD COLUMN words tsvector",
    "CREATE INDEX search_words ON historyapp_searchstep USING gin (words)",
)
_COMPRESSIONS = "SELECT enumvals::text LIKE '%lz4%' FROM pg_settings WHERE name = 'default_toast_compression'"


def make_text_index(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    with schema_editor.connection.cursor() as cursor:
        if schema_editor.connection.vendor == "sqlite":
            cursor.execute(_FTS5)
            return
        for statement in _POSTGRES:
            cursor.execute(statement)
        cursor.execute(_COMPRESSIONS)
        if cursor.fetchone() == (True,):
            cursor.execute("ALTER TABLE historyapp_searchstep ALTER COLUMN words SET COMPRESSION lz4")


def drop_text_index(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "sqlite":
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("DROP TABLE historyapp_searchwords")


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0042_session_lists")]

    operations = [
        migrations.CreateModel(
            name="SearchProgress",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="historyapp.project",
                    ),
                ),
                ("cursor", models.CharField(max_length=50)),
                ("is_behind", models.BooleanField(default=True)),
                ("done_to", models.UUIDField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SearchStep",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_position", models.PositiveIntegerField()),
                ("last_position", models.PositiveIntegerField()),
                ("anchor", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("status", models.CharField(blank=True, max_length=20)),
                ("tools", models.CharField(blank=True, max_length=400)),
                ("checksum", models.PositiveIntegerField()),
                ("is_capped", models.BooleanField(default=False)),
                ("open_tokens", historyapp.models.fields.PackedText(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="historyapp.project",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="historyapp.session",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["project", "id"], name="search_step_newest")],
                "constraints": [
                    models.UniqueConstraint(fields=("session", "first_position"), name="search_step_once")
                ],
            },
        ),
        migrations.RunPython(make_text_index, drop_text_index),
    ]
