"""Empties the tables after a test that commits, but for rows that migrations made.

Django's command looks at the tables again each time, and PostgreSQL plans each deletion again.
"""

from functools import cache
from itertools import count

from django.db import connection, transaction

_MADE_BY_MIGRATIONS = {"django_content_type", "auth_permission", "historyapp_release"}
_VACUUMED_EVERY = 25
"""Dead rows of earlier tests make a deletion on PostgreSQL up to ten times slower."""
_FUNCTION = """
CREATE OR REPLACE FUNCTION empty_all_tables() RETURNS void LANGUAGE plpgsql
SET session_replication_role = replica AS $$ BEGIN {} END $$
"""
"""The role disables the trigger of the log. A function keeps the plans of its statements."""
_numbers = count()


def empty_tables() -> None:
    """Deletes the rows of all tables in one transaction."""
    if connection.vendor == "postgresql" and next(_numbers) % _VACUUMED_EVERY == 0:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")
    statements = _statements(connection.settings_dict["NAME"])
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@cache
def _statements(database: str) -> list[str]:
    """What empties the tables of this database.

    On PostgreSQL, TRUNCATE would make new files, also for empty tables.
    """
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    # The triggers of the log let a pass of retention delete entries, so its table is the last one.
    tables = sorted(
        set(names) - _MADE_BY_MIGRATIONS, key=lambda name: (name == "historyapp_retentionpass", name)
    )
    if connection.vendor == "sqlite":
        begin = "INSERT INTO historyapp_retentionpass (opened_at) VALUES (CURRENT_TIMESTAMP)"
        return [begin, *[f'DELETE FROM "{table}"' for table in tables]]
    body = [f'IF EXISTS (SELECT FROM "{table}") THEN DELETE FROM "{table}"; END IF;' for table in tables]
    with connection.cursor() as cursor:
        cursor.execute(_FUNCTION.format(" ".join(body)))
    return ["SELECT empty_all_tables()"]
