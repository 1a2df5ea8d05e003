"""Steps as the ``budgeted`` policy reads them: by their excerpts, without bodies.

A step's row has its excerpt from when the step was written. Where it has none, since an import stores without
them, it is worked out of the entries. Either way a process keeps what it has read: the entries of a step
never change, so neither does its excerpt; only a step that goes on gets another one.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from historyapp.core.entries import Entry
from historyapp.core.excerpts import Excerpt, ExcerptLine
from historyapp.core.identifiers import identifiers
from historyapp.core.json import load_dumped
from historyapp.core.policies.base import RangeSummary, StepOutline
from historyapp.core.projection import Tail, advance
from historyapp.core.tokens import count_tokens
from historyapp.models.fields import unpack
from historyapp.models.sql import OutlineRow
from historyapp.models.summaries import Summary, own_by_step

MOST = 10_000
"""Excerpts that a process keeps, of a few KB each; the oldest go first."""


class _Key(NamedTuple):
    session: UUID
    anchor: int
    last_position: int


_kept: dict[_Key, Excerpt] = {}
_lock = threading.Lock()


def outlined(
    rows: Sequence[OutlineRow],
    summaries: Sequence[Summary],
    load: Callable[[int, int], Iterable[Entry]],
) -> list[StepOutline]:
    """Steps by their places, oldest first.

    Args:
        summaries: those that end within the steps.
        load: gives the outputs and results between two positions, both included, oldest first.
    """
    own, ranges = own_by_step(summaries), _ranges_by_end(summaries)
    keys = [_Key(row.session_id, row.anchor, row.last_position) for row in rows]
    known = {key: _kept.get(key) or _stored(key, row) for key, row in zip(keys, rows, strict=True)}
    missing = {row.first_position: key for row, key in zip(rows, keys, strict=True) if known[key] is None}
    if missing:
        last = max(key.last_position for key in missing.values())
        for first, excerpt in excerpts_of(load(min(missing), last)).items():
            if first in missing:
                known[missing[first]] = _keep(missing[first], excerpt)
    return [
        StepOutline(
            number=row.number,
            first_position=row.first_position,
            last_position=row.last_position,
            status=row.status,  # type: ignore[arg-type]  # the column's choices are these
            excerpt=known[key] or Excerpt(),
            summary=_line(own[row.number].text) if row.number in own else None,
            digest=_digest(ranges.get(row.number)),
        )
        for row, key in zip(rows, keys, strict=True)
    ]


def excerpts_of(entries: Iterable[Entry]) -> dict[int, Excerpt]:
    """The excerpts of whole steps, by their first positions."""
    tail = Tail()
    found: dict[int, Excerpt] = {}
    for entry in entries:
        tail = advance(tail, entry).tail
        if tail.step and tail.step.excerpt:
            found[tail.step.first_position] = tail.step.excerpt
    return found


def _stored(key: _Key, row: OutlineRow) -> Excerpt | None:
    return _keep(key, Excerpt.load(load_dumped(unpack(row.excerpt)))) if row.excerpt else None


def _keep(key: _Key, excerpt: Excerpt) -> Excerpt:
    with _lock:
        _kept[key] = excerpt
        while len(_kept) > MOST:
            del _kept[next(iter(_kept))]
    return excerpt


def _ranges_by_end(summaries: Iterable[Summary]) -> dict[int, Summary]:
    """For the last step of each range its newest summary, the highest and widest first."""
    ranges = [summary for summary in summaries if summary.first_step < summary.last_step]
    ranges.sort(key=lambda s: (s.level, -s.first_step, s.id))
    return {summary.last_step: summary for summary in ranges}


def _digest(summary: Summary | None) -> RangeSummary | None:
    line = _line(summary.text) if summary else None
    return RangeSummary(str(summary.pk), summary.first_step, line) if summary and line else None


def _line(text: str) -> ExcerptLine | None:
    return ExcerptLine(text, count_tokens(text), tuple(identifiers(text))) if text else None
