"""Queries written in SQL.

Each runs often: in every context, in every request of an agent, or ten times a second in every worker. The
ORM takes longer to build such a query than the database to run it. Tests compare the results with the ORM's.
Writes are in ``historyapp.services.statements``.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model
from django.db.models.base import ModelState

from historyapp.core.entries import Entry, load_body
from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span
from historyapp.core.windows import READ, LogRow
from historyapp.models.entries import page_sizes, rare_batches, span_batches, spans_between
from historyapp.models.fields import (
    as_uuid,
    owners_table,
    owners_value,
    session_value,
    sized_body,
    sized_fields,
    sized_json,
    unpack,
    uuid_value,
)
from historyapp.models.keys import ApiKey
from historyapp.models.long_rows import SPANS, count_read, long_rows
from historyapp.models.projects import Project
from historyapp.models.run_sql import run_sql
from historyapp.models.sessions import RARE_KINDS, Session
from historyapp.models.vendor import on_sqlite

M = TypeVar("M", bound=Model)

KEY_COLUMNS = ("id", "project_id", "prefix", "scopes", "expires_at", "revoked_at", "last_used_at")
"""The columns of its API key that a request needs."""

_ENTRIES = "SELECT position, kind, created_at, body, metadata, tokens FROM historyapp_entry WHERE "
_WITHOUT_METADATA = _ENTRIES.replace("metadata", "'{}' AS metadata")
_STORED_BODIES = "SELECT position, kind, body FROM historyapp_entry WHERE "
_WINDOW = (
    "SELECT position, kind, created_at, tokens, metadata, "
    "CASE WHEN kind IN ('model_input', 'debug_log') THEN body END AS body FROM historyapp_entry WHERE "
)
_OUTPUTS = "SELECT position, metadata FROM historyapp_entry WHERE session_id = %s AND kind = 'model_output'"
WINDOW_KEYS = (
    "cost", "counted_tokens", "estimated_tokens", "model", "replacement_history", "snapshot", "source",
    "usage", "usage_convention",
)  # fmt: skip
"""The metadata that is loaded with entries. Everything that reads a :class:`LogRow` finds its keys here."""
_WINDOW_PAGE = 4096
"""Rows of the first page. Most windows have fewer, so they take one query. SQLite stops when the
reader does.
"""
_WINDOW_SPANS, _WINDOW_ENTRIES = 60, 320
"""Spans of one query, and the entries after which it has no further spans. A run that was rewound after each
step has a span for each step of its window. The database sorts the entries of all spans of a query, even if
the window ends before them."""
_OUTLINE_ROWS = (
    "SELECT session_id, anchor, number, first_position, last_position, status, excerpt "
    "FROM historyapp_episode WHERE "
)
_ROW_PLACES = "SELECT session_id, anchor, number FROM historyapp_episode WHERE "
_KEY = f"SELECT {', '.join(KEY_COLUMNS)} FROM historyapp_apikey WHERE key_hash = %s"  # noqa: S608
WAITING_MESSAGE = "SELECT 1 FROM historyapp_queuedmessage WHERE queue = %s AND problem = '' LIMIT 1"
_KIND_IS = {kind: f"kind = '{kind}'" for kind in RARE_KINDS}
"""The conditions of the partial indexes. With a parameter for the kind, SQLite would not use the indexes."""


class OutlineRow(NamedTuple):
    """The columns of a step's row that contexts need."""

    session_id: UUID
    anchor: int
    number: int
    first_position: int
    last_position: int
    status: str
    excerpt: str | bytes | None
    """The stored form, see :func:`historyapp.models.fields.unpack`. Most excerpts are cached already."""


class RowPlace(NamedTuple):
    """The key of a step's row, and the step's number."""

    session_id: UUID
    anchor: int
    number: int


def live_entries(
    lineage: Lineage,
    kinds: Sequence[str],
    *,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
    metadata: tuple[str, ...] = WINDOW_KEYS,
) -> Iterator[Entry]:
    """The live entries of some kinds between two positions (both excluded), oldest first.

    Args:
        metadata: the keys of the metadata to load.
    """
    for batch in span_batches(spans_between(lineage, after, before)):
        order = "position" if limit is None else f"position LIMIT {limit}"
        entries = _entries(batch, kinds, order, metadata)
        yield from entries
        if limit is not None:
            limit -= len(entries)
            if limit <= 0:
                return


