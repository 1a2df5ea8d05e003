"""The connection of an idle thread to the database."""

from contextlib import suppress

from django.db import Error, connection

from historyapp.core.process_memory import return_free_memory
from historyapp.wire.problems import StorageFailed


def close_connection() -> None:
    """Closes this thread's connection before the thread ends. Nothing else closes it: the garbage collector
    finds it late or never.
    """
    connection.close()


def renew_connection() -> None:
    """Reconnects to SQLite, so that the next request need not connect.

    An old connection takes up to 10 MB of memory, most of it for prepared statements.
    """
    if connection.vendor != "sqlite" or connection.connection is None:
        return
    with suppress(Error, StorageFailed):  # the next request will connect
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM django_migrations LIMIT 1")  # loads the tables' definitions
    return_free_memory()
