"""Reads rows with long bodies, with a limit of bytes for each request."""

from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Model, QuerySet

from historyapp.core.errors import Invalid
from historyapp.models.large_reads import RequestRead, request_read
from historyapp.models.open_queries import count_for_queries, kept_open
from historyapp.models.run_sql import transaction_database
from historyapp.models.transaction_limits import check_time

MAX_READ = 1 << 27
"""The maximum number of bytes of entries and summaries for one response. They take about four times as much
memory."""
AT_ONCE = 1 << 24
"""The maximum number of bytes of one fetch."""
SPANS = " AS span CROSS JOIN "
"""Between a list of spans, ``(VALUES …)``, and the table whose rows a query finds by these spans."""
M = TypeVar("M", bound=Model)
bytes_left: ContextVar[int | None] = ContextVar("bytes_left", default=None)
"""The bytes that this request may still read. None: no limit, as in workers and commands."""


def count_read(size: int, large: int | None = None) -> None:
    """Counts bytes as read by this request.

    Args:
        large: the bytes that count towards a large read, see :mod:`historyapp.models.large_reads`; None: all.

    Raises:
        Invalid: if the request has read more than the limit.
        ServerUnavailable: if it has read many bytes while others do too; see
            :mod:`historyapp.models.large_reads`.
        TransactionTooLong: if this transaction has reached its limit: parsing rows takes longer than the
            statement that reads them, and nothing else ends it.
    """
    if transaction_database.get() is not None:
        check_time()
    count_for_queries(size)
    left = bytes_left.get()
    if left is None:
        return
    bytes_left.set(left - size)
    if left < size:
        raise Invalid(
            f"The response would be built from more than {MAX_READ:,} bytes of entries, summaries and "
            "excerpts of steps. Ask for fewer steps or a smaller budget, or export the session."
        )
    if read := request_read.get():
        read.add(size if large is None else large)


def limited_read() -> RequestRead | None:
    """What this request reads, if that is limited. None in exports and imports: they hold one long entry
    after another, and may wait for a slow reader in between. Also None in workers and commands."""
    return None if bytes_left.get() is None else request_read.get()


def bytes_read() -> int:
    """The bytes that this request has read; 0 in workers and commands."""
    left = bytes_left.get()
    return 0 if left is None else MAX_READ - left


def long_rows(
    statement: str,
    values: Sequence[Any],
    order: str,
    columns: Sequence[str] = ("body",),
    *,
    keep_open: bool = False,
    seek: bool = False,
) -> Iterator[Any]:
    """Yields the rows of a query, with at most :data:`AT_ONCE` bytes and one row more in memory.

    After each portion the query runs again, with an OFFSET, or with ``seek`` after the last key.

    Args:
        statement: must end with ``ORDER BY`` and the terms of ``order``.
        columns: the selected columns that may be long.
        keep_open: on SQLite, fetch rows one by one, see :mod:`historyapp.models.open_queries`. The caller
        must not write meanwhile: SQLite refuses a transaction while a query is open that began before
        another transaction's commit.
        seek: begin again after the last value of ``order``, so that rows which are added meanwhile shift no
        others. ``order`` must be one column, the first that is selected, and different in each row.
    """
    key = order if seek else None
    if connection.vendor == "sqlite":
        yield from _rows_of_sqlite(_in_order_of_keys(statement), values, key, keep_open=keep_open)
        return
    read, last, is_full = 0, list[Any](), True
    while is_full:
        rest = f"WHERE {key} > %s" if key and last else f"OFFSET {read}" if read else ""
        with connection.cursor() as cursor:
            cursor.execute(_portion(statement, order, columns, rest), [*values, *last])
            rows = cursor.fetchall()
        yield from (row[:-1] for row in rows)
        read, is_full = read + len(rows), bool(rows) and rows[-1][-1] >= AT_ONCE
        last = [rows[-1][0]] if key and rows else []


def _rows_of_sqlite(
    statement: str, values: Sequence[Any], key: str | None, *, keep_open: bool
) -> Iterator[Any]:
    """The query begins again after each portion, so that none is open between two of them."""
    read, last, is_full = 0, list[Any](), True
    while is_full:
        rest = f" AND {key} > %s" if key and last else f" LIMIT -1 OFFSET {read}" if read else ""
        with connection.cursor() as cursor:
            cursor.execute(statement + rest, [*values, *last])
            if keep_open:
                with kept_open(cursor) as query:
                    for row in iter(query.next_row, None):
                        read, last = read + 1, [row[0]] if key else []
                        yield row
                is_full = query.is_closed
                continue
            portion, is_full = _first(cursor)
        yield from portion
        read, last = read + len(portion), [portion[-1][0]] if key and portion else []


def _in_order_of_keys(statement: str) -> str:
    """On SQLite, the query that sorts the keys of its rows only, and reads one row after another.

    For several ranges, SQLite would read all rows with their bodies into memory and sort them there. The
    inner limit keeps it from joining the two queries into one.
    """
    select, rest = statement.split(" FROM ", 1)
    values, spans, rest = rest.rpartition(SPANS)
    table, where = rest.split(" ", 1)
    if table.startswith("(") or " ORDER BY " not in where:
        return statement
    limit = "" if " LIMIT " in where else " LIMIT -1"
    keys = f"SELECT {table}.rowid AS row FROM {values}{spans}{table} {where}{limit}"  # noqa: S608 ours
    return f"{select} FROM ({keys}) AS found CROSS JOIN {table} ON {table}.rowid = found.row"


def long_models(rows: "QuerySet[M]", order: str, columns: Sequence[str]) -> Iterator[M]:
    """Yields the instances of a query that selects no other tables, read as by :func:`long_rows`.

    Args:
        order: the terms of the query's order, in SQL.
        columns: the columns that may be long. Those that are deferred are not read.
    """
    compiler = rows.query.get_compiler(rows.db)
    try:
        statement, values = compiler.as_sql()
    except EmptyResultSet:
        return
    selected = [column for column, *_ in compiler.select]
    names = [column.target.attname for column in selected]
    long = [name for name in columns if name in names]
    found = long_rows(statement, values, order, long, keep_open=True) if long else _all(statement, values)
    for row in compiler.apply_converters(found, compiler.get_converters(selected)):
        yield rows.model.from_db(rows.db, names, row)


def _all(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _first(cursor: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], bool]:
    """Fetches rows until they have :data:`AT_ONCE` bytes. Returns them and whether there may be more."""
    rows, size = [], 0
    for row in cursor:
        rows.append(row)
        size += sum([len(value) for value in row if isinstance(value, (str, bytes))])
        if size >= AT_ONCE:
            return rows, True
    return rows, False


def _portion(statement: str, order: str, columns: Sequence[str], rest: str) -> str:
    """The rest of the query until the columns have :data:`AT_ONCE` bytes, for PostgreSQL.

    The driver fetches all rows of a result, so the query itself has to stop. The last column is the sum.
    PostgreSQL gets the length of a long text without reading the text.
    """
    length = " + ".join([f"COALESCE(OCTET_LENGTH({column}), 0)" for column in columns])
    total = f"CAST(SUM({length}) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS bigint)"
    rows = f"SELECT * FROM ({statement}) AS found {rest}" if rest else statement  # noqa: S608 ours
    return (
        f"SELECT * FROM (SELECT long_rows.*, {total} AS bytes FROM ({rows}) AS long_rows) AS sized "  # noqa: S608
        f"WHERE bytes - ({length}) < {AT_ONCE} ORDER BY {order}"
    )
