"""Rows for databases that a version before made, whose tables lack columns of today's models."""

from collections.abc import Sequence

from django.db import connection

from historyapp.models import Session


def insert_sessions(sessions: Sequence[Session]) -> None:
    """Inserts them with the columns that the table has."""
    with connection.cursor() as cursor:
        table = connection.introspection.get_table_description(cursor, Session._meta.db_table)
    present = {column.name for column in table}
    fields = [field for field in Session._meta.local_concrete_fields if field.column in present]
    Session.objects.all()._insert(sessions, fields=fields, using="default")  # type: ignore[attr-defined]
