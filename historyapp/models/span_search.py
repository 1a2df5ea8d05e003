"""Finds steps by reading the spans of a lineage, if most steps in the indexes are not live.

The index of failed steps includes the failed steps of ten thousand takes, and a fork of two hundred forks has
to read it for two hundred sessions. This search reads only live steps, in order, a thousand entries at a
time.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

from django.db.models import Case, Q, Value, When

from historyapp.core.lineage import Span
from historyapp.models.entries import in_spans, span_batches
from historyapp.models.episodes import SEVERAL_TOOLS, Episode
from historyapp.models.fields import session_value
from historyapp.models.history import History
from historyapp.models.sql import RowPlace, fetch_all
from historyapp.models.step_positions import first_with, totals_at

MAX_ENTRIES = 40_000
"""The maximum number of entries of one search."""
_AT_ONCE = 1_000
"""Entries of one batch. The database compares their steps."""
_MAX_SPANS = 100
_ROWS_AT_ONCE = 50
_CUTS = "SELECT anchor, number FROM historyapp_episode WHERE "


class _CutStep(NamedTuple):
    """A step that a rewind or a fork cut, and that does not match after the cut."""

    number: int
    anchor: int


def live_matches(
    history: History, condition: Q, names: set[str], numbers: range
) -> Iterator[tuple[int, Episode | None]]:
    """Yields numbers and rows of live steps that may match, in the order of ``numbers``, each number once.

    A number without a row means that the search has reached its limit: all steps up to this one have been
    compared.

    Args:
        condition: the condition that the database checks.
        names: names of tools. A step must have called one of them. Empty: any.
    """
    forwards = numbers.step > 0
    lowest, highest = sorted((numbers[0], numbers[-1]))
    start = first_with(history.lineage, "steps", lowest) if lowest > 1 else ("", 1)
    if start is None:
        return
    end = first_with(history.lineage, "steps", highest + 1) if highest < history.steps - 1 else None
    last = end[1] if end else history.lineage.last
    spans = history.lineage.between(start[1], last, newest_first=not forwards)
    if names:
        condition &= Q(tool__in={*names, SEVERAL_TOOLS})
    read, checked = 0, set[int]()
    # The last step of a batch, because the next batch may have a newer row of it.
    undecided: list[RowPlace | _CutStep] = []
    for batch in span_batches(_pieces(spans, forwards=forwards), _MAX_SPANS):
        rows = [*undecided, *_read(batch, condition, forwards=forwards)]
        if forwards:
            newest = {row.number: row for row in rows}
            rows = list(newest.values())
            undecided = rows[-1:]
            rows = rows[:-1]
        live: list[RowPlace] = []
        for row in rows:
            if lowest <= row.number <= highest and row.number not in checked:
                checked.add(row.number)
                live += _shown([row])
        yield from _in_full(live)
        read += sum(map(len, batch))
        if read < MAX_ENTRIES:
            continue
        edge = batch[-1]
        number = (totals_at(edge.session, edge.last if forwards else edge.first) or {}).get("steps", 0)
        done = number - 1 if forwards else number + (number not in checked)
        if lowest <= done <= highest:  # otherwise no step has been compared
            yield from _in_full([row for row in _shown(undecided) if lowest <= row.number <= done])
            yield done, None
            return
    left = [row for row in _shown(undecided) if lowest <= row.number <= highest and row.number not in checked]
    yield from _in_full(left)


def _pieces(spans: Iterable[Span], *, forwards: bool) -> Iterator[Span]:
    """Splits spans into spans of at most a thousand entries, in the same direction."""
    for span in spans:
        starts = range(span.first, span.last + 1, _AT_ONCE)
        for start in starts if forwards else reversed(starts):
            yield Span(span.session, start, min(span.last, start + _AT_ONCE - 1))


def _shown(rows: Iterable[RowPlace | _CutStep]) -> Iterator[RowPlace]:
    return (row for row in rows if isinstance(row, RowPlace))


def _in_full(places: list[RowPlace]) -> Iterator[tuple[int, Episode]]:
    """The rows at these places, in their order, read lazily."""
    for start in range(0, len(places), _ROWS_AT_ONCE):
        batch = places[start : start + _ROWS_AT_ONCE]
        rows = {row.number: row for row in Episode.objects.at(batch)}
        yield from ((place.number, rows[place.number]) for place in batch)


def _read(batch: list[Span], condition: Q, *, forwards: bool) -> list[RowPlace | _CutStep]:
    """The places of a batch's matching rows and the cut steps that may hide one, by anchor."""
    before = {(span.session, span.first - 1) for span in batch}
    matching = in_spans(Episode.objects.all(), batch, "anchor", before=1)
    if condition:
        # In a form without an index, so that the database finds rows by spans. PostgreSQL uses the index of
        # failed steps if it expects few failures in a session, as most sessions have. It would then read the
        # failed steps of all takes.
        matching = matching.filter(Case(When(condition, then=Value(True)), default=Value(False)))
    # A cut step has a separate row. Only rows that are shown are read in full.
    places = [RowPlace(*row) for row in matching.values_list(*RowPlace._fields)]
    rows: list[tuple[int, bool, RowPlace | _CutStep]] = []
    for row in places:
        key = str(row.session_id), row.anchor
        rows.append((row.anchor, key in before, row))
        before.discard(key)
    before &= _may_hide(batch, places)
    if before and condition:
        where = " OR ".join(["session_id = %s AND anchor = %s"] * len(before))
        values = [value for session, anchor in before for value in (session_value(session), anchor)]
        cut = fetch_all(_CUTS + where, values)
        rows += [(anchor, True, _CutStep(number, anchor)) for anchor, number in cut]
    rows.sort(key=itemgetter(0, 1), reverse=not forwards)
    return [row for _, _, row in rows]


def _may_hide(batch: list[Span], places: Iterable[RowPlace]) -> set[tuple[str, int]]:
    """The anchors at which a cut step has a newer row: before the span after the row's span, and before the
    first span of the batch for a step of the previous batch.
    """
    spans = sorted(batch, key=lambda span: span.first)
    starts = [span.first for span in spans]
    at = {(span.session, span.first - 1): index for index, span in enumerate(spans)}
    following = {0}
    for row in places:
        own = at.get((str(row.session_id), row.anchor), bisect_right(starts, row.anchor) - 1)
        following.add(own + 1)
    return {(spans[index].session, spans[index].first - 1) for index in following if index < len(spans)}
