"""The texts of the hits of a search, for their snippets."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

from historyapp.core.lineage import Span
from historyapp.core.searchable import Passage, passages
from historyapp.models.fields import length_of_body, session_value
from historyapp.models.search import SearchHit
from historyapp.models.search_steps import ReadCount, ReadingStopped, entries_where

MAX_READ = 1 << 24
"""The maximum number of characters of the entries that are read for one page of hits."""
MAX_BODY = 1 << 22
"""The maximum number of bytes of a stored body that is read."""
NEAR = 200
"""Of a step, the entries from its first one and from its output on that are read."""
_SHORT_BODY = 1 << 12
"""Bytes up to which a stored body is read together with the others of the page."""


def passages_of(hits: Sequence[SearchHit]) -> dict[int, list[Passage]]:
    """The live texts of hits by the ids of their rows. Of a take, all texts; of a long step, some.

    One query, and one for each long text.
    """
    spans = [span for hit in hits for span in _read_spans(hit)]
    if not spans:
        return {}
    anywhere = " OR ".join(["session_id = %s AND position BETWEEN %s AND %s"] * len(spans))
    where = f"({anywhere}) AND {length_of_body()} <= {MAX_BODY}"
    values = [value for span in spans for value in (session_value(span.session), span.first, span.last)]
    texts: dict[UUID, list[Passage]] = {}
    for session, logged in entries_where(where, values, ReadCount(MAX_READ), _SHORT_BODY):
        with suppress(ReadingStopped):  # shorter texts after it may still be read
            found = passages(logged.position, logged.step, logged.kind, logged.read()[0])
            texts.setdefault(session, []).extend(found)
    by_step: dict[int, list[Passage]] = {}
    for hit in hits:
        owner = str(hit.row.owner)
        by_step[hit.row.id] = [
            passage
            for passage in texts.get(hit.row.owner, ())
            if hit.row.first <= passage.position <= hit.row.last
            and (not hit.live or hit.lineage.contains(owner, passage.position))
        ]
    return by_step


def _read_spans(hit: SearchHit) -> Iterator[Span]:
    """The first :data:`NEAR` entries of the row, and the first after its anchor."""
    row = hit.row
    end = min(row.last, row.first + NEAR - 1)
    yield Span(str(row.owner), row.first, end)
    start = max(end + 1, row.anchor)
    if start <= row.last:
        yield Span(str(row.owner), start, min(row.last, start + NEAR - 1))
