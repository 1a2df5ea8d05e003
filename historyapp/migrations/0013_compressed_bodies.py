"""SQLite keeps long bodies and excerpts compressed: a step takes half of the disk.

What any reader is given stays the same. Old rows are written again in batches, each in a transaction that also
takes the trigger on updates away and puts it back; stopped at any point, the next start goes on from there.
PostgreSQL compresses long values itself.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from historyapp.models.fields import PackedJSON, PackedText, pack, unpack

COLUMNS = (("historyapp_episode", "excerpt"), ("historyapp_entry", "body"))
ROWS_AT_ONCE = 1000
SPARE = 2.5
"""Free disk that VACUUM needs, in sizes of the database: it writes it twice."""


def compress(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rewrite(schema_editor.connection, "text", pack)


def decompress(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rewrite(schema_editor.connection, "blob", unpack)


def _rewrite(connection: Any, stored_as: str, convert: Callable[[Any], str | bytes]) -> None:
    if connection.vendor != "sqlite":
        return
    changed = sum(_rewrite_column(connection, *column, stored_as, convert) for column in COLUMNS)
    name = connection.settings_dict["NAME"]
    path = Path(name)
    if changed and path.is_file() and shutil.disk_usage(path.parent).free > SPARE * path.stat().st_size:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")  # without it the pages stay as they are, half empty


def _rewrite_column(
    connection: Any, table: str, column: str, stored_as: str, convert: Callable[[Any], str | bytes]
) -> int:
    """How many rows there were to write."""
    changed, last = 0, 0
    while True:
        with transaction.atomic(connection.alias), connection.cursor() as cursor:
            cursor.execute(
                f"SELECT rowid, {column} FROM {table} WHERE rowid > %s AND typeof({column}) = %s "
                f"AND length({column}) > 100 ORDER BY rowid LIMIT {ROWS_AT_ONCE}",
                [last, stored_as],
            )
            rows = cursor.fetchall()
            if not rows:
                return changed
            cursor.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s "
                "AND sql LIKE '%%BEFORE UPDATE%%'",
                [table],
            )
            triggers = cursor.fetchall()
            for name, _ in triggers:
                cursor.execute(f"DROP TRIGGER {name}")
            values = [(convert(value), rowid) for rowid, value in rows]
            cursor.executemany(f"UPDATE {table} SET {column} = %s WHERE rowid = %s", values)
            for _, statement in triggers:
                cursor.execute(statement)
            changed, last = changed + len(rows), rows[-1][0]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("historyapp", "0012_no_replace")]

    operations = [
        migrations.RunPython(compress, decompress, atomic=False),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("entry", "body", PackedJSON()),
                migrations.AlterField("episode", "excerpt", PackedText(null=True)),
            ]
        ),
    ]
