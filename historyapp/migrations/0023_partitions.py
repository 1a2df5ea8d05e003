"""PostgreSQL splits the tables that grow with every step into partitions, by a hash of the session.

Every statement on them names its sessions, so it reads the partitions of those alone. Each partition has indexes,
vacuums and a size limit of its own, and can be moved to another disk. SQLite has no partitions; nothing changes there.

The rows are copied in the database within the migration's transaction: this process holds none of them, and a
migration that fails leaves everything as it was. Until the old tables are dropped, the disk holds them twice.
"""

from django.core.management.base import CommandError
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

PARTITIONS = 8
"""More make statements on several sessions slower: each is planned once for each partition."""
TABLES = ("historyapp_entry", "historyapp_episode", "historyapp_snapshot")
KEYS = {"historyapp_snapshot": "PRIMARY KEY (id, session_id)"}
"""A primary key must contain the session. The others' do already."""

_LOCK = f"LOCK TABLE historyapp_session, {', '.join(TABLES)} IN ACCESS EXCLUSIVE MODE"
"""Sessions first, as in every append: running ones end, new ones wait for the session and then find the new tables.

Dropping a table locks the sessions as well. To lock them only then would make PostgreSQL end the migration, or an
append that has locked its session and waits for the entries.
"""
_CONSTRAINTS = """
    SELECT conname, CASE contype WHEN 'p' THEN coalesce(%s, pg_get_constraintdef(oid)) ELSE pg_get_constraintdef(oid) END
    FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('p', 'f', 'u') ORDER BY contype DESC, conname"""
_INDEXES = """
    SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass AND NOT EXISTS (
        SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND conrelid = indrelid)"""
_TRIGGERS = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal"
_GRANTS = """
    SELECT 'GRANT ' || privilege_type || ' ON ' || relname || ' TO '
        || CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = %s::regclass AND grantee <> relowner"""


def partition(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_LOCK)
        for table in TABLES:
            _partition(cursor, table)
        _guard_partitions(cursor)


def refuse(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        raise CommandError(
            "The tables of entries, steps and snapshots are partitioned, which is not undone. To go back to an "
            "older version, restore a backup that was made with it."
        )


def _partition(cursor, table):
    cursor.execute(_CONSTRAINTS, [KEYS.get(table), table])
    later = [f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {text}' for name, text in cursor.fetchall()]
    for query in (_INDEXES, _TRIGGERS, _GRANTS):
        cursor.execute(query, [table])
        later += [statement for (statement,) in cursor.fetchall()]
    cursor.execute(
        f"CREATE TABLE {table}_new (LIKE {table} INCLUDING ALL EXCLUDING INDEXES) PARTITION BY HASH (session_id)"
    )
    for number in range(PARTITIONS):
        cursor.execute(
            f"CREATE TABLE {table}_p{number:02} PARTITION OF {table}_new "
            f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        )
    cursor.execute(f"INSERT INTO {table}_new SELECT * FROM {table}")
    cursor.execute(f"DROP TABLE {table}")
    cursor.execute(f"ALTER TABLE {table}_new RENAME TO {table}")
    for statement in later:  # now, because building an index once costs less than adding each row to it
        cursor.execute(statement)
    cursor.execute(f"ANALYZE {table}")


def _guard_partitions(cursor):
    """TRUNCATE of a single partition fires no trigger of the whole table."""
    for number in range(PARTITIONS):
        cursor.execute(
            f"CREATE TRIGGER historyapp_entry_no_truncate BEFORE TRUNCATE ON historyapp_entry_p{number:02} "
            "FOR EACH STATEMENT EXECUTE FUNCTION historyapp_entry_refuse_truncate()"
        )


class Migration(migrations.Migration):
    dependencies = [("historyapp", "0022_tagged_sessions")]

    operations = [migrations.RunPython(partition, refuse)]