def live_entries_at(
    lineage: Lineage, kinds: Sequence[str], positions: Iterable[int], metadata: tuple[str, ...]
) -> Iterator[Entry]:
    """The live entries of some kinds at some positions, oldest first. For ``metadata`` see
    :func:`live_entries`.
    """
    spans = (span for position in sorted(positions) for span in lineage.between(position, position))
    for batch in span_batches(spans, _WINDOW_SPANS, _WINDOW_ENTRIES):
        yield from _entries(batch, kinds, "position", metadata)


def stored_bodies(
    lineage: Lineage, kinds: Sequence[str], after: int, before: int, limit: int
) -> Iterator[tuple[int, str, str | bytes]]:
    """The positions, kinds and stored bodies of the same entries as :func:`live_entries`.

    The caller unpacks the bodies and counts what it has read.
    """
    for batch in span_batches(spans_between(lineage, after, before)):
        statement, values = _entries_statement(batch, kinds, f"position LIMIT {limit}", _STORED_BODIES)
        for row in long_rows(statement, values, "position", keep_open=True):
            yield row
            limit -= 1
        if limit <= 0:
            return


def each_live_entry(lineage: Lineage, kinds: Sequence[str], first: int, last: int) -> Iterator[Entry]:
    """The live entries of some kinds between two positions (both included), oldest first, without metadata.

    One entry is in memory at a time, so a quarter of its bytes counts as read by the request.
    """
    return each_entry_in(lineage, kinds, [(first, last)])


