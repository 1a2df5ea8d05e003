"""Ranges of steps that were cut in different ways, aligned where all of them have a boundary."""

from collections.abc import Iterable
from typing import NamedTuple


class StepSpan(NamedTuple):
    """Consecutive steps, both included."""

    first: int
    last: int


def common_spans(whole: StepSpan, spans: Iterable[StepSpan]) -> list[StepSpan]:
    """The shortest ranges that no span crosses, in their order. Steps that no span covers have their own.

    >>> common_spans(StepSpan(1, 5), [StepSpan(1, 1), StepSpan(2, 2), StepSpan(1, 2), StepSpan(4, 5)])
    [StepSpan(first=1, last=2), StepSpan(first=3, last=3), StepSpan(first=4, last=5)]
    """
    found: list[StepSpan] = []
    next_step = whole.first
    for span in sorted(spans):
        if found and span.first <= found[-1].last:
            found[-1] = StepSpan(found[-1].first, max(found[-1].last, span.last))
        else:
            if span.first > next_step:
                found.append(StepSpan(next_step, span.first - 1))
            found.append(span)
        next_step = found[-1].last + 1
    if next_step <= whole.last:
        found.append(StepSpan(next_step, whole.last))
    return found
