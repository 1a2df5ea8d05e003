"""One way to write: a transaction that waits its turn."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

_sqlite_writer = threading.RLock()


@contextmanager
def writing() -> Iterator[None]:
    """A transaction for writing; within another one, a part of it.

    SQLite lets one connection write at a time and the others sleep and poll. Threads of this process queue on
    a lock instead, which hands over at once; other processes still meet at SQLite's own lock.
    """
    if connection.vendor == "sqlite":
        with _sqlite_writer, transaction.atomic():
            yield
    else:
        with transaction.atomic():
            yield
