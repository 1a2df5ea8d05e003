"""Reading rows whose bodies may be long, with a limit for what one request reads of them."""

from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from django.db import connection

from historyapp.core.errors import Invalid

MOST_READ = 1 << 27
"""Bytes of entries from which one answer is made in memory. It takes about four times as much."""
AT_ONCE = 1 << 24
"""Bytes of rows that are fetched at once."""
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
    statement: str,
    values: Sequence[Any],
    order: str,
    columns: Sequence[str] = ("body",),
    *,
    keep_open: bool = False,
) -> Iterator[Any]:
    """The rows of a query; at most :data:`AT_ONCE` bytes of them, and one row more, are in memory.

    Args:
        statement: with ``ORDER BY``, as ``order`` says.
        columns: the selected ones that may be long.
        keep_open: on SQLite, fetches no row before the caller wants it. The caller must not write meanwhile:
            SQLite refuses a transaction while a query that began before another one's commit is open.
    """
    start, is_full = 0, True
    while is_full:
        with connection.cursor() as cursor:
            if connection.vendor != "sqlite":
                cursor.execute(_portion(statement, order, columns, start), values)
                rows = cursor.fetchall()
                is_full = bool(rows) and rows[-1][-1] >= AT_ONCE
                portion = [row[:-1] for row in rows]
            else:
                cursor.execute(_from(statement, order, start), values)
                if keep_open:
                    yield from cursor
                    return
                portion, is_full = _first(cursor)
        yield from portion
        start += len(portion)


def _first(cursor: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], bool]:
    """The rows until one brings them to :data:`AT_ONCE` bytes, and whether there may be more."""
    rows, size = [], 0
    for row in cursor:
        rows.append(row)
        size += sum([len(value) for value in row if isinstance(value, (str, bytes))])
        if size >= AT_ONCE:
            return rows, True
    return rows, False


def _from(statement: str, order: str, start: int) -> str:
    """The query from row ``start`` on, for SQLite."""
    if not start:
        return statement
    return f"SELECT * FROM ({statement}) AS found ORDER BY {order} LIMIT -1 OFFSET {start}"  # noqa: S608 ours


def _portion(statement: str, order: str, columns: Sequence[str], start: int) -> str:
    """The rows from ``start`` on until one brings these columns to :data:`AT_ONCE` bytes, for PostgreSQL.

    Its driver fetches all rows of a result, so the query itself has to end there. The last column is the sum.
    PostgreSQL knows the length of a long text without reading it.
    """
    length = " + ".join([f"COALESCE(OCTET_LENGTH({column}), 0)" for column in columns])
    total = f"CAST(SUM({length}) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS bigint)"
    rows = f"SELECT * FROM ({statement}) AS found OFFSET {start}" if start else statement  # noqa: S608 ours
    return (
        f"SELECT * FROM (SELECT long_rows.*, {total} AS bytes FROM ({rows}) AS long_rows) AS sized "  # noqa: S608
        f"WHERE bytes - ({length}) < {AT_ONCE} ORDER BY {order}"
    )
