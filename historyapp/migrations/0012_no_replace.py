"""SQLite's REPLACE must not put an entry in another's place, whatever a connection's settings are.

REPLACE deletes the row in its way, and fires the trigger on deletions only for connections that set
``recursive_triggers``, as the ``sqlite3`` shell does not. A trigger before the insertion fires for all. A row can be
in the way by its key or by its ``rowid``; where an insertion names none, ``NEW.rowid`` is -1, which no row has.
PostgreSQL has no REPLACE, and its ON CONFLICT DO UPDATE fires the trigger on updates.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

REFUSAL = "entries never change: append a new entry, or rewind"

SQLITE = f"""CREATE TRIGGER IF NOT EXISTS historyapp_entry_no_replace BEFORE INSERT ON historyapp_entry
    WHEN EXISTS (SELECT 1 FROM historyapp_entry WHERE session_id = NEW.session_id AND position = NEW.position)
        OR EXISTS (SELECT 1 FROM historyapp_entry WHERE rowid = NEW.rowid)
    BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"""


def install(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(SQLITE)


def uninstall(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER IF EXISTS historyapp_entry_no_replace")


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0011_queue")]

    operations = [migrations.RunPython(install, uninstall)]
