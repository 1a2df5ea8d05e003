"""Which database the server uses."""

from functools import cache

from django.db import connection


@cache
def on_sqlite() -> bool:
    """Whether the database is SQLite. Cached: checking it takes longer than compressing a short text."""
    return connection.vendor == "sqlite"
