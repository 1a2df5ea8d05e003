"""Queries that stay open while their rows are handled one after another, on SQLite.

While a query is open, SQLite cannot reuse its log of changes (the WAL), which grows with each change of
others. So a query is closed once much has been read, and before its thread waits. It begins again at its next
row.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.utils import CursorWrapper

MAX_READ = 1 << 20
"""A thread's queries are closed when it has counted more bytes as read."""


class OpenQuery:
    """A query whose rows are being read. It holds none of them."""

    def __init__(self, cursor: CursorWrapper) -> None:
        self._cursor = cursor
        self._fetch = cursor.fetchone  # finding the method takes Django as long as a call
        self.is_closed = False

    def next_row(self) -> Any:
        """The next row. None if there is none, or if the query was closed."""
        return None if self.is_closed else self._fetch()

    def close(self) -> None:
        self.is_closed = True
        self._cursor.close()


class _OpenQueries(threading.local):
    """The open queries of this thread."""

    def __init__(self) -> None:
        self.queries: list[OpenQuery] = []
        self.read = 0


_open = _OpenQueries()


@contextmanager
def kept_open(cursor: CursorWrapper) -> Iterator[OpenQuery]:
    """Within the block, the query may be closed after each row."""
    if not _open.queries:
        _open.read = 0
    _open.queries.append(query := OpenQuery(cursor))
    try:
        yield query
    finally:
        if query in _open.queries:
            _open.queries.remove(query)


def count_for_queries(size: int) -> None:
    """Counts bytes as read by this thread. Closes its queries if they are many."""
    _open.read += size
    if _open.read > MAX_READ:
        close_queries()


def close_queries() -> None:
    """Called before this thread waits."""
    _open.read = 0
    while _open.queries:
        _open.queries.pop().close()
