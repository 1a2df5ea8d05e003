"""A cache of a session's blocks for the searches of one request.

A list of steps is searched in both directions from one step. Both searches share the blocks near this step
and together take one query for the signatures and one for the texts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from historyapp.core.searchable import load_passages, may_contain
from historyapp.models.fields import at_places, owners_table, owners_value, session_value, uuid_text
from historyapp.models.long_rows import AT_ONCE, long_rows
from historyapp.models.run_sql import run_sql
from historyapp.models.sql import fetch_all
from historyapp.models.text_blocks import ReadPassages, ordered, unpack_text

_NEAR, _IN_ONE_DIRECTION = 128, 256
"""Signatures that the first query reads: on each side of a position, or in the direction of a search."""
_FURTHER = 2_048
"""Signatures that each later query reads."""
_TEXTS_AT_ONCE = (16, 384)
"""Blocks that the first query reads, and each later one. Most searches end in the first."""
_COLUMNS = "SELECT first_position, last_position, signature FROM historyapp_textblock WHERE session_id = %s"
_AROUND = (
    f"SELECT * FROM ({_COLUMNS} AND first_position <= %s "  # noqa: S608 made of constants
    "ORDER BY first_position DESC LIMIT %s) AS earlier "
    f"UNION ALL SELECT * FROM ({_COLUMNS} AND first_position > %s ORDER BY first_position LIMIT %s) AS later "
    "UNION ALL SELECT * FROM (SELECT first_position, last_position, CAST(NULL AS bytea) "
    "FROM historyapp_textblock WHERE session_id = %s ORDER BY first_position DESC LIMIT 1) AS newest"
)
_TOGETHER = (
    "SELECT session_id, first_position, last_position, signature "  # noqa: S608
    "FROM {} CROSS JOIN historyapp_textblock "
    f"WHERE session_id = owner.value AND first_position <= %s LIMIT {_IN_ONE_DIRECTION}"
)
_BETWEEN = _COLUMNS + " AND first_position BETWEEN %s AND %s ORDER BY {order} LIMIT %s"
_TEXTS = "SELECT first_position, last_position, text FROM historyapp_textblock WHERE {where} ORDER BY {order}"
_END = 2**31 - 1
"""A position beyond all entries."""
StoredText = tuple[int, int, Any]
"""First and last position and the compressed text of a block."""


class BlockSignature(NamedTuple):
    first: int
    last: int
    bits: bytes


@dataclass(frozen=True, slots=True)
class _BlockRange:
    """Adjacent blocks, in order."""

    blocks: list[BlockSignature]
    first: int
    last: int
    """It has all blocks between these positions."""

    def covers(self, position: int) -> bool:
        return self.first <= position <= self.last


class PlacedSignature(NamedTuple):
    """The signature of a block of one of several sessions."""

    session: str
    first: int
    last: int
    bits: bytes


def signatures_together(sessions: Sequence[str], last: int) -> list[PlacedSignature] | None:
    """The signatures of several sessions up to a position, in order. None if they are many."""
    rows = run_sql(_TOGETHER.format(owners_table()), [owners_value(sessions), last])
    if len(rows) == _IN_ONE_DIRECTION:
        return None
    rows.sort(key=itemgetter(1))
    return [PlacedSignature(uuid_text(id), first, last, bits) for id, first, last, bits in rows]


class BlockCache:
    """The blocks of one session."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.end = 0
        """The last position in a block. 0 before the first read, or if there are no blocks."""
        self._near = _BlockRange([], 1, 0)
        self.texts = dict[tuple[str, int], StoredText]()
        """By session and first position, those near a position from which a list is searched in both
        directions."""

    def read_signatures(self, position: int, *, earlier: int, later: int) -> None:
        """Reads this many signatures on both sides of a position, in one query."""
        if self._near.covers(position):
            return
        id = session_value(self.session)
        rows = fetch_all(_AROUND, [id, position, earlier, id, position, later, id])
        self.end = max([last for _, last, bits in rows if bits is None], default=0)
        blocks = sorted([BlockSignature(*row) for row in rows if row[2] is not None], key=itemgetter(0))
        has_first = sum([block.first <= position for block in blocks]) < earlier
        last = blocks[-1].last if blocks else position if self.end else 0
        self._near = _BlockRange(
            blocks, 1 if has_first else blocks[0].first, _END if last == self.end else last
        )

    def read_around(self, position: int, searches: Iterable[set[int]]) -> None:
        """Reads the signatures near a position, and the nearest texts that may contain the trigrams."""
        self.read_signatures(position, earlier=_NEAR, later=_NEAR)
        limit, starts = _TEXTS_AT_ONCE[0], set[int]()
        for trigrams in searches:
            near = [block for block in self._near.blocks if may_contain(block.bits, trigrams)]
            starts.update([block.first for block in near if block.last > position][:limit])
            starts.update([block.first for block in near if block.first <= position][-limit:])
        size = 0
        for row in _stored_texts([(self.session, start) for start in sorted(starts)], newest_first=False):
            self.texts[self.session, row[0]] = row
            size += len(row[2])
            if size >= AT_ONCE:
                break

    def candidates(
        self, first: int, last: int, trigrams: set[int], *, newest_first: bool = False
    ) -> Iterator[int]:
        """The first positions of blocks that may contain all the trigrams, in order."""
        for block in self._signatures(first, last, newest_first=newest_first):
            if block.last >= first and block.first <= last and may_contain(block.bits, trigrams):
                yield block.first

    def _signatures(self, first: int, last: int, *, newest_first: bool) -> Iterator[BlockSignature]:
        self.prepare(first, last, newest_first=newest_first)
        near = self._near
        yield from reversed(near.blocks) if newest_first else near.blocks
        lowest, highest = (1, near.first - 1) if newest_first else (near.last + 1, last)
        order = ordered("first_position", newest_first)
        statement = _BETWEEN.format(order=order)
        while lowest <= highest:
            values, read = [session_value(self.session), lowest, highest, _FURTHER], 0
            for row in long_rows(statement, values, order, ("signature",)):
                read += 1
                yield (block := BlockSignature(*row))
            if read < _FURTHER:
                return
            lowest, highest = (lowest, block.first - 1) if newest_first else (block.last + 1, highest)

    def prepare(self, first: int, last: int, *, newest_first: bool) -> None:
        """Reads the first signatures of a search between two positions, unless they are cached."""
        position = last if newest_first else first
        earlier, later = (_IN_ONE_DIRECTION, 0) if newest_first else (1, _IN_ONE_DIRECTION)
        self.read_signatures(position, earlier=earlier, later=later)


