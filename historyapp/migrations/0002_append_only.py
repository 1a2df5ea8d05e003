"""The database itself refuses to change the log.

Overriding ``save`` and ``delete`` does not protect a table: ``_base_manager.update`` and raw SQL get through.
Only the retention job may delete, by placing a row in ``historyapp_retentionpass`` within its transaction.

A later migration that alters ``historyapp_entry`` on SQLite rebuilds the table and loses its triggers: it must
run ``install`` again. A test checks that the triggers are there after all migrations.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

REFUSAL = "entries never change: append a new entry, or rewind"

SQLITE = (
    f"""CREATE TRIGGER IF NOT EXISTS historyapp_entry_no_update BEFORE UPDATE ON historyapp_entry
        BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END""",
    f"""CREATE TRIGGER IF NOT EXISTS historyapp_entry_no_delete BEFORE DELETE ON historyapp_entry
        WHEN NOT EXISTS (SELECT 1 FROM historyapp_retentionpass)
        BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END""",
)
POSTGRESQL = (
    f"""CREATE OR REPLACE FUNCTION historyapp_entry_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM historyapp_retentionpass) THEN RETURN OLD; END IF;
            RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'restrict_violation';
        END $$""",
    """CREATE OR REPLACE TRIGGER historyapp_entry_append_only BEFORE UPDATE OR DELETE ON historyapp_entry
        FOR EACH ROW EXECUTE FUNCTION historyapp_entry_refuse()""",
)


def install(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0001_initial")]

    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
