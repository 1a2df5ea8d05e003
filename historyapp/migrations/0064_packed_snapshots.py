"""SQLite stores the manifests, tools, summaries and settings of new snapshots compressed, as it does entries.

The columns do not change, and rows of earlier versions remain as they are.
"""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from historyapp.models.fields import PackedJSON, unpack

_ROWS_AT_ONCE = 1000
_COLUMNS = {
    "settings": PackedJSON(default=dict),
    "tools": PackedJSON(default=list),
    "summaries": PackedJSON(default=list),
    "manifest": PackedJSON(),
}


def keep(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Leaves the rows as they are."""


def decompress(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "sqlite":
        for column in _COLUMNS:
            with schema_editor.connection.cursor() as cursor:
                _decompress_column(cursor, column)


def _decompress_column(cursor: Any, column: str) -> None:
    rows = [("", b"")]
    while rows:
        cursor.execute(
            f"SELECT id, {column} FROM historyapp_snapshot WHERE id > %s "
            f"AND typeof({column}) = 'blob' ORDER BY id LIMIT {_ROWS_AT_ONCE}",
            [rows[-1][0]],
        )
        rows = cursor.fetchall()
        cursor.executemany(
            f"UPDATE historyapp_snapshot SET {column} = %s WHERE id = %s",
            [(unpack(stored), id) for id, stored in rows],
        )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0063_packed_deliveries")]

    operations = [
        migrations.RunPython(keep, decompress),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("snapshot", name, field) for name, field in _COLUMNS.items()
            ]
        ),
    ]
