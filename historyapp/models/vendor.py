"""Which database the server uses, and whether Django logs its statements."""

from functools import cache

from django.conf import settings
from django.db import connection


@cache
def on_sqlite() -> bool:
    """Whether the database is SQLite. Cached: checking it takes longer than compressing a short text."""
    return connection.vendor == "sqlite"


@cache
def in_debug_mode() -> bool:
    """Whether Django logs all statements. Cached: looking a setting up takes as long as a short statement."""
    return bool(settings.DEBUG)
