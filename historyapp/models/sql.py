"""The reads of the hot path, written out.

The ORM takes longer to build these queries than databases to run them, and every context issues them. They
give the core's values, without model instances. That they give what the ORM gives is held by tests.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from historyapp.core.entries import Entry, load_body
from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span
from historyapp.models.entries import RARE_KINDS, pages, span_batches, spans_between
from historyapp.models.fields import unpack

_ENTRIES = "SELECT position, kind, created_at, body, metadata, tokens FROM historyapp_entry WHERE "
_PLACES = (
    "SELECT session_id, anchor, number, first_position, last_position, status, excerpt "
    "FROM historyapp_episode WHERE number BETWEEN %s AND %s AND session_id "
)
_IS = {kind: f"kind = '{kind}'" for kind in RARE_KINDS}
"""Written as the partial indexes have it, so that these are used without looking at parameters."""


class OutlineRow(NamedTuple):
    """Where a step stands, how it ended, and what is kept of it for choosing contexts."""

    session_id: UUID
    anchor: int
    number: int
    first_position: int
    last_position: int
    status: str
    excerpt: str | bytes | None
    """As stored, see :func:`historyapp.models.fields.unpack`: most are known already when they are read."""


def live_entries(
    lineage: Lineage, kinds: Sequence[str], *, after: int = 0, before: int | None = None
) -> Iterator[Entry]:
    """The live entries of some kinds between two positions (both excluded), oldest first."""
    for batch in span_batches(spans_between(lineage, after, before)):
        yield from _entries(batch, kinds, "position")


def newest_first(lineage: Lineage, kind: str) -> Iterator[Entry]:
    """The live entries of a kind, the newest first, read as they are consumed."""
    for batch in span_batches(reversed(lineage.spans)):
        for start, size in pages():
            page = _entries(batch, [kind], f"position DESC LIMIT {size} OFFSET {start}")
            yield from page
            if len(page) < size:
                break


def newest(lineage: Lineage, kind: str) -> Entry | None:
    """The newest live entry of a kind; None without any."""
    return _first(span_batches(reversed(lineage.spans)), kind, "position DESC LIMIT 1")


def oldest(lineage: Lineage, kind: str) -> Entry | None:
    """The oldest live entry of a kind; None without any."""
    return _first(span_batches(lineage.spans), kind, "position LIMIT 1")


def _first(batches: Iterator[list[Span]], kind: str, order: str) -> Entry | None:
    return next((entry for batch in batches for entry in _entries(batch, [kind], order)), None)


def _entries(spans: Sequence[Span], kinds: Sequence[str], order: str) -> list[Entry]:
    where = " OR ".join(["session_id = %s AND position BETWEEN %s AND %s"] * len(spans))
    values = [value for span in spans for value in (_key(UUID(span.session)), span.first, span.last)]
    if len(kinds) == 1 and kinds[0] in _IS:
        which = _IS[kinds[0]]
    else:
        which = f"kind IN ({_marks(kinds)})"
        values += kinds
    rows = _fetched(f"{_ENTRIES}({where}) AND {which} ORDER BY {order}", values)
    return list(map(_entry, rows))


def _entry(row: tuple[int, str, datetime, str | bytes, str, int]) -> Entry:
    position, kind, created_at, body, metadata, tokens = row
    known = load_body(kind, load_dumped(unpack(body)))
    return Entry(position, known, _moment(created_at), load_dumped(metadata), tokens)


def outline_rows(sessions: Sequence[UUID], first: int, last: int) -> list[OutlineRow]:
    """The rows of steps ``first`` to ``last`` of some sessions, whether they are live or not."""
    values = [first, last, *map(_key, sessions)]
    rows = _fetched(f"{_PLACES}IN ({_marks(sessions)})", values) if sessions else []
    known = {_key(session): session for session in sessions}
    return [OutlineRow(known[session], *row) for session, *row in rows]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))


def _fetched(statement: str, values: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _key(session: UUID) -> Any:
    return session if connection.features.has_native_uuid_field else session.hex


def _moment(value: datetime) -> datetime:
    """SQLite keeps times in UTC and does not say so."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)
