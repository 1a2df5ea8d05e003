"""What Django raises when the database is busy."""

import psycopg
from django.db import OperationalError, connection


def busy_error() -> OperationalError:
    """As on the database of the tests. PostgreSQL sends a state; without one, the server did not answer."""
    if connection.vendor == "sqlite":
        return OperationalError("database is locked")
    error = OperationalError("deadlock detected")
    error.__cause__ = psycopg.errors.DeadlockDetected("deadlock detected")
    return error
