"""Aligns ranges of steps that were divided in different ways, at the boundaries that all of them share."""

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
    common: list[StepSpan] = []
    next_step = whole.first
    for span in sorted(spans):
        if common and span.first <= common[-1].last:
            common[-1] = StepSpan(common[-1].first, max(common[-1].last, span.last))
        else:
            if span.first > next_step:
                common.append(StepSpan(next_step, span.first - 1))
            common.append(span)
        next_step = common[-1].last + 1
    if next_step <= whole.last:
        common.append(StepSpan(next_step, whole.last))
    return common
