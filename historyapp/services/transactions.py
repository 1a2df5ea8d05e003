"""The transaction that every write uses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from historyapp.models.fields import on_sqlite

_sqlite_writer = threading.RLock()


@contextmanager
def writing() -> Iterator[None]:
    """A transaction for writing, or a part of the surrounding one.

    SQLite lets one connection write at a time while the others sleep and poll. Threads of this process wait
    on a lock instead, which wakes them at once; other processes still wait for SQLite's own lock.
    """
    if on_sqlite():
        with _sqlite_writer, transaction.atomic():
            yield
    else:
        with transaction.atomic():
            yield
