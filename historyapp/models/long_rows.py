"""Reading rows whose bodies may be long, with a limit for what one request reads of them."""

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from django.db import connection

from historyapp.core.errors import Invalid

MOST_READ = 1 << 27
"""Bytes of entries from which one answer is made in memory. It takes about four times as much."""
AT_ONCE = 1 << 24
"""Bytes of rows, and one row more, that PostgreSQL's driver fetches at once."""
bytes_left: ContextVar[int | None] = ContextVar("bytes_left", default=None)
"""What this request may still read of them; None: no limit, as in workers and commands."""


def count_read(size: int) -> None:
    """Counts bytes that this request has read.

    Raises:
        Invalid: when they are more than it may read.
    """
    left = bytes_left.get()
    if left is None:
        return
    bytes_left.set(left - size)
    if left < size:
        raise Invalid(
            f"The answer would be made from more than {MOST_READ:,} bytes of entries. Ask for fewer "
            "steps or a smaller budget, or export the session."
        )


def long_rows(
    statement: str, values: Sequence[Any], order: str, columns: Sequence[str] = ("body",)
) -> Iterator[Any]:
    """The rows of a query, one after another: nobody holds those that the caller does not consume.

    SQLite's driver fetches rows one by one, PostgreSQL's fetches all rows of a result at once.

    Args:
        statement: with ``ORDER BY``, as ``order`` says.
        columns: the selected ones that may be long.
    """
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            yield from cursor
        return
    start, is_full = 0, True
    while is_full:
        with connection.cursor() as cursor:
            cursor.execute(_portion(statement, order, columns, start), values)
            rows = cursor.fetchall()
        is_full = bool(rows) and rows[-1][-1] >= AT_ONCE
        start += len(rows)
        for row in rows:
            yield row[:-1]


def _portion(statement: str, order: str, columns: Sequence[str], start: int) -> str:
    """The rows from ``start`` on until one brings these columns to :data:`AT_ONCE` bytes.

    Their last column is the sum. PostgreSQL knows the length of a long text without reading it.
    """
    length = " + ".join([f"COALESCE(OCTET_LENGTH({column}), 0)" for column in columns])
    total = f"CAST(SUM({length}) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS bigint)"
    rows = f"SELECT * FROM ({statement}) AS found OFFSET {start}" if start else statement  # noqa: S608 ours
    return (
        f"SELECT * FROM (SELECT long_rows.*, {total} AS bytes FROM ({rows}) AS long_rows) AS sized "  # noqa: S608
        f"WHERE bytes - ({length}) < {AT_ONCE} ORDER BY {order}"
    )
