"""Finding steps by going through the spans of a lineage, where indexes would find mostly what is not live.

Ten thousand takes of failed steps all stand in the index of failed steps, and a fork of two hundred forks has
two hundred such indexes. This search reads live steps only: a thousand entries at a time, in their order.
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

MOST_ENTRIES = 40_000
"""Entries whose steps one search goes through."""
_AT_ONCE = 1_000
"""Entries; their steps are compared in the database."""
_MOST_SPANS = 100
_ROWS_AT_ONCE = 50
_CUTS = "SELECT anchor, number FROM historyapp_episode WHERE "


class _CutStep(NamedTuple):
    """A step as a rewind or a fork cut it, where this does not match what is wanted."""

    number: int
    anchor: int


def live_matches(
    history: History, wanted: Q, names: set[str], numbers: range
) -> Iterator[tuple[int, Episode | None]]:
    """Numbers and rows of live steps that may match, in the order of ``numbers``, each number once.

    A number without a row ends a search that has gone through as much as it may: all steps up to this one
    have been compared.

    Args:
        wanted: what the database compares.
        names: of tools, of which a step has one; empty: any.
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
        wanted &= Q(tool__in={*names, SEVERAL_TOOLS})
    read, known = 0, set[int]()
    held: list[RowPlace | _CutStep] = []  # the last step of a batch: the next batch may have its newer row
    for batch in span_batches(_pieces(spans, forwards=forwards), _MOST_SPANS):
        rows = [*held, *_read(batch, wanted, forwards=forwards)]
        if forwards:
            newest = {row.number: row for row in rows}
            rows = list(newest.values())
            held = rows[-1:]
            rows = rows[:-1]
        live: list[RowPlace] = []
        for row in rows:
            if lowest <= row.number <= highest and row.number not in known:
                known.add(row.number)
                live += _shown([row])
        yield from _in_full(live)
        read += sum(map(len, batch))
        if read < MOST_ENTRIES:
            continue
        edge = batch[-1]
        number = (totals_at(edge.session, edge.last if forwards else edge.first) or {}).get("steps", 0)
        done = number - 1 if forwards else number + (number not in known)
        if lowest <= done <= highest:  # else not even one step has been gone through
            yield from _in_full([row for row in _shown(held) if lowest <= row.number <= done])
            yield done, None
            return
    left = [row for row in _shown(held) if lowest <= row.number <= highest and row.number not in known]
    yield from _in_full(left)


def _pieces(spans: Iterable[Span], *, forwards: bool) -> Iterator[Span]:
    """Spans of at most a thousand entries, in the same direction."""
    for span in spans:
        starts = range(span.first, span.last + 1, _AT_ONCE)
        for start in starts if forwards else reversed(starts):
            yield Span(span.session, start, min(span.last, start + _AT_ONCE - 1))


def _shown(rows: Iterable[RowPlace | _CutStep]) -> Iterator[RowPlace]:
    return (row for row in rows if isinstance(row, RowPlace))


def _in_full(places: list[RowPlace]) -> Iterator[tuple[int, Episode]]:
    """The rows at some places, read as they are consumed, in their order."""
    for start in range(0, len(places), _ROWS_AT_ONCE):
        some = places[start : start + _ROWS_AT_ONCE]
        rows = {row.number: row for row in Episode.objects.at(some)}
        yield from ((place.number, rows[place.number]) for place in some)


def _without_index(wanted: Q) -> Case:
    """The condition in a form for which no index serves, so that rows are found by their spans.

    PostgreSQL takes the index of failed steps where it expects few of them in a session, as in most, and then
    reads those of all takes.
    """
    return Case(When(wanted, then=Value(True)), default=Value(False))


def _read(batch: list[Span], wanted: Q, *, forwards: bool) -> list[RowPlace | _CutStep]:
    """Where a batch's rows are that match, and the steps of cuts that may hide one, by their anchors."""
    before = {(span.session, span.first - 1) for span in batch}
    matching = in_spans(Episode.objects.all(), batch, "anchor", before=1)
    matching = matching.filter(_without_index(wanted)) if wanted else matching
    # A cut step has a row of its own: only those that are shown are read in full.
    found = [RowPlace(*row) for row in matching.values_list(*RowPlace._fields)]
    rows: list[tuple[int, bool, RowPlace | _CutStep]] = []
    for row in found:
        key = str(row.session_id), row.anchor
        rows.append((row.anchor, key in before, row))
        before.discard(key)
    before &= _may_hide(batch, found)
    if before and wanted:
        where = " OR ".join(["session_id = %s AND anchor = %s"] * len(before))
        values = [value for session, anchor in before for value in (session_value(session), anchor)]
        cut = fetch_all(_CUTS + where, values)
        rows += [(anchor, True, _CutStep(number, anchor)) for anchor, number in cut]
    rows.sort(key=itemgetter(0, 1), reverse=not forwards)
    return [row for _, _, row in rows]


def _may_hide(batch: list[Span], found: Iterable[RowPlace]) -> set[tuple[str, int]]:
    """Where a cut would have made a newer row of a found step: before the span that follows the row's, and
    before the first span of the batch, for a step of the batch before.
    """
    spans = sorted(batch, key=lambda span: span.first)
    starts = [span.first for span in spans]
    at = {(span.session, span.first - 1): index for index, span in enumerate(spans)}
    following = {0}
    for row in found:
        own = at.get((str(row.session_id), row.anchor), bisect_right(starts, row.anchor) - 1)
        following.add(own + 1)
    return {(spans[index].session, spans[index].first - 1) for index in following if index < len(spans)}
