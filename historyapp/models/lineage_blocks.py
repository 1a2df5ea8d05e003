"""Which entries of a lineage are in blocks of texts, see :mod:`historyapp.models.text_blocks`.

Most forks of forks have one block or none. Whatever their number, one query reads the signatures of all of
them, and one reads the entries after the last block.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from django.utils.functional import cached_property

from historyapp.core.lineage import Span
from historyapp.core.searchable import may_contain
from historyapp.models.block_cache import BlockCache, PlacedSignature, read_texts, signatures_together
from historyapp.models.fields import session_value, uuid_text
from historyapp.models.run_sql import run_sql
from historyapp.models.sessions import Session
from historyapp.models.text_blocks import ReadPassages

MAX_ENTRIES_TOGETHER = 10_000
"""The maximum number of entries of a lineage of several sessions whose signatures are read together."""
_OF_SESSION = "FROM historyapp_textblock WHERE session_id = column1"
_COVERED = (
    f"SELECT column1, (SELECT MIN(first_position) {_OF_SESSION}), newest, "  # noqa: S608 made of constants
    f"(SELECT last_position {_OF_SESSION} AND first_position = newest) FROM ("
    f"SELECT column1, (SELECT MAX(first_position) {_OF_SESSION} AND first_position <= column2) AS newest "
    "FROM (VALUES {}) AS part) AS session WHERE newest IS NOT NULL"
)


class OwnPart(NamedTuple):
    """The entries of a lineage that were appended to one session, live or not. A fork of two hundred forks
    has two hundred, so it is cheaper than a span."""

    session: str
    first: int
    last: int


class Covered(NamedTuple):
    """The entries that are in the blocks of a session. The first ones may be of sessions before it."""

    first: int
    last: int
    end: int
    """The end of the last block that has only entries of the lineage."""


class Piece(NamedTuple):
    """Consecutive entries that are all in blocks, or in no block.

    Only its last block may also have later entries, which are of another session or after the search.
    """

    spans: list[Span]
    """In the order of the search. In blocks: by the session that has the block."""
    in_blocks: bool

    @property
    def first(self) -> int:
        return min(self.spans[0].first, self.spans[-1].first)

    @property
    def last(self) -> int:
        return max(self.spans[0].last, self.spans[-1].last)


def own_parts(session: Session, last: int) -> list[OwnPart]:
    """The entries up to a position by their session, newest first."""
    if session.forked_from_id is None:
        return [OwnPart(str(session.pk), 1, last)] if last else []
    parts = list[OwnPart]()
    for ancestor in session.ancestors:
        if ancestor.shared < last:
            parts.append(OwnPart(ancestor.name, ancestor.shared + 1, last))
            last = ancestor.shared
    return parts


def covered(parts: Sequence[OwnPart]) -> dict[str, Covered]:
    """What the blocks of each session cover. Sessions without blocks are left out."""
    if not parts:
        return {}
    values = [value for part in parts for value in (session_value(part.session), part.last)]
    rows = run_sql(_COVERED.format(", ".join(["(%s, %s)"] * len(parts))), values)
    ends = {part.session: part.last for part in parts} if rows else {}
    found = dict[str, Covered]()
    for id, first, newest, last in rows:
        session = uuid_text(id)
        end = ends[session]
        found[session] = Covered(first, min(last, end), last if last <= end else newest - 1)
    return found


def divided(
    parts: Sequence[OwnPart], blocks: Mapping[str, Covered], *, complete: bool = False
) -> list[Piece]:
    """The pieces of a lineage, oldest first. A newer session's blocks may replace older ones.

    Args:
        complete: without a block that has later entries of an ancestor too.
    """
    pieces, top = list[Piece](), parts[0].last if parts else 0

    def add(session: str, first: int, last: int, *, in_blocks: bool, is_end: bool = False) -> None:
        if not pieces or pieces[-1].in_blocks != in_blocks or is_end:
            pieces.append(Piece([], in_blocks))
        pieces[-1].spans.append(Span(session, first, last))

    for session, first, own_last in parts:
        if top < first:
            continue
        last, own = min(own_last, top), blocks.get(session)
        end = min(last, own.end if complete else own.last) if own else 0
        if own is None or end < own.first:
            add(session, first, last, in_blocks=False)
            continue
        if end < last:
            add(session, max(first, end + 1), last, in_blocks=False)
        add(session, own.first, end, in_blocks=True, is_end=end > own.end)
        top = own.first - 1
    return [_reversed(piece) for piece in reversed(pieces)]


class LineageBlocks:
    """The blocks of a session and its ancestors that one request reads.

    Args:
        last: the last position of the lineage.
    """

    def __init__(self, session: Session, last: int) -> None:
        self.last = last
        self.parts = own_parts(session, last)
        self._caches = dict[str, BlockCache]()

    def _cache(self, session: str) -> BlockCache:
        if session not in self._caches:
            self._caches[session] = BlockCache(session)
        return self._caches[session]

    def owner(self, position: int) -> str:
        """The session to which the entry at a position was appended."""
        return next(part.session for part in self.parts if part.first <= position)

    @cached_property
    def _all_signatures(self) -> list[PlacedSignature] | None:
        """All signatures, oldest first. None if they are many, or if there is only one session."""
        if len(self.parts) < 2 or self.last > MAX_ENTRIES_TOGETHER:
            return None
        return signatures_together([part.session for part in self.parts], self.last)

    @cached_property
    def _pieces(self) -> list[Piece]:
        blocks = self._all_signatures
        return divided(self.parts, covered(self.parts) if blocks is None else _covered_by(blocks, self.parts))

    def read_around(self, position: int, searches: Iterable[set[int]]) -> None:
        """Reads the signatures and texts near a position, see :meth:`BlockCache.read_around`."""
        if len(self.parts) == 1:
            self._cache(self.parts[0].session).read_around(position, searches)
            return
        if self._all_signatures is None:
            for piece in self._pieces:
                for span in piece.spans if piece.in_blocks else ():
                    if span.first <= position <= span.last:
                        self._cache(span.session).read_around(position, searches)

    def pieces(self, first: int, last: int, *, newest_first: bool = False) -> list[Piece]:
        """The pieces between two positions, in the order of the search."""
        if first > last:
            return []
        pieces = self._pieces if len(self.parts) > 1 else self._of_one(first, last, newest_first=newest_first)
        inside = [clipped for piece in pieces if (clipped := _clipped(piece, first, last))]
        return [_reversed(piece) for piece in reversed(inside)] if newest_first else inside

    def _of_one(self, first: int, last: int, *, newest_first: bool) -> list[Piece]:
        """The pieces of a session that is no fork: the query for the first signatures also has their end."""
        (part,) = self.parts
        cache = self._cache(part.session)
        cache.prepare(first, min(last, part.last), newest_first=newest_first)
        end = cache.end
        return divided(self.parts, {part.session: Covered(1, end, end)} if end else {})

    def texts(
        self, piece: Piece, trigrams: set[int], needle: str, limit: int, *, newest_first: bool = False
    ) -> Iterator[ReadPassages]:
        """The passages of the blocks of a piece that contain the text, see :func:`read_texts`."""
        blocks = self._candidates(piece, trigrams, newest_first=newest_first)
        known = {place: text for cache in self._caches.values() for place, text in cache.texts.items()}
        return read_texts(blocks, needle, limit, known, newest_first=newest_first)

    def _candidates(
        self, piece: Piece, trigrams: set[int], *, newest_first: bool
    ) -> Iterator[tuple[str, int]]:
        """The sessions and first positions of blocks that may contain all the trigrams, in order."""
        if self._all_signatures is not None:
            spans = {span.session: span for span in piece.spans}
            for block in reversed(self._all_signatures) if newest_first else self._all_signatures:
                span = spans.get(block.session)
                is_used = span is not None and block.first <= span.last and block.last >= span.first
                if is_used and may_contain(block.bits, trigrams):
                    yield block.session, block.first
            return
        for span in piece.spans:
            cache = self._cache(span.session)
            for start in cache.candidates(span.first, span.last, trigrams, newest_first=newest_first):
                yield span.session, start


def _covered_by(blocks: Iterable[PlacedSignature], parts: Iterable[OwnPart]) -> dict[str, Covered]:
    """Like :func:`covered`, from all blocks, oldest first."""
    found = dict[str, Covered]()
    ends = {part.session: part.last for part in parts} if blocks else {}
    for session, first, last, _ in blocks:
        end = ends[session]
        if first <= end:
            own = found.get(session)
            found[session] = Covered(
                own.first if own else first, min(last, end), last if last <= end else first - 1
            )
    return found


def _reversed(piece: Piece) -> Piece:
    return Piece(piece.spans[::-1], piece.in_blocks)


def _clipped(piece: Piece, first: int, last: int) -> Piece | None:
    """The part of a piece between two positions."""
    if first <= piece.first and piece.last <= last:
        return piece
    spans = [
        Span(span.session, max(span.first, first), min(span.last, last))
        for span in piece.spans
        if span.first <= last and span.last >= first
    ]
    return Piece(spans, piece.in_blocks) if spans else None
