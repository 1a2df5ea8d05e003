"""The connection of an idle thread to the database."""

from contextlib import suppress

from django.db import Error, connection

from historyapp.core.process_memory import return_free_memory
from historyapp.wire.problems import StorageFailed


def renew_connection() -> None:
    """Connects to SQLite again, so that the next request need not.

    An old connection holds up to 10 MB, most of it for prepared statements.
    """
    if connection.vendor != "sqlite" or connection.connection is None:
        return
    with suppress(Error, StorageFailed):  # then the next request connects
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM django_migrations LIMIT 1")  # it reads the tables' definitions
    return_free_memory()
