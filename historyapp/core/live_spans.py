"""Finds the live spans that contain some positions of a long lineage, with one read for each level of
pointers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from historyapp.core.lineage import Lineage, Span, SpanBlock


class _PendingBlock(NamedTuple):
    """Positions to find in one block."""

    level: int
    block: SpanBlock
    positions: list[int]


def spans_at(lineage: Lineage, positions: Iterable[int]) -> dict[int, Span]:
    """The span of each live position."""
    remaining = sorted(set(positions))
    first_newest = bisect_left(remaining, lineage.newest[0].first) if lineage.newest else len(remaining)
    spans = dict(_in_spans(lineage.newest, remaining[first_newest:]))
    del remaining[first_newest:]
    if remaining and (parts := lineage.known_older(remaining[0])):
        return spans | {position: span for position in remaining if (span := parts.at(position))}
    pending: list[_PendingBlock] = []
    for level, blocks in enumerate(lineage.older):
        if blocks:
            start = bisect_left(remaining, blocks[0].first)
            pending += _in_blocks(level, blocks, remaining[start:])
            del remaining[start:]
    while pending:
        lineage.load_all({(item.block.session, item.block.position) for item in pending})
        below: list[_PendingBlock] = []
        for level, block, block_positions in pending:
            stored = lineage.load(block.session, block.position)
            if level:
                below += _in_blocks(level - 1, stored.older[level - 1], block_positions)
            else:
                spans.update(_in_spans(stored.newest, block_positions))
        pending = below
    return spans


def _in_blocks(level: int, blocks: Sequence[SpanBlock], positions: list[int]) -> Iterator[_PendingBlock]:
    """Groups ascending positions by the block that may contain them. The first block begins before all."""
    begin = 0
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        end = bisect_left(positions, following.first, begin) if following else len(positions)
        if begin < end:
            yield _PendingBlock(level, block, positions[begin:end])
        begin = end


def _in_spans(spans: Sequence[Span], positions: Sequence[int]) -> Iterator[tuple[int, Span]]:
    starts = [span.first for span in spans]
    for position in positions:
        index = bisect_right(starts, position) - 1
        if index >= 0 and position <= spans[index].last:
            yield position, spans[index]
