"""The texts of a session in blocks, which searches read.

A block is computed from the entries after the previous block. Entries never change, so blocks do not change.
Forks share the blocks of the sessions that they were forked from.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from django.db import models
from zstandard import ZstdCompressor, ZstdDecompressor

from historyapp.core.json import load_dumped
from historyapp.core.searchable import Passage, dump_passages, passages, signature
from historyapp.core.text import decode_surrogates
from historyapp.models.fields import unpack, unpacked_size, uuid_value
from historyapp.models.long_rows import limited_read, long_rows
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

BLOCK_CHARACTERS, BLOCK_ENTRIES = 1 << 16, 512
"""Limits of a block. It ends with the entry that reaches one of them."""
_ENTRIES_AT_ONCE, _MOST_AT_ONCE = BLOCK_ENTRIES, 4 * BLOCK_ENTRIES
"""Entries of the first batch and of the largest one. Usually there are fewer after the last block."""
_NEWEST = (
    "SELECT last_position FROM historyapp_textblock WHERE session_id = %s "
    "ORDER BY first_position DESC LIMIT 1"
)
_ENTRIES = (
    "SELECT position, kind, body, totals FROM historyapp_entry WHERE session_id = %s AND position > %s "
    "AND position <= %s ORDER BY {order}"
)


class ReadPassages(NamedTuple):
    """The passages of an entry or a block that a search has read."""

    first: int
    """The position of the entry, or the first and the last position of the block."""
    last: int
    passages: list[Passage]
    size: int
    """The characters that were read."""


class TextBlock(models.Model):
    """The texts of consecutive entries of one session."""

    pk = models.CompositePrimaryKey("session", "first_position")
    session = models.ForeignKey(Session, models.CASCADE, related_name="text_blocks", db_index=False)
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    signature = models.BinaryField()
    """See :func:`historyapp.core.searchable.signature`."""
    text = models.BinaryField()
    """The compressed passages, see :func:`historyapp.core.searchable.dump_passages`."""

    def __str__(self) -> str:
        return f"texts of {self.first_position} to {self.last_position}"

    @classmethod
    def of(cls, session: UUID, first: int, last: int, entry_passages: Sequence[Passage]) -> "TextBlock":
        """Makes the block of the entries ``first`` to ``last``."""
        bits = signature("\n".join([passage.text for passage in entry_passages]))
        raw = dump_passages(entry_passages).encode("utf-8", "surrogatepass")
        packed = ZstdCompressor(level=3).compress(raw)
        return cls(session_id=session, first_position=first, last_position=last, signature=bits, text=packed)

    def content(self) -> tuple[int, bytes, str]:
        """The block's content, independent of the version of the compression."""
        return self.last_position, bytes(self.signature), unpack_text(self.text)


def unpack_text(stored: Any) -> str:
    """The text of a block, which may contain one entry of any length. Another process reads a long one."""
    packed, read = bytes(stored), limited_read()
    if read:
        read.expect(unpacked_size(packed))
    raw: bytes = ZstdDecompressor().decompress(packed)
    with suppress(UnicodeDecodeError):
        return raw.decode()
    if read:
        read.add(len(raw))  # lone surrogates take forty times as long to decode
    return decode_surrogates(raw)


def indexed_to(session: UUID) -> int:
    """The last position in a block of the session. 0 if it has no blocks."""
    rows = fetch_all(_NEWEST, [uuid_value(session)])
    return int(rows[0][0]) if rows else 0


def read_entries(
    session: UUID, after: int, last: int, *, newest_first: bool = False
) -> Iterator[ReadPassages]:
    """The passages of each entry of a session after ``after`` and up to ``last``, in order."""
    order, size = ordered("position", newest_first), _ENTRIES_AT_ONCE
    while after < last:
        # A range, not a limit: for a limit, PostgreSQL may read and sort all entries of a session.
        start, end = (max(after, last - size), last) if newest_first else (after, min(last, after + size))
        after, last = (after, start) if newest_first else (end, last)
        size = min(_MOST_AT_ONCE, 2 * size)
        values = [uuid_value(session), start, end]
        for position, kind, packed, totals in long_rows(_ENTRIES.format(order=order), values, order):
            steps, body = load_dumped(totals).get("steps", 0), unpack(packed)
            texts = list(passages(position, steps, kind, load_dumped(body)))
            yield ReadPassages(position, position, texts, len(body))


def ordered(column: str, newest_first: bool) -> str:
    """A term for ``ORDER BY``."""
    return f"{column} DESC" if newest_first else column


def blocks(session: UUID, after: int, last: int) -> Iterator[TextBlock]:
    """The complete blocks of a session's own entries after ``after`` and up to ``last``.

    Args:
        after: the end of a block or, before the first block, the fork position.
    """
    block_passages, first, characters = list[Passage](), after + 1, 0
    for position, _, texts, _ in read_entries(session, after, last):
        block_passages += texts
        characters += sum([len(passage.text) for passage in texts])
        if characters >= BLOCK_CHARACTERS or position - first + 1 >= BLOCK_ENTRIES:
            yield TextBlock.of(session, first, position, block_passages)
            block_passages, first, characters = [], position + 1, 0
