"""Steps for the ``budgeted`` policy: excerpts without bodies.

The excerpt of a step is computed from its entries when a context first reads the step, and stored with the
snapshot of this context. A process caches excerpts by the step's last position: entries never change, so a
step's excerpt changes only when the step gets another entry.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from historyapp.core.entries import Entry
from historyapp.core.excerpts import Excerpt, ExcerptLine, excerpts_of
from historyapp.core.identifiers import identifiers
from historyapp.core.json import load_dumped
from historyapp.core.policies.base import RangeSummary, StepOutline
from historyapp.core.process_memory import empty_while_unused
from historyapp.core.tokens import count_tokens
from historyapp.models.fields import unpack
from historyapp.models.long_rows import count_read
from historyapp.models.sql import OutlineRow
from historyapp.models.summaries import SummaryRow, own_by_step

MAX_CACHED = 96 * 2**20
"""The maximum number of bytes of the excerpts that a process caches: 2 to 100 KB each, 5 KB on average."""

_NAMED, _NAMES = 20_000, 200
"""The characters of a summary in which names are looked for, and the maximum number of names."""
_MAX_GAP = 8
"""Excerpts are computed again for at most this many steps in a row, if those before and after have none."""


class _Key(NamedTuple):
    session: UUID
    anchor: int
    last_position: int


class _ExcerptCache:
    """The newest excerpts that were computed or loaded. The oldest are dropped first."""

    def __init__(self) -> None:
        self._excerpts: dict[_Key, tuple[Excerpt, int]] = {}
        self._lock = threading.Lock()
        self.memory = self.uses = 0

    def get(self, key: _Key) -> tuple[Excerpt, int] | None:
        """An excerpt and the bytes that it takes in memory."""
        self.uses += 1
        return self._excerpts.get(key)

    def add(self, key: _Key, excerpt: Excerpt) -> int:
        """Returns the bytes that the excerpt takes in memory."""
        memory = excerpt.memory
        with self._lock:
            self.uses += 1
            if key not in self._excerpts:
                self._excerpts[key] = excerpt, memory
                self.memory += memory
            while self.memory > MAX_CACHED:
                self.memory -= self._excerpts.pop(next(iter(self._excerpts)))[1]
        return memory

    def clear(self) -> None:
        with self._lock:
            self._excerpts.clear()
            self.memory = self.uses = 0


_cache = _ExcerptCache()
empty_while_unused(_cache.clear, lambda: _cache.uses)


def read_excerpts(rows: Sequence[OutlineRow], load: Callable[[int, int], Iterable[Entry]]) -> list[Excerpt]:
    """The excerpts of the steps of some rows, in their order.

    Args:
        rows: oldest first.
        load: reads the outputs and results between two positions (both included), oldest first.

    Raises:
        Invalid, ServerUnavailable: if they take more memory than the request may still read.
    """
    keys = [_Key(row.session_id, row.anchor, row.last_position) for row in rows]
    cached = {key: _cache.get(key) for key in keys}
    excerpts = {key: found[0] for key, found in cached.items() if found}
    _count(sum(found[1] for found in cached.values() if found))

    def add(key: _Key, excerpt: Excerpt) -> None:
        excerpts[key] = excerpt
        # Cached before it counts: if the bodies exceed the limit of the request, the next one continues here.
        _count(_cache.add(key, excerpt))

    for key, row in zip(keys, rows, strict=True):
        if key not in excerpts and row.excerpt:
            add(key, Excerpt.load(load_dumped(unpack(row.excerpt))))
    missing = [(row, key) for row, key in zip(rows, keys, strict=True) if key not in excerpts]
    for part in _without_gaps(missing):
        keys_by_output = {row.first_position: key for row, key in part}
        for output, excerpt in excerpts_of(load(min(keys_by_output), part[-1][0].last_position)):
            if output in keys_by_output:
                add(keys_by_output[output], excerpt)
    return [excerpts.get(key) or Excerpt() for key in keys]


def _count(memory: int) -> None:
    """Counts the memory of excerpts. Requests share most of it, so a quarter counts towards large reads."""
    count_read(memory, memory // 4)


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


def _line(text: str) -> ExcerptLine | None:
    names = tuple(islice(identifiers(text[:_NAMED]), _NAMES))
    return ExcerptLine(text, count_tokens(text), names) if text else None
