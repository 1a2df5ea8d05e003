"""The lineage of a session: its live entries, as a list of spans.

Positions are shared along a lineage: a fork keeps its parent's positions up to the fork point and continues
them. So a position names at most one live entry, spans are disjoint and ascending, and the entries before a
given one never change: a rewind or a fork only shortens a lineage.

A span begins after a rewind or after a fork point, and there the lineage before it is stored. A long lineage
is stored as its newest spans and pointers to where the older ones are stored. So each rewind stores a few
rows, and a position is found with one read for each level of pointers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from historyapp.core.fork_parts import ForkParts
from historyapp.core.spans import Span as Span

BLOCK = 16
"""Spans, or pointers of one level, that are stored in one place."""


class SpanBlock(NamedTuple):
    """A pointer to spans that are stored elsewhere: at a rewind of a session, or at its fork point."""

    session: str
    position: int
    """The position of the rewind or fork point. The block is its newest spans, or its pointers of a level."""
    first: int
    """The first position in the block."""


Load = Callable[[str, int], "Lineage"]
"""Returns the lineage that is stored at a session's rewind or fork point."""
ReadAll = Callable[[Iterable[tuple[str, int]]], None]
"""Reads several stored lineages, by session and position, with one query. Called before ``Load``."""
Part = TypeVar("Part", Span, SpanBlock)
_FIRST_BATCH = 4
"""Blocks of spans in the first batch that is loaded; each later batch is twice as large."""


def _load_nothing(session: str, position: int) -> "Lineage":
    raise LookupError(f"the lineage at {position} of {session} is not loaded")


def _read_each(places: Iterable[tuple[str, int]]) -> None:
    """Reads nothing in advance: each place is read when it is used."""


def _no_owners() -> tuple[str, ...]:
    return ()


def _no_parts() -> ForkParts | None:
    return None


