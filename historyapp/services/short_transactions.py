"""Deletes many rows in short transactions with pauses, so that other writers wait for none of them long."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import BigIntegerField, Func, Model, QuerySet, Value

from historyapp.models.vendor import on_sqlite
from historyapp.services.transactions import pause_after, writing
from historyapp.wire.problems import TransactionTooLong

PART_SECONDS = 0.05
"""The number of rows of one transaction is adapted so that it takes about this long."""
_FIRST_ROWS, _MAX_ROWS = 20, 5_000
_PART_BYTES = 1 << 22
"""One transaction deletes rows of about this many bytes, or one row: SQLite overwrites what it deletes."""


class TimedPart:
    """One transaction of a long write."""

    seconds = 0.0
    """How long it took, after its end."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def end(self) -> None:
        self.seconds = self.seconds or time.monotonic() - self._started


@contextmanager
def short_transaction() -> Iterator[TimedPart]:
    """A transaction, and on SQLite a pause after it, because waiting processes only poll for the lock."""
    with writing():
        timed = TimedPart()
        # Called after the commit, which updates SQLite's text index, and before the pause of gives_way.
        transaction.on_commit(timed.end)
        yield timed
    timed.end()  # in a surrounding transaction, which is not committed yet
    pause_after(timed.seconds)


def delete_rows(rows: "QuerySet[Model]") -> int:
    """Deletes the rows in one statement. Returns how many."""
    return rows.delete()[0]


def delete_in_parts(
    rows: "QuerySet[Model]",
    column: str,
    delete: "Callable[[QuerySet[Any]], object]" = delete_rows,
    before_each: Callable[[], object] = lambda: None,
) -> None:
    """Deletes all rows, a few in each transaction. Must not be called within a transaction.

    Args:
        column: gives the order in which they are deleted.
        delete: deletes the rows of one part.
        before_each: called before each transaction.
    """
    size = _FIRST_ROWS
    while found := _next_part(rows, column, size):
        before_each()
        try:
            with short_transaction() as timed:
                delete(rows.filter(**{f"{column}__lte": found.last}))
        except TransactionTooLong:
            if found.rows == 1:
                raise
            size = found.rows // 2
            continue
        if timed.seconds < PART_SECONDS / 2:
            size = min(size * 2, _MAX_ROWS)
        elif timed.seconds > PART_SECONDS:
            size = max(min(size, found.rows) // 2, 1)


class _RowsOfPart(NamedTuple):
    last: Any
    """The value of the last row in the column that gives the order."""
    rows: int


def _next_part(rows: "QuerySet[Model]", column: str, max_rows: int) -> _RowsOfPart | None:
    """The first rows, up to :data:`_PART_BYTES`; None if there are none.

    Reads the lengths before the transaction, because SQLite reads a whole text to compute its length.
    """
    lengths = [_Length(name) for name in _long_columns(rows.model)]
    size: Any = reduce(add, lengths, Value(0))
    found, total, last_read = rows.order_by(column).annotate(part_size=size), 0, None
    # PostgreSQL knows the length of a text without reading it, and its driver asks the server for each chunk.
    chunk = 1 if on_sqlite() else max_rows
    with closing(found.values_list(column, "part_size")[:max_rows].iterator(chunk_size=chunk)) as read:
        for count, (last, length) in enumerate(read, 1):
            last_read, total = _RowsOfPart(last, count), total + length
            if total >= _PART_BYTES:
                break
    return last_read


def _long_columns(model: type[Model]) -> list[str]:
    """The columns that have no limit of length."""
    types = {"text", "blob", "bytea"}
    return [
        field.attname
        for field in model._meta.concrete_fields
        if (field.db_type(connection) or "").lower() in types
    ]


class _Length(Func):
    """The bytes of a text or of binary data; 0 for null."""

    template = "COALESCE(OCTET_LENGTH(%(expressions)s), 0)"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "COALESCE(LENGTH(CAST(%(expressions)s AS BLOB)), 0)"
        return super().as_sql(compiler, connection, template=template, **context)