def read_texts(
    blocks: Iterator[tuple[str, int]],
    needle: str,
    limit: int,
    known: Mapping[tuple[str, int], StoredText],
    *,
    newest_first: bool = False,
) -> Iterator[ReadPassages]:
    """The passages of each block that contain the text, in the order of ``blocks``.

    Args:
        blocks: their sessions and first positions, which must be different in each.
        needle: in lower case.
        limit: the maximum number of blocks to read.
        known: texts that have been read, by session and first position.
    """
    blocks = islice(blocks, limit)
    for size in chain(_TEXTS_AT_ONCE, repeat(_TEXTS_AT_ONCE[-1])):
        batch = list(islice(blocks, size))
        if not batch:
            return
        cached = [known[block] for block in batch if block in known]
        missing = [block for block in batch if block not in known]
        stored = _stored_texts(missing, newest_first=newest_first)
        for first, last, packed in merge(cached, stored, key=itemgetter(0), reverse=newest_first):
            text = unpack_text(packed)
            yield ReadPassages(first, last, load_passages(text, needle), len(text))


def _stored_texts(places: Sequence[tuple[str, int]], *, newest_first: bool) -> Iterator[StoredText]:
    if not places:
        return
    order = ordered("first_position", newest_first)
    where, values = at_places(places, "first_position")
    yield from long_rows(_TEXTS.format(where=where, order=order), values, order, ("text",))
