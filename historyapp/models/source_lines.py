"""The lines of results in which the agent read names that it used later.

A process caches them: entries never change. Only a context in another process, or of a step that uses a new
name, reads the results again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from historyapp.core.entries import Entry, ToolResults
from historyapp.core.excerpts import FoundLine, TextLines, read_text
from historyapp.core.lineage import Lineage
from historyapp.core.policies.base import StepOutline
from historyapp.core.process_memory import empty_while_unused
from historyapp.core.results import returned_text
from historyapp.models.sql import each_entry_in

MAX_CACHED = 20_000
"""Lines of at most 5 KB. The oldest are dropped first."""


class _LineKey(NamedTuple):
    session: UUID
    last_position: int
    """Of the step, which has other results when it has another last position."""
    name: str


class _LineCache:
    """The newest lines that were looked for."""

    def __init__(self) -> None:
        self.lines: dict[_LineKey, FoundLine | None] = {}
        self.uses = 0
        self._lock = Lock()  # other threads add and drop lines at any time

    def known(self, keys: Iterable[_LineKey]) -> dict[_LineKey, FoundLine | None]:
        """The cached lines of these keys."""
        with self._lock:
            return {key: self.lines[key] for key in keys if key in self.lines}

    def add(self, key: _LineKey, line: FoundLine | None) -> None:
        with self._lock:
            self.lines[key] = line
            while len(self.lines) > MAX_CACHED:
                del self.lines[next(iter(self.lines))]

    def clear(self) -> None:
        with self._lock:
            self.lines.clear()
            self.uses = 0


_cache = _LineCache()
empty_while_unused(_cache.clear, lambda: _cache.uses)


def lines_with(
    session: UUID, lineage: Lineage, names: Sequence[tuple[StepOutline, str]]
) -> list[FoundLine | None]:
    """For each step and name, the first line of the step's results that contains the name. Reads the results
    of all steps whose lines are not cached in one query for each hundred spans.
    """
    _cache.uses += 1
    keys = [_LineKey(session, step.last_position, name) for step, name in names]
    lines = _cache.known(keys)
    missing = [(step, key) for (step, _), key in zip(names, keys, strict=True) if key not in lines]
    steps = sorted({step.first_position: step for step, _ in missing}.values(), key=_first_position)
    names_by_step: dict[int, list[_LineKey]] = {}
    for step, key in missing:
        names_by_step.setdefault(step.first_position, []).append(key)
    for step, text in _texts(lineage, steps):
        lines_of_text = TextLines(text)
        for key in names_by_step[step.first_position]:
            lines[key] = lines_of_text.line_with(key.name)
            _cache.add(key, lines[key])
    return [lines.get(key) for key in keys]


def _first_position(step: StepOutline) -> int:
    return step.first_position


def _texts(lineage: Lineage, steps: Sequence[StepOutline]) -> Iterator[tuple[StepOutline, str]]:
    """The beginning of the results of each step that has any. ``steps``: oldest first."""
    if not steps:
        return
    ends = [step.last_position for step in steps]
    entries = each_entry_in(
        lineage, ("tool_results",), [(step.first_position, step.last_position) for step in steps]
    )
    for number, group in groupby(entries, key=lambda entry: bisect_left(ends, entry.position)):
        yield steps[number], read_text(*_result_texts(group))


def _result_texts(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry.body, ToolResults):
            yield from map(returned_text, entry.body.results)
