"""Reads a session's own entries, or its live ones, in little memory whatever their length."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from historyapp.core import entries as core
from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span
from historyapp.models.entries import span_batches, spans_between
from historyapp.models.fields import session_value, sized_body, sized_fields, sized_json, unpack
from historyapp.models.long_rows import long_rows
from historyapp.models.sql import as_aware

_RANGE, _SPANS = 500, 60
"""The maximum numbers of positions and of spans of one query."""
_OWN_ROWS = "SELECT position, kind, created_at, body, tokens, totals, metadata FROM historyapp_entry WHERE "
_IN_SPAN = "session_id = %s AND position BETWEEN %s AND %s"


class OwnRow(NamedTuple):
    """The columns of an entry, read without an instance of the model."""

    position: int
    kind: str
    created_at: datetime
    body: dict[str, Any]
    tokens: int
    totals: dict[str, Any]
    metadata: dict[str, Any]
    size: int
    """The bytes that the body and the loaded metadata take in memory."""

    def core(self) -> core.Entry:
        """The entry as a value of the core."""
        body = core.load_body(self.kind, self.body)
        return core.Entry(self.position, body, self.created_at, self.metadata, self.tokens)


def own_rows(
    session: UUID, first: int, last: int, metadata: tuple[str, ...] | None = None
) -> Iterator[OwnRow]:
    """A session's own entries between two positions (both included), live or not, in order.

    Args:
        metadata: the keys of the metadata to load; None: all.
    """
    return _rows([Span(str(session), first, last)] if first <= last else [], metadata)


def live_rows(
    lineage: Lineage,
    after: int = 0,
    metadata: tuple[str, ...] | None = None,
    kinds: tuple[str, ...] = (),
) -> Iterator[OwnRow]:
    """The live entries after a position, oldest first.

    Args:
        metadata: as in :func:`own_rows`.
        kinds: the kinds to read; empty: all.
    """
    return _rows(spans_between(lineage, after), metadata, kinds)


def row_at(lineage: Lineage, position: int, body: tuple[str, ...] | None = None) -> OwnRow:
    """The live entry at a position, without metadata.

    Args:
        body: the fields of the body to load; None: all.
    """
    return next(_rows(lineage.between(position, position), metadata=(), body=body))


def _rows(
    spans: Iterable[Span],
    metadata: tuple[str, ...] | None = None,
    kinds: tuple[str, ...] = (),
    body: tuple[str, ...] | None = None,
) -> Iterator[OwnRow]:
    """One body at a time is read from its stored form, so entries of any length take little memory.

    A query reads several short spans, because a run may have one for each step. It has no limit: for a limit,
    PostgreSQL may read and sort all entries of a session.
    """
    condition = f" AND kind IN ({', '.join(['%s'] * len(kinds))})" if kinds else ""
    for batch in span_batches(_short(spans), _SPANS, max_entries=_RANGE):
        within = " OR ".join([_IN_SPAN] * len(batch))
        statement = f"{_OWN_ROWS}({within}){condition} ORDER BY position"
        values = [value for span in batch for value in (session_value(span.session), span.first, span.last)]
        for row in long_rows(statement, [*values, *kinds], "position", ("body", "metadata")):
            yield _own_row(row, metadata, body)


def _short(spans: Iterable[Span]) -> Iterator[Span]:
    """Divides spans of more than :data:`_RANGE` positions."""
    for span in spans:
        for start in range(span.first, span.last + 1, _RANGE):
            yield Span(span.session, start, min(span.last, start + _RANGE - 1))


def _own_row(row: tuple[Any, ...], keys: tuple[str, ...] | None, fields: tuple[str, ...] | None) -> OwnRow:
    """Not in the generator, which would hold the texts of the row while it reads the next one."""
    position, kind, created_at, packed, tokens, totals, metadata = row
    text = unpack(packed)
    body, body_size = sized_body(text) if fields is None else sized_fields(text, fields)
    loaded, size = sized_json(metadata) if keys is None else sized_fields(metadata, keys)
    time = as_aware(created_at)
    return OwnRow(position, kind, time, body, tokens, load_dumped(totals), loaded, body_size + size)
