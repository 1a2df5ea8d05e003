"""Finds the positions of steps in a lineage by the running totals of its entries.

Takes and forks reuse step numbers: of ten thousand rows with a number only one may be live. Totals only grow
along a lineage, so O(log n) reads find the first entry with a total, whatever was cut off.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span
from historyapp.models.fields import as_uuid, at_places, uuid_value
from historyapp.models.sql import fetch_all

_TOTALS = "SELECT totals FROM historyapp_entry WHERE session_id = %s AND position = %s"
_TOTALS_OF = "SELECT session_id, position, totals FROM historyapp_entry WHERE "
_CANDIDATES = (
    "SELECT COUNT(*) FROM (SELECT 1 FROM historyapp_episode WHERE number BETWEEN %s AND %s AND session_id "
)
MAX_SPANS = 100
"""The maximum number of spans of one query. SQLite accepts a few hundred conditions."""
_ROWS_OF_STEP, _SPARE_ROWS = 3, 16
"""The maximum number of rows of a step to read instead of searching for a position. If a rewind followed each
step, a step has three rows: its own, the row of the cut step, and the row of the take."""
_PLACES_OF_STEP, _SPARE_PLACES = 16, 64
"""The same for places of rows. They are read faster than whole rows, and a search takes several queries."""


def totals_at(session: str, position: int) -> dict[str, Any] | None:
    """An entry's stored totals, without zeros. None if the session has no such entry."""
    for (stored,) in fetch_all(_TOTALS, [uuid_value(UUID(session)), position]):
        totals: dict[str, Any] = load_dumped(stored)
        return totals
    return None


def _read_totals(lineage: Lineage, places: Iterable[tuple[str, int]]) -> None:
    """Caches the totals at some places, at most a block of them, in the lineage."""
    missing = [place for place in places if place not in lineage.totals]
    if len(missing) < 2:
        return
    where, values = at_places(missing)
    lineage.totals.update(dict.fromkeys(missing))
    for session, position, stored in fetch_all(_TOTALS_OF + where, values):
        lineage.totals[str(as_uuid(session)), position] = load_dumped(stored)


def first_with(lineage: Lineage, name: str, minimum: int) -> tuple[str, int] | None:
    """The session and position of the first live entry at which a total is at least ``minimum``, or None.

    Args:
        name: a total that only grows: ``steps``, ``errors``, ``tokens``.
    """

    def total(session: str, position: int) -> int | None:
        key = session, position
        if key not in lineage.totals:
            lineage.totals[key] = totals_at(session, position)
        totals = lineage.totals[key]
        return None if totals is None else int(totals.get(name, 0))

    def is_before(session: str, position: int) -> bool | None:
        value = total(session, position)
        return None if value is None else value < minimum

    if not lineage.newest or is_before(lineage.newest[-1].session, lineage.last):
        return None
    span = lineage.last_span_before(is_before, partial(_read_totals, lineage))
    if span is not None:
        position = _first_in(span, lambda position: total(span.session, position) or 0, minimum)
        if position is not None:
            return span.session, position
    for following in lineage.between(span.last + 1 if span else 1, lineage.last):
        return following.session, following.first
    return None


def _first_in(span: Span, total: Callable[[int], int], minimum: int) -> int | None:
    """The first position with the total in a span. The span's first entry must have less.

    Totals grow evenly in most sessions, so the search interpolates. Every other probe is at the middle.
    """
    low, high = span.first, span.last
    below, above = total(low), total(high)
    if above < minimum:
        return None
    is_even = True
    while high - low > 1:
        share = (minimum - below) / (above - below) if is_even else 0.5
        position = min(high - 1, max(low + 1, low + round(share * (high - low))))
        value = total(position)
        if value < minimum:
            low, below = position, value
        else:
            high, above = position, value
        is_even = not is_even
    return high


def spans_from_step(lineage: Lineage, number: int) -> Iterator[Span]:
    """The spans of a lineage from the output of a step."""
    start = first_with(lineage, "steps", number) if number > 1 else ("", 1)
    if start is not None:
        yield from lineage.between(start[1], lineage.last)


def growing_batches(spans: Iterable[Span], entries: int) -> Iterator[list[Span]]:
    """Groups spans, one group for each query. The entries of a group double each time."""
    batch: list[Span] = []
    left = entries
    for span in spans:
        batch.append(span)
        left -= len(span)
        if left <= 0 or len(batch) == MAX_SPANS:
            yield batch
            batch, entries = [], entries * 2
            left = entries
    if batch:
        yield batch


def row_limit(first: int, last: int) -> int:
    """The maximum number of rows of steps ``first`` to ``last`` to read in order to find the live ones."""
    return _ROWS_OF_STEP * (last - first + 1) + _SPARE_ROWS


def place_limit(numbers: Sequence[int]) -> int:
    """The maximum number of places of rows with these numbers to read in order to find the live ones."""
    return _PLACES_OF_STEP * len(numbers) + _SPARE_PLACES


def consecutive(numbers: Iterable[int]) -> list[range]:
    """The numbers as ascending ranges.

    >>> consecutive([7, 3, 1, 2])
    [range(1, 4), range(7, 8)]
    """
    parts: list[range] = []
    for number in sorted(numbers):
        if parts and parts[-1].stop >= number:
            parts[-1] = range(parts[-1].start, number + 1)
        else:
            parts.append(range(number, number + 1))
    return parts


def have_few_rows(lineage: Lineage, first: int, last: int) -> bool:
    """Whether only a few rows of the lineage's sessions have these step numbers. At most one query.

    True for a single span: usually nothing was cut off, and the reader stops at :func:`row_limit`.
    """
    if not lineage.older and len(lineage.newest) < 2:
        return True
    sessions = [uuid_value(UUID(session)) for session in lineage.owners]
    if not sessions:
        return False
    limit = row_limit(first, last)
    query = f"{_CANDIDATES}IN ({', '.join(['%s'] * len(sessions))}) LIMIT {limit + 1}) AS candidate"
    ((has_few,),) = fetch_all(query, [first, last, *sessions])
    return bool(has_few <= limit)
