"""Which entries of the log a session stands on: its lineage, a short list of spans (DESIGN 3).

Positions are shared along a lineage: a fork keeps its parent's positions up to the fork point and continues
them. So a position names at most one live entry, spans are disjoint and ascending, and the entries before a
given one never change: cutting is all that a rewind or a fork does.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The entries ``first`` to ``last`` (both included) that were appended to ``session``."""

    session: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"a span needs 1 <= first <= last, not {self.first}..{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Lineage:
    """Live spans, oldest first."""

    spans: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        for older, newer in zip(self.spans, self.spans[1:], strict=False):
            if older.last >= newer.first:
                raise ValueError(f"spans overlap or are out of order: {older}, {newer}")

    @classmethod
    def of(cls, rows: Iterable[Iterable[str | int]]) -> "Lineage":
        """From stored rows ``[session, first, last]``."""
        return cls(tuple(Span(str(s), int(a), int(b)) for s, a, b in rows))

    def rows(self) -> list[tuple[str, int, int]]:
        """As stored: ``(session, first, last)``, oldest first."""
        return [(span.session, span.first, span.last) for span in self.spans]

    def __len__(self) -> int:
        return sum(map(len, self.spans))

    @property
    def last(self) -> int:
        """The newest live position; 0 when nothing is live."""
        return self.spans[-1].last if self.spans else 0

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions whose entries it holds, each once, oldest first."""
        return tuple(dict.fromkeys(span.session for span in self.spans))

    def cut(self, to_position: int) -> "Lineage":
        """What is left when everything after ``to_position`` is taken away."""
        kept = [span for span in self.spans if span.first <= to_position]
        if kept and kept[-1].last > to_position:
            kept[-1] = Span(kept[-1].session, kept[-1].first, to_position)
        return Lineage(tuple(kept))

    def extend(self, session: str, first: int, last: int) -> "Lineage":
        """With the entries ``first`` to ``last`` of ``session`` at its end; adjoining spans become one.

        Raises:
            ValueError: when they do not come after everything live.
        """
        if self.spans and self.spans[-1].session == session and self.spans[-1].last + 1 == first:
            return Lineage((*self.spans[:-1], Span(session, self.spans[-1].first, last)))
        return Lineage((*self.spans, Span(session, first, last)))

    def session_at(self, position: int) -> str | None:
        """The session whose entry is live at the position, or None."""
        span = self._span_at(position)
        return span.session if span else None

    def contains(self, session: str, position: int) -> bool:
        """Whether the entry that ``session`` has at ``position`` is live."""
        return self.session_at(position) == session

    def starts_at(self, session: str, position: int) -> bool:
        """Whether the lineage goes on there, in ``session``, after a rewind or a fork."""
        span = self._span_at(position)
        return span is not None and (span.session, span.first) == (session, position)

    def _span_at(self, position: int) -> Span | None:
        index = bisect_right(self.spans, position, key=lambda span: span.first) - 1
        return self.spans[index] if index >= 0 and position <= self.spans[index].last else None

    def newest_first(self) -> Iterator[tuple[str, int]]:
        """``(session, position)`` of every live entry, newest first."""
        for span in reversed(self.spans):
            for position in range(span.last, span.first - 1, -1):
                yield span.session, position

    def without(self, other: "Lineage") -> "Lineage":
        """The entries live here and not in ``other``: what a rewind from here to there cuts off."""
        kept: list[Span] = []
        for span in self.spans:
            first = span.first
            for hole in other.spans:
                if hole.session != span.session or hole.last < first or hole.first > span.last:
                    continue
                if hole.first > first:
                    kept.append(Span(span.session, first, hole.first - 1))
                first = hole.last + 1
            if first <= span.last:
                kept.append(Span(span.session, first, span.last))
        return Lineage(tuple(kept))
