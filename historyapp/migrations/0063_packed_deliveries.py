"""SQLite stores the bodies and logs of new deliveries compressed, as it does entries.

The columns do not change, and rows of earlier versions remain as they are.
"""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from historyapp.models.fields import PackedJSON, PackedText, unpack

_ROWS_AT_ONCE = 1000


def keep(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Leaves the rows as they are."""


def decompress(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "sqlite":
        for column in ("body", "log"):
            with schema_editor.connection.cursor() as cursor:
                _decompress_column(cursor, column)


def _decompress_column(cursor: Any, column: str) -> None:
    rows = [(0, b"")]
    while rows:
        cursor.execute(
            f"SELECT id, {column} FROM historyapp_webhookdelivery WHERE id > %s "
            f"AND typeof({column}) = 'blob' ORDER BY id LIMIT {_ROWS_AT_ONCE}",
            [rows[-1][0]],
        )
        rows = cursor.fetchall()
        cursor.executemany(
            f"UPDATE historyapp_webhookdelivery SET {column} = %s WHERE id = %s",
            [(unpack(stored), id) for id, stored in rows],
        )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0062_words_of_searches")]

    operations = [
        migrations.RunPython(keep, decompress),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("webhookdelivery", "body", PackedText()),
                migrations.AlterField("webhookdelivery", "log", PackedJSON(default=list)),
            ]
        ),
    ]
