"""Finding steps by going through the spans of a lineage, where indexes would find mostly what is not live.

Ten thousand takes of failed steps all stand in the index of failed steps, and a fork of two hundred forks has
two hundred such indexes. This search reads live steps only: a thousand entries at a time, in their order.
"""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

from django.db.models import Case, Q, Value, When

from historyapp.core.lineage import Span
from historyapp.models.entries import in_spans, span_batches
from historyapp.models.episodes import SEVERAL_TOOLS, Episode
from historyapp.models.fields import session_value
from historyapp.models.history import History
from historyapp.models.places import first_with, totals_at
from historyapp.models.sql import fetch_all

MOST_ENTRIES = 40_000
"""Entries whose steps one search goes through."""
_AT_ONCE = 1_000
"""Entries; their steps are compared in the database."""
_MOST_SPANS = 100
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
    end = first_with(history.lineage, "steps", highest + 1)
    last = end[1] if end else history.lineage.last
    spans = history.lineage.between(start[1], last, newest_first=not forwards)
    if names:
        wanted &= Q(tool__in={*names, SEVERAL_TOOLS})
    read, known = 0, set[int]()
    held: list[Episode | _CutStep] = []  # the last step of a batch: the next batch may have its newer row
    for batch in span_batches(_pieces(spans, forwards=forwards), _MOST_SPANS):
        rows = [*held, *_read(batch, wanted, forwards=forwards)]
        if forwards:
            newest = {row.number: row for row in rows}
            rows = list(newest.values())
            held = rows[-1:]
            rows = rows[:-1]
        for row in rows:
            if lowest <= row.number <= highest and row.number not in known:
                known.add(row.number)
                if isinstance(row, Episode):
                    yield row.number, row
        read += sum(map(len, batch))
        if read < MOST_ENTRIES:
            continue
        edge = batch[-1]
        number = (totals_at(edge.session, edge.last if forwards else edge.first) or {}).get("steps", 0)
        done = number - 1 if forwards else number + (number not in known)
        if lowest <= done <= highest:  # else not even one step has been gone through
            yield from ((row.number, row) for row in _shown(held) if lowest <= row.number <= done)
            yield done, None
            return
    for row in _shown(held):
        if lowest <= row.number <= highest and row.number not in known:
            yield row.number, row


def _pieces(spans: Iterable[Span], *, forwards: bool) -> Iterator[Span]:
    """Spans of at most a thousand entries, in the same direction."""
    for span in spans:
        starts = range(span.first, span.last + 1, _AT_ONCE)
        for start in starts if forwards else reversed(starts):
            yield Span(span.session, start, min(span.last, start + _AT_ONCE - 1))


def _shown(rows: Iterable[Episode | _CutStep]) -> Iterator[Episode]:
    return (row for row in rows if isinstance(row, Episode))


def _without_index(wanted: Q) -> Case:
    """The condition in a form for which no index serves, so that rows are found by their spans.

    PostgreSQL takes the index of failed steps where it expects few of them in a session, as in most, and then
    reads those of all takes.
    """
    return Case(When(wanted, then=Value(True)), default=Value(False))


def _read(batch: list[Span], wanted: Q, *, forwards: bool) -> list[Episode | _CutStep]:
    """The rows of a batch that match, and all that were made by a cut before a span, by their anchors."""
    before = {(span.session, span.first - 1) for span in batch}
    rows_in_spans = in_spans(Episode.objects.defer("excerpt"), batch, "anchor", before=1)
    found = rows_in_spans.filter(_without_index(wanted)) if wanted else rows_in_spans
    rows: list[tuple[int, bool, Episode | _CutStep]] = []
    for row in found:
        key = str(row.session_id), row.anchor
        rows.append((row.anchor, key in before, row))
        before.discard(key)
    if before and wanted:
        where = " OR ".join(["session_id = %s AND anchor = %s"] * len(before))
        values = [value for session, anchor in before for value in (session_value(session), anchor)]
        cut = fetch_all(_CUTS + where, values)
        rows += [(anchor, True, _CutStep(number, anchor)) for anchor, number in cut]
    rows.sort(key=itemgetter(0, 1), reverse=not forwards)
    return [row for _, _, row in rows]