@dataclass(frozen=True, slots=True)
class Lineage:
    """Live spans. The newest are in memory; older ones are loaded on demand."""

    newest: tuple[Span, ...] = ()
    """Oldest first. Empty only if nothing is live."""
    older: tuple[tuple[SpanBlock, ...], ...] = ()
    """Pointers to the spans before ``newest``, by level: those of level 0 point to spans, those of a higher
    level to pointers of the level below. Each level is older than the level below it."""
    load: Load = field(default=_load_nothing, compare=False, repr=False)
    load_all: ReadAll = field(default=_read_each, compare=False, repr=False)
    """Loads several lineages at once; ``load`` then returns them without a query."""
    may_own: Callable[[], tuple[str, ...]] = field(default=_no_owners, compare=False, repr=False)
    """Returns the sessions that may own entries of a long lineage, oldest first; empty if not known."""
    parts: Callable[[], ForkParts | None] = field(default=_no_parts, compare=False, repr=False)
    """Returns the newest shared spans of a fork if they are known without reading them, otherwise None."""
    totals: dict[tuple[str, int], Mapping[str, Any] | None] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Running totals that have been read, by session and position. They never change, so cuts share them."""

    def __post_init__(self) -> None:
        for older, newer in zip(self.newest, self.newest[1:], strict=False):
            if older.last >= newer.first:
                raise ValueError(f"spans overlap or are out of order: {older}, {newer}")

    @classmethod
    def of(
        cls,
        stored: Mapping[str, Any] | Iterable[Iterable[str | int]],
        load: Load = _load_nothing,
        load_all: ReadAll = _read_each,
        may_own: Callable[[], tuple[str, ...]] = _no_owners,
        known_parts: Callable[[], ForkParts | None] = _no_parts,
    ) -> "Lineage":
        """From what is stored: rows ``[session, first, last]``, or the form of :meth:`dump`."""
        parts: Mapping[str, Any] = stored if isinstance(stored, Mapping) else {"spans": stored}
        spans = tuple([Span(str(s), int(a), int(b)) for s, a, b in parts["spans"]])
        older = tuple([tuple(map(SpanBlock._make, level)) for level in parts.get("older", ())])
        return cls(spans, older, load, load_all, may_own, known_parts)

    def dump(self) -> Any:
        """The form in which a session stores it: rows, or rows and pointers if there are older spans."""
        if not self.older:
            return self.rows()
        return {
            "spans": [(span.session, span.first, span.last) for span in self.newest],
            "older": self.older,
        }

    def rows(self) -> list[tuple[str, int, int]]:
        """All spans as ``(session, first, last)``, oldest first."""
        return [(span.session, span.first, span.last) for span in self.spans]

    @property
    def spans(self) -> tuple[Span, ...]:
        """All live spans, oldest first. Loads all of them: prefer :meth:`between`."""
        return tuple(self.between(1, self.last)) if self.older else self.newest

    def __len__(self) -> int:
        return sum(map(len, self.spans))

    @property
    def last(self) -> int:
        """The newest live position; 0 when nothing is live."""
        return self.newest[-1].last if self.newest else 0

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that own its entries, each once, oldest first. Loads all spans."""
        return tuple(dict.fromkeys(span.session for span in self.spans))

    @property
    def owners(self) -> tuple[str, ...]:
        """The sessions that may own its entries, oldest first; empty if not known."""
        return self.may_own() if self.older else self.sessions

    def cut(self, to_position: int) -> "Lineage":
        """The lineage without the entries after ``to_position``."""
        newest: Sequence[Span] = self.newest
        levels = list(self.older)
        if self.older and to_position < newest[0].first:
            newest = ()
            for level, blocks in enumerate(self.older):
                if blocks and blocks[0].first <= to_position:
                    newest = self._descend(levels, level, to_position)
                    break
                levels[level] = ()
        kept = [span for span in newest if span.first <= to_position]
        if kept and kept[-1].last > to_position:
            kept[-1] = Span(kept[-1].session, kept[-1].first, to_position)
        while levels and not levels[-1]:
            del levels[-1]
        return replace(self, newest=tuple(kept), older=tuple(levels))

    def _descend(self, levels: list[tuple[SpanBlock, ...]], level: int, position: int) -> tuple[Span, ...]:
        """The spans of the block that contains a position. Removes it and newer blocks from ``levels``."""
        blocks = levels[level]
        while True:
            index = _index(blocks, position)
            levels[level] = blocks[:index]
            if level == 0 and (parts := self.known_older(blocks[index].first)):
                return tuple(parts.between(blocks[index].first, position))
            stored = self.load(blocks[index].session, blocks[index].position)
            if level == 0:
                return stored.newest
            level -= 1
            blocks = stored.older[level]

    def extend(self, session: str, first: int, last: int) -> "Lineage":
        """The lineage extended by the entries ``first`` to ``last`` of ``session``. Joins adjoining spans.

        Raises:
            ValueError: if they do not come after all live entries.
        """
        newest = self.newest
        if newest and newest[-1].session == session and newest[-1].last + 1 == first:
            return replace(self, newest=(*newest[:-1], Span(session, newest[-1].first, last)))
        return replace(self, newest=(*newest, Span(session, first, last)))

    def stored_form(self) -> "Lineage":
        """The same lineage as a rewind or a fork stores it: at most 16 spans, and pointers to the others.

        It is built from the lineage that is stored where the last span begins. Pointers to that place stay
        valid, because entries and fork points never change.
        """
        if not self.newest:
            return self
        last = self.newest[-1]
        session, position = last.session, last.first - 1
        before = self.load(session, position)
        if len(before.newest) < BLOCK:
            return replace(self, newest=(*before.newest, last), older=before.older)
        pointer, levels = SpanBlock(session, position, before.newest[0].first), list(before.older)
        for level, blocks in enumerate(levels):
            if len(blocks) < BLOCK:
                levels[level] = (*blocks, pointer)
                break
            levels[level], pointer = (pointer,), SpanBlock(session, position, blocks[0].first)
        else:
            levels.append((pointer,))
        return replace(self, newest=(last,), older=tuple(levels))

    def session_at(self, position: int) -> str | None:
        """The session whose entry is live at the position, or None."""
        span = self._span_at(position)
        return span.session if span else None

    def contains(self, session: str, position: int) -> bool:
        """Whether the entry that ``session`` has at ``position`` is live."""
        return self.session_at(position) == session

    def _span_at(self, position: int) -> Span | None:
        spans = self.newest
        if self.older and position < spans[0].first:
            if parts := self.known_older(position):
                return parts.at(position)
            spans = ()
            for level, blocks in enumerate(self.older):
                if blocks and blocks[0].first <= position:
                    spans = self._descend(list(self.older), level, position)
                    break
        index = _index(spans, position)
        return spans[index] if index >= 0 and position <= spans[index].last else None

    def known_older(self, first: int) -> ForkParts | None:
        """The spans before ``newest``, if they are known from a position on. They may end later.

        If the first entry of ``newest`` directly follows shared entries or is one of them, all of those
        before it are live.
        """
        parts = self.parts() if self.older else None
        if parts is None or parts.firsts[0] > max(1, first) or self.newest[0].first > parts.last + 1:
            return None
        return parts

    def between(self, first: int, last: int, *, newest_first: bool = False) -> Iterator[Span]:
        """The parts of spans between two positions (both included), loaded as they are consumed."""
        if parts := self.known_older(first):
            older = parts.between(first, min(last, self.newest[0].first - 1), newest_first=newest_first)
            newest = _clipped(self.newest, first, last, newest_first=newest_first)
            yield from chain(newest, older) if newest_first else chain(older, newest)
            return
        level_before = self.newest[0].first if self.newest else 1
        older_levels: list[tuple[int, tuple[SpanBlock, ...], int]] = []
        for level, blocks in enumerate(self.older):
            if blocks:
                older_levels.append((level, blocks, level_before))
                level_before = blocks[0].first
        newest = _clipped(self.newest, first, last, newest_first=newest_first)
        if newest_first:
            yield from newest
        for level, blocks, end in older_levels if newest_first else reversed(older_levels):
            yield from self._loaded(level, blocks, end, (first, last), newest_first=newest_first)
        if not newest_first:
            yield from newest

    def _loaded(
        self,
        level: int,
        blocks: Sequence[SpanBlock],
        end: int,
        within: tuple[int, int],
        *,
        newest_first: bool,
    ) -> Iterator[Span]:
        """The spans of adjoining blocks of a level. The last block ends before ``end``."""
        first, last = within
        ends = [*(block.first for block in blocks[1:]), end]
        pairs = [
            (block, stop)
            for block, stop in zip(blocks, ends, strict=True)
            if block.first <= last and stop > first
        ]
        if newest_first:
            pairs.reverse()
        batch_size = 1 if level else _FIRST_BATCH  # a higher level needs few blocks
        while pairs:
            batch, pairs = pairs[:batch_size], pairs[batch_size:]
            self.load_all([(block.session, block.position) for block, _ in batch])
            for block, stop in batch:
                stored = self.load(block.session, block.position)
                if level == 0:
                    yield from _clipped(stored.newest, first, last, newest_first=newest_first)
                else:
                    below = stored.older[level - 1]
                    yield from self._loaded(level - 1, below, stop, within, newest_first=newest_first)
            batch_size *= 2

    def min_spans_from(self, first: int) -> int:
        """At least as many spans begin at or after a position. Loads nothing: each block is full."""
        spans, size = sum(span.first >= first for span in self.newest), BLOCK
        for blocks in self.older:
            spans += size * sum(block.first >= first for block in blocks)
            size *= BLOCK
        return spans

    def last_span_before(
        self, is_before: Callable[[str, int], bool | None], read_all: ReadAll = _read_each
    ) -> Span | None:
        """The last span that begins before a place in the log, or None. Needs a few reads for each level.

        Args:
            is_before: whether a session's entry at a position is before the place; None: there is none.
            read_all: called with the entries that are passed to ``is_before`` next.
        """
        if self.newest and is_before(self.newest[0].session, self.newest[0].first):
            return _last_before(self.newest, lambda span: bool(is_before(span.session, span.first)))
        for level, blocks in enumerate(self.older):
            if blocks and self._begins_before(level, is_before, blocks[0]):
                break
        else:
            return None
        while True:
            read_all((block.session, block.first) for block in blocks)
            block = _last_before(blocks, partial(self._begins_before, level, is_before))
            stored = self.load(block.session, block.position)
            if level == 0:
                read_all((span.session, span.first) for span in stored.newest)
                return _last_before(stored.newest, lambda span: bool(is_before(span.session, span.first)))
            level -= 1
            blocks = stored.older[level]

    def _begins_before(
        self, level: int, is_before: Callable[[str, int], bool | None], block: SpanBlock
    ) -> bool:
        is_earlier = is_before(block.session, block.first)
        if is_earlier is None:  # the block begins in a session that this one was forked from
            while level:
                level -= 1
                block = self.load(block.session, block.position).older[level][0]
            span = self.load(block.session, block.position).newest[0]
            is_earlier = is_before(span.session, span.first)
        return bool(is_earlier)

    def newest_first(self) -> Iterator[tuple[str, int]]:
        """``(session, position)`` of every live entry, newest first."""
        for span in self.between(1, self.last, newest_first=True):
            for position in range(span.last, span.first - 1, -1):
                yield span.session, position

    def branch_off(self, other: "Lineage", limit: int | None = None) -> "Lineage":
        """The entries that are live here but not in ``other``, a lineage of the same log. Loads only
        the spans that it returns.

        Both begin with the same entries, because the entries before a given one never change.

        Args:
            limit: return at most this many spans, the newest ones.
        """
        kept: list[Span] = []
        for span in islice(self.between(1, self.last, newest_first=True), limit):
            common = other._span_at(span.first)
            if common is not None and common.session == span.session:
                if common.last < span.last:
                    kept.append(Span(span.session, common.last + 1, span.last))
                break
            kept.append(span)
        return Lineage(tuple(kept[::-1]))


def _index(parts: Sequence[Part], position: int) -> int:
    """The index of the last part that begins at or before a position, or -1."""
    return bisect_right(parts, position, key=lambda part: part.first) - 1


def _last_before(parts: Sequence[Part], is_before: Callable[[Part], bool]) -> Part:
    """The last part that begins before a place. The first part must begin before it."""
    return parts[bisect_left(parts, x=True, key=lambda part: not is_before(part)) - 1]


def _clipped(spans: Sequence[Span], first: int, last: int, *, newest_first: bool) -> Iterator[Span]:
    """The parts of some spans between two positions, both included."""
    overlapping = spans[max(0, _index(spans, first)) : _index(spans, last) + 1]
    for span in reversed(overlapping) if newest_first else overlapping:
        if first <= span.first and span.last <= last:
            yield span
        elif max(span.first, first) <= min(span.last, last):
            yield Span(span.session, max(span.first, first), min(span.last, last))