def each_entry_in(
    lineage: Lineage, kinds: Sequence[str], ranges: Iterable[tuple[int, int]]
) -> Iterator[Entry]:
    """The same for several ranges of positions, the oldest first. They are read together."""
    spans = (span for first, last in ranges for span in lineage.between(first, last))
    for batch in span_batches(spans):
        statement, values = _entries_statement(batch, kinds, "position", _WITHOUT_METADATA)
        for position, kind, created_at, packed, _, tokens in long_rows(statement, values, "position"):
            body, size = sized_body(unpack(packed))
            count_read(size // 4)
            yield Entry(position, load_body(kind, body), as_aware(created_at), {}, tokens)


def newest_first(lineage: Lineage, kind: str, session: Session | None = None) -> Iterator[Entry]:
    """The live entries of a kind, newest first, read lazily.

    Args:
        session: the session of the lineage. With it, rare kinds in a long lineage take few queries.
    """
    return _in_pages(lineage, kind, session, newest=True)


def _in_pages(lineage: Lineage, kind: str, session: Session | None, *, newest: bool) -> Iterator[Entry]:
    order = "position DESC" if newest else "position"
    owner = session if kind in RARE_KINDS else None
    for batch in rare_batches(lineage, owner, kind, newest_first=newest):
        for start, size in page_sizes():
            page = _entries(batch, [kind], f"{order} LIMIT {size} OFFSET {start}")
            yield from (entry for entry in page if lineage.session_at(entry.position))
            if len(page) < size:
                break


def newest_or_oldest(
    lineage: Lineage, kind: str, session: Session | None = None, *, newest: bool
) -> Entry | None:
    """The newest or the oldest live entry of a kind, or None. For the arguments see :func:`newest_first`."""
    if lineage.older:
        return next(_in_pages(lineage, kind, session, newest=newest), None)
    order = "position DESC LIMIT 1" if newest else "position LIMIT 1"
    for batch in span_batches(spans_between(lineage, newest_first=newest)):
        for entry in _entries(batch, [kind], order):
            return entry
    return None


def window_rows(lineage: Lineage, max_size: int | None = None) -> Iterator[LogRow]:
    """The live entries that a model reads, newest first, read lazily.

    The bodies of outputs and results are not read. They are nearly all of the log's bytes.

    Args:
        max_size: reading ends after this many bytes of memory. None: only the limit of the request applies.
    """
    before, size, left = lineage.last + 1, _WINDOW_PAGE, max_size
    while size == _WINDOW_PAGE:
        size = 0
        spans = spans_between(lineage, before=before, newest_first=True)
        for batch in span_batches(spans, _WINDOW_SPANS, _WINDOW_ENTRIES):
            for row, length in _window_page(batch, _WINDOW_PAGE - size):
                yield row
                if left is not None and (left := left - length) <= 0:
                    return
                before, size = row.position, size + 1
            if size == _WINDOW_PAGE:
                break


def newest_outputs(session_id: UUID, count: int) -> Iterator[dict[str, Any]]:
    """The metadata (:data:`WINDOW_KEYS`) of a session's own newest outputs, live or not. Reads no bodies."""
    statement = f"{_OUTPUTS} ORDER BY position DESC LIMIT {count}"
    for _, metadata in long_rows(statement, [uuid_value(session_id)], "position DESC", ("metadata",)):
        kept, size = sized_fields(metadata, WINDOW_KEYS)
        count_read(size)
        yield kept


def outputs_between(span: Span, count: int, *, newest: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The positions and metadata (:data:`WINDOW_KEYS`) of the newest or oldest outputs of one session between
    two positions, live or not. Reads no bodies."""
    order = "position DESC" if newest else "position"
    statement = f"{_OUTPUTS} AND position BETWEEN %s AND %s ORDER BY {order} LIMIT {count}"
    values = [session_value(span.session), span.first, span.last]
    for position, metadata in long_rows(statement, values, order, ("metadata",)):
        kept, size = sized_fields(metadata, WINDOW_KEYS)
        count_read(size)
        yield position, kept


def _window_page(spans: Sequence[Span], limit: int) -> Iterator[tuple[LogRow, int]]:
    """Rows, each with the bytes that were read for it."""
    where = " OR ".join(["session_id = %s AND position BETWEEN %s AND %s"] * len(spans))
    values = [value for span in spans for value in (session_value(span.session), span.first, span.last)]
    select, kinds = _WINDOW, ", ".join(["%s"] * len(READ))
    if len(spans) > 1 and on_sqlite():  # a fifth faster than sixty conditions
        where = "session_id = span.column1 AND position BETWEEN span.column2 AND span.column3"
        select = select.replace("FROM ", f"FROM (VALUES {', '.join(['(%s, %s, %s)'] * len(spans))}){SPANS}")
    statement = f"{select}({where}) AND kind IN ({kinds}) ORDER BY position DESC LIMIT {limit}"
    columns = ("body", "metadata")
    for row in long_rows(statement, [*values, *READ], "position DESC", columns, keep_open=True):
        yield _log_row(row)


def _log_row(row: tuple[int, str, datetime, int, str, str | bytes | None]) -> tuple[LogRow, int]:
    position, kind, at, tokens, metadata, packed = row
    body, body_size = sized_json(unpack(packed)) if packed else ({}, 0)
    kept, size = sized_fields(metadata, WINDOW_KEYS)  # a window has many rows, and other metadata can be long
    count_read(body_size + size)
    return LogRow(position, kind, as_aware(at), tokens, kept, body), body_size + size


def _entries(
    spans: Sequence[Span], kinds: Sequence[str], order: str, keys: tuple[str, ...] = WINDOW_KEYS
) -> list[Entry]:
    statement, values = _entries_statement(spans, kinds, order, _ENTRIES if keys else _WITHOUT_METADATA)
    direction = "position DESC" if order.startswith("position DESC") else "position"
    rows = long_rows(statement, values, direction, ("body", "metadata"), keep_open=True)
    return [_entry(row, keys) for row in rows]


def _entries_statement(
    spans: Sequence[Span], kinds: Sequence[str], order: str, select: str
) -> tuple[str, list[Any]]:
    where = " OR ".join(["session_id = %s AND position BETWEEN %s AND %s"] * len(spans))
    values = [value for span in spans for value in (session_value(span.session), span.first, span.last)]
    if len(kinds) == 1 and kinds[0] in _KIND_IS:
        kind_condition = _KIND_IS[kinds[0]]
    else:
        kind_condition = f"kind IN ({', '.join(['%s'] * len(kinds))})"
        values += kinds
    return f"{select}({where}) AND {kind_condition} ORDER BY {order}", values


def _entry(row: tuple[int, str, datetime, str | bytes, str, int], keys: tuple[str, ...]) -> Entry:
    position, kind, created_at, packed, metadata, tokens = row
    body, size = sized_body(unpack(packed))
    kept, metadata_size = sized_fields(metadata, keys)
    count_read(size + metadata_size)
    return Entry(position, load_body(kind, body), as_aware(created_at), kept, tokens)


def outline_rows(
    sessions: Sequence[str], first: int, last: int, limit: int | None = None
) -> list[OutlineRow]:
    """At most ``limit`` rows of steps ``first`` to ``last`` of some sessions, live or not."""
    rows = _rows_numbered(_of_owners(_OUTLINE_ROWS), sessions, range(first, last + 1), limit)
    return [OutlineRow(*row) for row in rows]


def row_places(sessions: Sequence[str], numbers: Sequence[int], limit: int | None = None) -> list[RowPlace]:
    """The places of at most ``limit`` rows of steps with these numbers, live or not."""
    rows = _rows_numbered(_of_owners(_ROW_PLACES), sessions, numbers, limit)
    return [RowPlace(*row) for row in rows]


@cache
def _of_owners(select: str) -> str:
    """A query of a table for its rows of many sessions, see :func:`historyapp.models.fields.owners_table`."""
    columns, table = select.removesuffix(" WHERE ").split(" FROM ")
    return f"{columns} FROM {owners_table()} CROSS JOIN {table} WHERE session_id = owner.value AND "


def _rows_numbered(
    select: str, sessions: Sequence[str], numbers: Sequence[int], limit: int | None
) -> Iterator[tuple[Any, ...]]:
    if isinstance(numbers, range):
        where, values = "number BETWEEN %s AND %s", [numbers[0], numbers[-1]] if numbers else [1, 0]
    else:
        where, values = f"number IN ({', '.join(['%s'] * len(numbers))})", [*numbers]
    where += "" if limit is None else f" LIMIT {limit}"
    rows = run_sql(select + where, [owners_value(sessions), *values]) if sessions and values else []
    read_id = cache(as_uuid)
    return ((read_id(id), *row) for id, *row in rows)


def outline_rows_in(spans: Sequence[Span], limit: int) -> list[OutlineRow]:
    """At most ``limit`` rows of steps that begin in the spans or were cut before one, in order of anchors."""
    return [OutlineRow(*row) for row in _rows_in(_OUTLINE_ROWS, spans, limit)]


def row_places_in(spans: Sequence[Span], limit: int) -> list[RowPlace]:
    """The places of the same rows."""
    return [RowPlace(*row) for row in _rows_in(_ROW_PLACES, spans, limit)]


def _rows_in(select: str, spans: Sequence[Span], limit: int) -> Iterator[tuple[Any, ...]]:
    ids = {session_value(session): UUID(session) for session in {span.session for span in spans}}
    where = " OR ".join(["session_id = %s AND anchor BETWEEN %s AND %s"] * len(spans))
    values = [value for span in spans for value in (session_value(span.session), span.first - 1, span.last)]
    rows = fetch_all(f"{select}{where} ORDER BY anchor LIMIT {limit}", values)
    return ((ids[id], *row) for id, *row in rows)


def api_key(key_hash: str) -> ApiKey | None:
    """The API key with this hash and its project, usable or not. None if there is none."""
    for row in run_sql(_KEY, (key_hash,)):
        id, project_id, prefix, scopes, *moments = _key_values(row)
        key = loaded(ApiKey, KEY_COLUMNS, (id, project_id, prefix, list(scopes), *moments))
        # Setting the attribute would first look for the routers of both rows' databases.
        key._state.fields_cache["project"] = loaded(Project, ("id",), (project_id,))
        return key
    return None


@lru_cache(maxsize=1024)
def _key_values(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts a row. Cached, because a key's row is the same in each request."""
    id, project_id, prefix, scopes, *moments = row
    ids = [as_uuid(value) for value in (id, project_id)]
    return (*ids, prefix, load_dumped(scopes), *(moment and as_aware(moment) for moment in moments))


def loaded(model: type[M], columns: Sequence[str], values: Iterable[Any]) -> M:
    """A model instance with some columns loaded. The others are deferred.

    ``Model.from_db`` loops over all fields and sends signals, which takes as long as a short query.
    """
    row = model.__new__(model)
    row.__dict__.update(zip(columns, values, strict=True))
    row._state = ModelState()
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    return row


def fetch_all(statement: str, values: Iterable[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values))
        return list(cursor.fetchall())


def as_aware(value: datetime) -> datetime:
    """A time from the database with its time zone. SQLite stores UTC without a zone."""
    return value if value.tzinfo else value.replace(tzinfo=UTC)
