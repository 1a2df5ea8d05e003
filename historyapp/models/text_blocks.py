"""The texts of a session in blocks, which searches read.

A block is computed from the entries after the previous block. Entries never change, so blocks do not change.
Forks share the blocks of the sessions that they were forked from. A session has the blocks that end with one
of its own entries. Its first block begins after the last one that it shares, so that a fork of many short
forks has as many blocks as one session. In blocks of earlier versions, it begins with its first own entry.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from django.db import models
from zstandard import ZstdCompressor, ZstdDecompressor

from historyapp.core.json import load_dumped
from historyapp.core.lineage import Span
from historyapp.core.searchable import Passage, dump_passages, passages, signature
from historyapp.core.text import decode_surrogates
from historyapp.models.fields import session_value, unpack, unpacked_size
from historyapp.models.long_rows import limited_read, long_rows
from historyapp.models.sessions import Session

BLOCK_CHARACTERS, BLOCK_ENTRIES = 1 << 16, 512
"""Limits of a block. It ends with the entry that reaches one of them."""
_ENTRIES_AT_ONCE, _MOST_AT_ONCE = BLOCK_ENTRIES, 4 * BLOCK_ENTRIES
"""Entries of the first batch and of the largest one. Usually there are fewer after the last block."""
_SPANS_AT_ONCE = 60
"""Sessions whose entries one query reads."""
_ENTRIES = "SELECT position, kind, body, totals FROM historyapp_entry WHERE {where} ORDER BY {order}"
_IN_SPAN = "session_id = %s AND position BETWEEN %s AND %s"


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


def read_entries(spans: Iterable[Span], *, newest_first: bool = False) -> Iterator[ReadPassages]:
    """The passages of each entry of some spans, in order.

    Args:
        spans: in the order of the search. Their positions must not overlap.
    """
    order = ordered("position", newest_first)
    for batch in _batches(spans, newest_first=newest_first):
        where = " OR ".join([_IN_SPAN] * len(batch))
        values = [value for span in batch for value in (session_value(span.session), span.first, span.last)]
        for position, kind, packed, totals in long_rows(
            _ENTRIES.format(where=where, order=order), values, order
        ):
            steps, body = load_dumped(totals).get("steps", 0), unpack(packed)
            texts = list(passages(position, steps, kind, load_dumped(body)))
            yield ReadPassages(position, position, texts, len(body))


def _batches(spans: Iterable[Span], *, newest_first: bool) -> Iterator[list[Span]]:
    """Groups and divides spans, a group for each query. A group has twice as many entries as the one before.

    Ranges, not a limit: for a limit, PostgreSQL may read and sort all entries of a session.
    """
    size = left = _ENTRIES_AT_ONCE
    batch: list[Span] = []
    for span in spans:
        first, last = span.first, span.last
        while first <= last:
            length = min(left, last - first + 1)
            start = last - length + 1 if newest_first else first
            batch.append(Span(span.session, start, start + length - 1))
            first, last = (first, start - 1) if newest_first else (start + length, last)
            left -= length
            if not left or len(batch) == _SPANS_AT_ONCE:
                yield batch
                batch, size = [], min(_MOST_AT_ONCE, 2 * size)
                left = size
    if batch:
        yield batch


def ordered(column: str, newest_first: bool) -> str:
    """A term for ``ORDER BY``."""
    return f"{column} DESC" if newest_first else column


def blocks(spans: Sequence[Span]) -> Iterator[TextBlock]:
    """The complete blocks of consecutive entries, each for the session that has its last entry.

    Args:
        spans: oldest first. They begin after a block or with the first entry of a session.
    """
    if not spans:
        return
    owners = iter(spans)
    owner, first = next(owners), spans[0].first
    block_passages, characters = list[Passage](), 0
    for position, _, texts, _ in read_entries(spans):
        while position > owner.last:
            owner = next(owners)
        block_passages += texts
        characters += sum([len(passage.text) for passage in texts])
        if characters >= BLOCK_CHARACTERS or position - first + 1 >= BLOCK_ENTRIES:
            yield TextBlock.of(UUID(owner.session), first, position, block_passages)
            block_passages, first, characters = [], position + 1, 0
