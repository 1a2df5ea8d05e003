"""SQLite stores ids in changes as 16 bytes and times as integers, which saves 34 bytes for each change.

Rows are converted while the columns still have their former types, which SQLite does not enforce. The tables
that Django then copies have no gaps. PostgreSQL's types stay.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import django.utils.timezone
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from historyapp.models.fields import (
    CompactTime,
    CompactUUID,
    compact_time,
    compact_uuid,
    read_compact_time,
    read_compact_uuid,
)


def _store_compact(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _convert(
        schema_editor,
        str,
        lambda id: compact_uuid(UUID(id)),
        lambda at: compact_time(datetime.fromisoformat(at).replace(tzinfo=UTC)),
    )


def _store_text(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _convert(
        schema_editor,
        (bytes, int),
        lambda id: read_compact_uuid(id).hex,
        lambda at: str(read_compact_time(at).replace(tzinfo=None)),
    )


def _convert(
    schema_editor: BaseDatabaseSchemaEditor,
    former: type | tuple[type, ...],
    id: Callable[[Any], Any],
    at: Callable[[Any], Any],
) -> None:
    """Converts values that have the former type. Others, such as null, stay."""
    connection: Any = schema_editor.connection
    if connection.vendor != "sqlite":
        return
    connection.ensure_connection()
    for name, function in (("converted_id", id), ("converted_time", at)):
        connection.connection.create_function(
            name, 1, lambda value, by=function: by(value) if isinstance(value, former) else value
        )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE historyapp_change SET session_id = converted_id(session_id), "
            "run_id = converted_id(run_id), at = converted_time(at)"
        )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0051_summary_instruction")]

    operations = [
        migrations.RunPython(_store_compact, _store_text),
        migrations.AlterField("change", "at", CompactTime(default=django.utils.timezone.now)),
        migrations.AlterField("change", "run_id", CompactUUID(null=True)),
        migrations.AlterField("change", "session_id", CompactUUID()),
    ]
