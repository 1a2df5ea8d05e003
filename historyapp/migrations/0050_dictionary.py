"""SQLite compresses bodies and excerpts with a dictionary, which makes them a tenth smaller.

Rows that are stored already stay as they are, and are read as before. An earlier version does not have the
dictionary, so going back stores the texts without compression.
"""

from typing import Any

from django.db import migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from historyapp.models.fields import unpack

COLUMNS = (("historyapp_episode", "excerpt"), ("historyapp_entry", "body"))
ROWS_AT_ONCE = 1000


def decompress(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    if connection.vendor != "sqlite":
        return
    for table, column in COLUMNS:
        last: int | None = 0
        while last is not None:
            last = _decompress_some(connection, table, column, last)


def _decompress_some(connection: Any, table: str, column: str, after: int) -> int | None:
    """The last row that was written, or None if there are none left.

    The transaction takes the trigger on updates away and puts it back.
    """
    with transaction.atomic(connection.alias), connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid, {column} FROM {table} WHERE rowid > %s AND typeof({column}) = 'blob' "
            f"ORDER BY rowid LIMIT {ROWS_AT_ONCE}",
            [after],
        )
        rows = cursor.fetchall()
        if not rows:
            return None
        cursor.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s "
            "AND sql LIKE '%%BEFORE UPDATE%%'",
            [table],
        )
        triggers = cursor.fetchall()
        for name, _ in triggers:
            cursor.execute(f"DROP TRIGGER {name}")
        cursor.executemany(
            f"UPDATE {table} SET {column} = %s WHERE rowid = %s",
            [(unpack(text), rowid) for rowid, text in rows],
        )
        for _, statement in triggers:
            cursor.execute(statement)
        return int(rows[-1][0])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("historyapp", "0049_bulk_actions")]

    operations = [migrations.RunPython(migrations.RunPython.noop, decompress, atomic=False)]
