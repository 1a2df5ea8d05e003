"""Samples the steps of a long lineage for its timeline, by the running totals of entries.

Reading rows by step number is slow if many takes reuse the numbers or the steps are in many spans. Then
positions are read instead: the starts of spans and of blocks of spans, and some positions in long spans.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span, SpanBlock
from historyapp.core.projection import Totals
from historyapp.models.fields import as_uuid, at_places
from historyapp.models.sql import fetch_all

MAX_LOADS = 48
"""The maximum number of blocks of spans that one sample loads."""
_MAX_ROUNDS = 6
"""The maximum number of refinements: levels of blocks, and two divisions of long spans."""
_PLACES_AT_ONCE, _SESSIONS_AT_ONCE = 800, 200
"""The maximum number of places of one query, and the maximum number of sessions."""
_TOTALS = "SELECT session_id, position, kind, totals FROM historyapp_entry WHERE "


class StepTotals(NamedTuple):
    """The number of complete steps before a place in a lineage, and their tokens and errors."""

    steps: int
    tokens: int
    errors: int


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive spans, or pointers to blocks of one level. The totals of the first entry are read."""

    items: Sequence[Span] | Sequence[SpanBlock]
    level: int = -1
    """-1: spans."""

    @property
    def key(self) -> tuple[str, int]:
        return self.items[0].session, self.items[0].first

    @property
    def block(self) -> SpanBlock | None:
        """The pointer, if there is only one."""
        first = self.items[0]
        return first if isinstance(first, SpanBlock) and len(self.items) == 1 else None


def sample_totals(lineage: Lineage, steps: int, gap: int) -> list[StepTotals]:
    """Totals at places that are at least ``gap`` steps apart, and usually not much more, in order.

    Args:
        steps: the number of steps of the lineage.
    """
    parts = [_Part([span]) for span in lineage.newest]
    for level, blocks in enumerate(lineage.older):
        parts = [*(_Part([block], level) for block in blocks), *parts]
    totals_at: dict[tuple[str, int], StepTotals | None] = {}
    loads = 0
    for _ in range(_MAX_ROUNDS):
        _read({part.key for part in parts} - totals_at.keys(), totals_at)
        divided: list[tuple[_Part, int]] = []
        divided_at = list[tuple[str, int]]()
        for part, end in zip(parts, _ends(parts, totals_at, steps), strict=True):
            start = totals_at[part.key]
            count = ceil((end - start.steps) / gap) if start else 2
            if count > 1 and part.block:
                count = count if loads + len(divided_at) < MAX_LOADS else 1
                divided_at += [(part.block.session, part.block.position)] * (count > 1)
            divided.append((part, count))
        lineage.load_all(divided_at)
        loads += len(divided_at)
        refined: list[_Part] = []
        for part, count in divided:
            refined += _split(lineage, part, count) if count > 1 else [part]
        if len(refined) == len(parts):
            break
        parts = refined
    samples: list[StepTotals] = []
    for part in parts:
        total = totals_at[part.key]
        if total and total.steps - (samples[-1].steps if samples else 0) >= gap <= steps - total.steps:
            samples.append(total)
    return samples


def steps_at(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The number of steps that begin at or before each of these entries (session, position)."""
    distinct = list(places)
    return {
        (str(as_uuid(id)), position): load_dumped(stored).get("steps", 0)
        for id, position, _, stored in (_totals_at(distinct) if distinct else ())
    }


def totals_at(places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Totals]:
    """The running totals up to and including each of these entries (session, position)."""
    totals: dict[tuple[str, int], Totals] = {}
    for start in range(0, len(places), _SESSIONS_AT_ONCE):
        for id, position, _, stored in _totals_at(places[start : start + _SESSIONS_AT_ONCE]):
            totals[str(as_uuid(id)), position] = Totals.load(load_dumped(stored))
    return totals


def count_steps(lineage: Lineage) -> int:
    """The number of steps in a lineage."""
    if not lineage.newest:
        return 0
    place = lineage.newest[-1].session, lineage.last
    return steps_at({place}).get(place, 0)


def _ends(
    parts: Sequence[_Part], totals_at: dict[tuple[str, int], StepTotals | None], steps: int
) -> list[int]:
    """The number of the last step of each part."""
    ends: list[int] = []
    for part in reversed(parts):
        ends.append(steps)
        total = totals_at[part.key]
        steps = total.steps if total else steps
    return ends[::-1]


def _split(lineage: Lineage, part: _Part, count: int) -> list[_Part]:
    """Divides a part into ``count`` parts, or into twice as many if their lengths are not known."""
    if len(part.items) > 1:
        return _grouped(part.items, part.level, 2 * count)
    if part.block:
        stored = lineage.load(part.block.session, part.block.position)
        if part.level == 0:
            return _grouped(stored.newest, -1, 2 * count)
        return _grouped(stored.older[part.level - 1], part.level - 1, 2 * count)
    (span,) = part.items
    assert isinstance(span, Span)
    starts = sorted({span.first + n * len(span) // count for n in range(count)})
    ends = [*(start - 1 for start in starts[1:]), span.last]
    return [_Part([Span(span.session, start, end)]) for start, end in zip(starts, ends, strict=True)]


def _grouped(parts: Sequence[Span] | Sequence[SpanBlock], level: int, count: int) -> list[_Part]:
    """Divides spans or pointers into at most ``count`` parts of about equal length."""
    size = ceil(len(parts) / count)
    return [_Part(parts[start : start + size], level) for start in range(0, len(parts), size)]


def tokens_at(places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The tokens of the live history at entries (session, position) that exist."""
    found = dict[tuple[str, int], StepTotals | None]()
    _read(set(places), found)
    return {place: totals.tokens for place, totals in found.items() if totals is not None}


def _read(keys: set[tuple[str, int]], totals_at: dict[tuple[str, int], StepTotals | None]) -> None:
    """Adds the totals at entries. None if a session has no such entry: a block may start in
    another session.
    """
    totals_at.update(dict.fromkeys(keys))
    places = sorted(keys)
    are_few = len({session for session, _ in places}) <= _SESSIONS_AT_ONCE
    at_once = _PLACES_AT_ONCE if are_few else _SESSIONS_AT_ONCE
    for start in range(0, len(places), at_once):
        batch = places[start : start + at_once]
        for id, position, kind, stored in _totals_at(batch):
            totals: dict[str, Any] = load_dumped(stored)
            # A step that begins here ends later, and its errors are counted later.
            number = totals.get("steps", 0) - (kind == "model_output")
            total = StepTotals(number, totals.get("tokens", 0), totals.get("errors", 0))
            totals_at[str(as_uuid(id)), position] = total


def _totals_at(places: Collection[tuple[str, int]]) -> list[tuple[Any, ...]]:
    """Session, position, kind and stored totals of the entries at these places."""
    where, values = at_places(places)
    return fetch_all(f"{_TOTALS}{where}", values)
