"""A run's outcomes in at most 32 bars, for lists of sessions.

Each bar represents 1, 2, 4, … consecutive steps. A session stores the running totals after the last step of
each bar except the newest. Few appends change what is stored. The rows of these steps have the same totals.

>>> list(bar_ends(5)), list(bar_ends(33))[:3]
([1, 2, 3, 4], [2, 4, 6])
"""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from historyapp.core.json import dump_plain
from historyapp.core.projection import Step

MAX_BARS = 32


class StripMark(NamedTuple):
    """Running totals of a history up to and including one step."""

    errors: int
    likely_failures: int
    tokens: int


class StripBar(NamedTuple):
    """The summed figures of one bar's steps."""

    first_step: int
    last_step: int
    errors: int
    likely_failures: int
    tokens: int


NO_MARKS: Sequence[StripMark] = ()


def bar_ends(steps: int) -> range:
    """The last steps of all bars but the newest one."""
    width = _width(steps)
    return range(width, steps, width)


def _width(steps: int) -> int:
    """The steps of one bar: the smallest power of two with which there are at most 32 bars."""
    return 1 << (max(steps - 1, 0) // MAX_BARS).bit_length()


def mark_of(step: Step) -> StripMark:
    """The totals after a step."""
    return StripMark(step.total_errors, step.total_likely_failures, step.total_tokens)


def extend_strip(stored: str, ended: Step) -> str:
    """The totals to store when another step follows ``ended``. Empty if ``stored`` lacks some totals."""
    width = _width(ended.number + 1)
    if ended.number % width and width == _width(ended.number):
        return stored  # after most steps
    before, after = bar_ends(ended.number), bar_ends(ended.number + 1)
    marks = load_strip(stored)
    if len(marks) != len(before):
        return ""
    marks_by_step = dict(zip(before, marks, strict=True))
    marks_by_step[ended.number] = mark_of(ended)
    return dump_strip([marks_by_step[end] for end in after])


def cut_strip(stored: str, steps: int, kept: int) -> str | None:
    """The strip after a history of ``steps`` steps is cut to its first ``kept`` steps.

    None if the totals in ``stored`` do not suffice: some are missing, or the bars become narrower.
    """
    marks = load_strip(stored)
    if kept > steps or len(marks) != len(bar_ends(steps)) or _width(kept) != _width(steps):
        return None
    return dump_strip(marks[: len(bar_ends(kept))])


def dump_strip(marks: Sequence[StripMark]) -> str:
    """As stored."""
    return dump_plain(marks) if marks else ""


def load_strip(stored: str) -> Sequence[StripMark]:
    """The totals in a text of :func:`dump_strip`."""
    return [StripMark(*mark) for mark in json.loads(stored)] if stored else NO_MARKS


def bars_of(stored: str, newest: Step | None) -> Iterator[StripBar]:
    """The bars of a run; without stored totals, one bar for all steps.

    Args:
        newest: its newest step.
    """
    if newest is None:
        return
    marks, ends = load_strip(stored), bar_ends(newest.number)
    if len(marks) != len(ends):
        marks, ends = NO_MARKS, range(0)
    step = errors = likely = tokens = 0
    for end, mark in zip((*ends, newest.number), (*marks, mark_of(newest)), strict=True):
        yield StripBar(
            step + 1, end, max(0, mark[0] - errors), max(0, mark[1] - likely), max(0, mark[2] - tokens)
        )
        step, (errors, likely, tokens) = end, mark
