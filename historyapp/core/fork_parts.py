"""The spans of a chain of forks in which nothing was rewound: one for each session.

They follow from the fork points alone, so no stored lineage has to be read for them.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from historyapp.core.spans import Span


@dataclass(frozen=True, slots=True)
class ForkParts:
    """Adjoining spans. A :class:`Span` is created only for those that are used."""

    sessions: Sequence[str]
    """Oldest first, at least one."""
    firsts: Sequence[int]
    """The first position of each session."""
    last: int

    def at(self, position: int) -> Span | None:
        """The span that contains a position, or None."""
        index = bisect_right(self.firsts, position) - 1
        return self._span(index) if index >= 0 and position <= self.last else None

    def between(self, first: int, last: int, *, newest_first: bool = False) -> Iterator[Span]:
        """The parts of the spans between two positions, both included."""
        if first > last:
            return
        indexes = range(max(0, bisect_right(self.firsts, first) - 1), bisect_right(self.firsts, last))
        for index in reversed(indexes) if newest_first else indexes:
            span = self._span(index)
            if first <= span.first and span.last <= last:
                yield span
            elif span.last >= first:
                yield Span(span.session, max(span.first, first), min(span.last, last))

    def _span(self, index: int) -> Span:
        following = index + 1
        last = self.firsts[following] - 1 if following < len(self.firsts) else self.last
        return Span(self.sessions[index], self.firsts[index], last)
