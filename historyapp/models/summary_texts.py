"""Reads the texts of summaries for contexts, which may have hundreds of them.

The ORM takes as long to build a query with hundreds of ids as SQLite takes to run it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from historyapp.models.fields import read_json, uuid_text
from historyapp.models.long_rows import long_rows
from historyapp.models.vendor import on_sqlite

FIRST_PART = 16
"""Summaries of the first query for the texts of a page. Each further query reads twice as many."""

_T = TypeVar("_T")


class SummaryTexts(NamedTuple):
    text: str
    key_points: list[str]


def texts_of(ids: Sequence[str]) -> dict[str, SummaryTexts]:
    """The texts of the summaries with these ids that still exist. They count as read by the request."""
    values = [id.replace("-", "") if on_sqlite() else UUID(id) for id in ids]
    columns = "SELECT id, text, key_points FROM historyapp_summary"
    where = f"WHERE id IN ({', '.join(['%s'] * len(values))})"
    statement = f"{columns} {where} ORDER BY id"  # no value is in the text
    found = long_rows(statement, values, "id", ("text", "key_points"), keep_open=True, seek=True)
    return {uuid_text(id): texts for id, texts in map(_texts, found)}


def _texts(row: tuple[Any, str, str]) -> tuple[Any, SummaryTexts]:
    """Not in a loop over the rows, which would hold the stored texts while it reads the next row."""
    return row[0], SummaryTexts(read_json(row[1]), read_json(row[2]))


def growing_parts(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The rows in parts that grow: a context may have no room for most summaries of a page."""
    start, size = 0, FIRST_PART
    while start < len(rows):
        yield rows[start : start + size]
        start, size = start + size, 2 * size
