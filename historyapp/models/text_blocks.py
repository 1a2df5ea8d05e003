"""The texts of a session in blocks, from which searches are answered.

Entries never change, so a block never changes either: it follows from the entries since the block before.
Forks share the blocks of the sessions that they were forked from.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, NamedTuple
from uuid import UUID

from django.db import models
from zstandard import ZstdCompressor, ZstdDecompressor

from historyapp.core.json import load_dumped
from historyapp.core.searchable import (
    Passage,
    dump_passages,
    load_passages,
    lowered,
    may_contain,
    passages,
    signature,
)
from historyapp.models.fields import unpack, uuid_value
from historyapp.models.long_rows import long_rows
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

BLOCK_CHARACTERS, BLOCK_ENTRIES = 1 << 16, 512
"""A block ends with the entry that brings it to one of them."""
_SIGNATURES_AT_ONCE, _ENTRIES_AT_ONCE = 256, 256
_TEXTS_AT_ONCE = (16, 64, 160)
"""Blocks of the first query, of the second one and of further ones: most searches end in the first."""
_SIGNATURES = (
    "SELECT first_position, signature FROM historyapp_textblock "
    "WHERE session_id = %s AND first_position BETWEEN %s AND %s AND last_position >= %s "
    "ORDER BY {order} LIMIT %s"
)
_TEXTS = (
    "SELECT first_position, last_position, text FROM historyapp_textblock "
    "WHERE session_id = %s AND first_position IN ({marks}) ORDER BY {order}"
)
_NEWEST = (
    "SELECT last_position FROM historyapp_textblock WHERE session_id = %s "
    "ORDER BY first_position DESC LIMIT 1"
)
_ENTRIES = (
    "SELECT position, kind, body, totals FROM historyapp_entry WHERE session_id = %s AND position > %s "
    "AND position <= %s ORDER BY {order}"
)


class ReadPassages(NamedTuple):
    """What a search has read."""

    first: int
    """The position of the entry, or those of the first and of the last one of the block."""
    last: int
    passages: list[Passage]
    size: int
    """Characters that were read for them."""


class TextBlock(models.Model):
    """The texts of some entries that follow each other in one session."""

    pk = models.CompositePrimaryKey("session", "first_position")
    session = models.ForeignKey(Session, models.CASCADE, related_name="text_blocks", db_index=False)
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    signature = models.BinaryField()
    """See :func:`historyapp.core.searchable.signature`."""
    text = models.BinaryField()
    """See :func:`historyapp.core.searchable.dump_passages`; compressed."""

    def __str__(self) -> str:
        return f"texts of {self.first_position} to {self.last_position}"

    @classmethod
    def of(cls, session: UUID, first: int, last: int, found: Sequence[Passage]) -> "TextBlock":
        """The block of the entries ``first`` to ``last``."""
        bits = signature(lowered("\n".join([passage.text for passage in found])))
        raw = dump_passages(found).encode("utf-8", "surrogatepass")
        packed = ZstdCompressor(level=3).compress(raw)
        return cls(session_id=session, first_position=first, last_position=last, signature=bits, text=packed)

    def content(self) -> tuple[int, bytes, str]:
        """What of a block does not depend on the version of the compression."""
        return self.last_position, bytes(self.signature), unpack_text(self.text)


def unpack_text(stored: Any) -> str:
    """The text of a block."""
    raw: bytes = ZstdDecompressor().decompress(bytes(stored))
    return raw.decode("utf-8", "surrogatepass")


def indexed_to(session: UUID) -> int:
    """The last position that is in a block of the session; 0 if it has none."""
    rows = fetch_all(_NEWEST, [uuid_value(session)])
    return int(rows[0][0]) if rows else 0


def candidates(
    session: UUID, first: int, last: int, wanted: set[int], *, newest_first: bool = False
) -> Iterator[int]:
    """Where blocks begin that may have all the trigrams between two positions, in order."""
    statement = _SIGNATURES.format(order=_ordered("first_position", newest_first))
    lowest, highest = 0, last
    while True:
        rows = fetch_all(statement, [uuid_value(session), lowest, highest, first, _SIGNATURES_AT_ONCE])
        for begin, bits in rows:
            if may_contain(bits, wanted):
                yield begin
        if len(rows) < _SIGNATURES_AT_ONCE:
            return
        lowest, highest = (lowest, rows[-1][0] - 1) if newest_first else (rows[-1][0] + 1, highest)


def read_texts(
    session: UUID, firsts: Iterator[int], needle: str, most: int, *, newest_first: bool = False
) -> Iterator[ReadPassages]:
    """The passages of each block that have the text, in the order of ``firsts``.

    Args:
        needle: in lower case.
        most: blocks.
    """
    firsts, order = islice(firsts, most), _ordered("first_position", newest_first)
    for size in chain(_TEXTS_AT_ONCE, repeat(_TEXTS_AT_ONCE[-1])):
        batch = list(islice(firsts, size))
        if not batch:
            return
        query = _TEXTS.format(marks=", ".join(["%s"] * len(batch)), order=order)
        for first, last, stored in long_rows(query, [uuid_value(session), *batch], order, ("text",)):
            text = unpack_text(stored)
            yield ReadPassages(first, last, load_passages(text, needle), len(text))


def read_entries(
    session: UUID, after: int, last: int, *, newest_first: bool = False
) -> Iterator[ReadPassages]:
    """The passages of each entry of a session after one position and up to another, in order."""
    starts, order = range(after, last, _ENTRIES_AT_ONCE), _ordered("position", newest_first)
    for start in reversed(starts) if newest_first else starts:
        # A range, not a limit: for a limit, PostgreSQL may read and sort all entries of a session.
        values = [uuid_value(session), start, min(last, start + _ENTRIES_AT_ONCE)]
        for position, kind, packed, totals in long_rows(_ENTRIES.format(order=order), values, order):
            steps, body = load_dumped(totals).get("steps", 0), unpack(packed)
            found = list(passages(position, steps, kind, load_dumped(body)))
            yield ReadPassages(position, position, found, len(body))


def _ordered(column: str, newest_first: bool) -> str:
    return f"{column} DESC" if newest_first else column


def blocks(session: UUID, after: int, last: int) -> Iterator[TextBlock]:
    """The complete blocks of a session's own entries after a position and up to another.

    Args:
        after: where a block ends or, before the first one, the fork position.
    """
    held, first, characters = list[Passage](), after + 1, 0
    for position, _, found, _ in read_entries(session, after, last):
        held += found
        characters += sum([len(passage.text) for passage in found])
        if characters >= BLOCK_CHARACTERS or position - first + 1 >= BLOCK_ENTRIES:
            yield TextBlock.of(session, first, position, held)
            held, first, characters = [], position + 1, 0
