"""Steps for the ``budgeted`` policy: excerpts without bodies.

The excerpt of a step is computed from its entries when a context first reads the step, and stored with the
snapshot of this context. A process caches excerpts by the step's last position: entries never change, so a
step's excerpt changes only when the step gets another entry.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from historyapp.core.entries import Entry
from historyapp.core.excerpts import Excerpt, ExcerptLine, excerpts_of
from historyapp.core.identifiers import identifiers
from historyapp.core.json import load_dumped
from historyapp.core.policies.base import RangeSummary, StepOutline
from historyapp.core.tokens import count_tokens
from historyapp.models.fields import unpack
from historyapp.models.sql import OutlineRow
from historyapp.models.summaries import SummaryRow, own_by_step

MAX_CACHED = 10_000
"""The maximum number of excerpts that a process caches, a few KB each. The oldest are dropped first."""

_MAX_GAP = 8
"""Excerpts are computed again for at most this many steps in a row, if those before and after have none."""


class _Key(NamedTuple):
    session: UUID
    anchor: int
    last_position: int


_cache: dict[_Key, Excerpt] = {}
_lock = threading.Lock()


def read_excerpts(rows: Sequence[OutlineRow], load: Callable[[int, int], Iterable[Entry]]) -> list[Excerpt]:
    """The excerpts of the steps of some rows, in their order.

    Args:
        rows: oldest first.
        load: reads the outputs and results between two positions (both included), oldest first.
    """
    keys = [_Key(row.session_id, row.anchor, row.last_position) for row in rows]
    excerpts = {key: _cache.get(key) for key in keys}
    for key, row in zip(keys, rows, strict=True):
        if excerpts[key] is None and row.excerpt:
            excerpts[key] = _cached(key, Excerpt.load(load_dumped(unpack(row.excerpt))))
    missing = [(row, key) for row, key in zip(rows, keys, strict=True) if excerpts[key] is None]
    for part in _without_gaps(missing):
        keys_by_output = {row.first_position: key for row, key in part}
        # Cached one by one: if the request may not read more, the next one continues here.
        for output, excerpt in excerpts_of(load(min(keys_by_output), part[-1][0].last_position)):
            if output in keys_by_output:
                key = keys_by_output[output]
                excerpts[key] = _cached(key, excerpt)
    return [excerpts[key] or Excerpt() for key in keys]


def _without_gaps(missing: Sequence[tuple[OutlineRow, _Key]]) -> Iterator[list[tuple[OutlineRow, _Key]]]:
    """The steps in parts whose entries are read at once."""
    part: list[tuple[OutlineRow, _Key]] = []
    for row, key in missing:
        if part and row.number - part[-1][0].number > _MAX_GAP:
            yield part
            part = []
        part.append((row, key))
    if part:
        yield part


def outlined(
    rows: Sequence[OutlineRow], excerpts: Sequence[Excerpt], summaries: Sequence[SummaryRow]
) -> list[StepOutline]:
    """The outlined steps of some rows, oldest first.

    Args:
        excerpts: of the steps.
        summaries: the summaries that end within the steps.
    """
    own = own_by_step(summaries)
    ranges = [summary for summary in summaries if summary.first_step < summary.last_step]
    # Of ranges with the same end the last one is used.
    ranges.sort(key=lambda s: (s.level, -s.first_step, s.id))
    ranges_by_end = {summary.last_step: summary for summary in ranges}
    digests = {
        end: RangeSummary(summary.id, summary.first_step, line)
        for end, summary in ranges_by_end.items()
        if (line := _line(summary.text))
    }
    return [
        StepOutline(
            number=row.number,
            first_position=row.first_position,
            last_position=row.last_position,
            status=row.status,  # type: ignore[arg-type]  # the column's choices are these
            excerpt=excerpt,
            summary=_line(own[row.number].text) if row.number in own else None,
            digest=digests.get(row.number),
        )
        for row, excerpt in zip(rows, excerpts, strict=True)
    ]


def _cached(key: _Key, excerpt: Excerpt) -> Excerpt:
    with _lock:
        _cache[key] = excerpt
        while len(_cache) > MAX_CACHED:
            del _cache[next(iter(_cache))]
    return excerpt


def _line(text: str) -> ExcerptLine | None:
    return ExcerptLine(text, count_tokens(text), tuple(identifiers(text))) if text else None
