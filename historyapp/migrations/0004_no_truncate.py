"""TRUNCATE fires no row trigger: on PostgreSQL it needs one of its own to leave the log alone.

An empty log may be truncated, as tests do between each other: nothing is lost by it. SQLite has no TRUNCATE.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

REFUSAL = "entries never change: append a new entry, or rewind"

POSTGRESQL = (
    f"""CREATE OR REPLACE FUNCTION historyapp_entry_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NOT EXISTS (SELECT 1 FROM historyapp_entry) THEN RETURN NULL; END IF;
            RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'restrict_violation';
        END $$""",
    """CREATE OR REPLACE TRIGGER historyapp_entry_no_truncate BEFORE TRUNCATE ON historyapp_entry
        FOR EACH STATEMENT EXECUTE FUNCTION historyapp_entry_refuse_truncate()""",
)


def install(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for statement in POSTGRESQL:
            schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0003_snapshots")]

    operations = [migrations.RunPython(install, migrations.RunPython.noop)]
