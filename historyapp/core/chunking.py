"""Splits texts larger than a model's window at sentence ends into near-equal chunks, and condenses them.

Only the text near a cut is searched for sentence ends, so that five megabytes take a second. For every text,
no chunk exceeds its limit, and there are at most ``MAX_PASSES`` passes with ``MAX_CALLS`` model calls in all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from historyapp.core.tokens import TokenCounter, count_tokens

OVERLAP = 200
"""The maximum number of tokens that a chunk shares with the chunk before it."""
MAX_CALLS = 32
MAX_PASSES = 3
SEARCHED = 2_000
"""Characters before and after a cut that are searched for a sentence end."""
_MIN_WITH_OVERLAP = 16  # smaller chunks do not overlap
_TRIES = 12
_PLANNED_SHARE = 0.95  # chunks are planned this full, so that an early cut needs no extra chunk
_MAX_SHARE_LEFT = 0.8  # if a pass leaves more of a text, no further pass is tried


@dataclass(frozen=True, slots=True)
class Segmentation:
    """How texts are split and counted."""

    sentences: Callable[[str], Sequence[str]]
    """Returns a text's sentences in order. Joined, they are the text."""
    count: TokenCounter = count_tokens


class Chunk(NamedTuple):
    start: int
    """The position of its first character in the text."""
    end: int
    text: str


def split(text: str, limit: int, segmentation: Segmentation, overlap: int = OVERLAP) -> Iterator[Chunk]:
    """Chunks of at most ``limit`` tokens that cover the text, in order; none for an empty text.

    A sentence that is too long is cut by tokens. A chunk has at least one character, which alone may have
    more tokens than a limit below four.
    """
    shared = min(overlap, limit // 8) if limit >= _MIN_WITH_OVERLAP else 0
    tokens_left = segmentation.count(text)
    new_tokens = max(1, limit - shared)
    chunks_left = ceil(tokens_left / (_PLANNED_SHARE * new_tokens)) + 1
    start = covered = 0
    while covered < len(text):
        chunks_left = max(1, chunks_left - 1, ceil(tokens_left / new_tokens))
        target = min(limit, ceil(tokens_left / chunks_left) + (shared if start < covered else 0))
        end = _chunk_end(text, start, target, limit, segmentation)
        if end <= covered:
            start = covered
            end = _chunk_end(text, start, target, limit, segmentation)
        yield Chunk(start, end, text[start:end])
        tokens_left = max(1, tokens_left - segmentation.count(text[covered:end]))
        covered = end
        start = max(start + 1, _overlap_start(text, end, shared, segmentation)) if shared else end


def _chunk_end(text: str, start: int, target: int, limit: int, segmentation: Segmentation) -> int:
    """Where the chunk from ``start`` ends: the sentence end nearest to ``target`` tokens, if one is near."""
    count = segmentation.count
    target_end = end_within(text, start, target, count)
    if target_end == len(text):
        return target_end
    max_end = end_within(text, start, limit, count) if target < limit else target_end
    searched = min(SEARCHED, target_end - start)
    first, last = max(start + 1, target_end - searched), min(max_end, target_end + searched)
    if last == len(text) and count(text[target_end:]) * 4 < target:
        return last
    position, ends = first, []
    for sentence in segmentation.sentences(text[first : last + searched]):
        position += len(sentence)
        ends.append(position)
    candidates = [end for end in ends if start + (target_end - start) // 2 < end <= last]
    for end in sorted(candidates, key=lambda end: abs(end - target_end))[:3]:
        if count(text[start:end]) <= limit:
            return end
    # Logs have lines and no sentences.
    line = text.rfind("\n", first, target_end) + 1
    return (
        line if line > start + (target_end - start) // 2 and count(text[start:line]) <= limit else target_end
    )


def _overlap_start(text: str, end: int, tokens: int, segmentation: Segmentation) -> int:
    """Where the last sentences before ``end`` begin that together have at most ``tokens`` tokens."""
    start = max(0, end - 4 * tokens)
    for _ in range(_TRIES):
        size = segmentation.count(text[start:end])
        if size <= tokens:
            break
        start = end - min(end - start - 1, int((end - start) * tokens / size * 0.95))
    else:
        return end
    sentences = segmentation.sentences(text[start:end])
    return start + len(sentences[0]) if len(sentences) > 1 else start


def end_within(text: str, start: int, tokens: int, count: TokenCounter = count_tokens) -> int:
    """The end of the longest part from ``start`` within ``tokens``; at least one character long."""
    length_left = len(text) - start
    size = min(length_left, max(1, tokens * 4))
    fits, too_long = 1, length_left + 1
    for _ in range(_TRIES):
        used = count(text[start : start + size])
        if used <= tokens:
            fits = max(fits, size)
            if size == length_left or used >= 0.98 * tokens:
                break
        else:
            too_long = size
        size = min(length_left, too_long - 1, max(fits + 1, int(size * tokens / max(1, used) * 0.98)))
        if size <= fits:
            break
    return start + min(fits, length_left)


def summarise_long(
    text: str,
    limit: int,
    summarise: Callable[[str], str],
    shorten: Callable[[str, int], str],
    segmentation: Segmentation,
) -> str:
    """The text condensed to at most ``limit`` tokens; unchanged if it already fits.

    ``summarise`` summarises one chunk. ``shorten`` keeps the given number of characters of a text and
    says what is left out. It is used if there would be more chunks than calls, or if summaries are as long
    as their texts.
    """
    calls_left = MAX_CALLS
    for _ in range(MAX_PASSES):
        size = segmentation.count(text)
        if size <= limit:
            return text
        room = calls_left * limit // 2
        if room <= limit:
            break
        if size > room:
            text = _shortened(text, room, shorten, segmentation.count)
        chunks = list(split(text, limit, segmentation))
        if len(chunks) > calls_left:
            break
        calls_left -= len(chunks)
        text = "\n\n".join(summarise(chunk.text) for chunk in chunks)
        if segmentation.count(text) > _MAX_SHARE_LEFT * size:
            break
    return _shortened(text, limit, shorten, segmentation.count)


def _shortened(text: str, tokens: int, shorten: Callable[[str, int], str], count: TokenCounter) -> str:
    """The text, shortened to ``tokens``."""
    kept, room = text, len(text)
    for _ in range(_TRIES):
        size = count(kept)
        if size <= tokens:
            return kept
        room = max(1, min(room - 1, int(len(kept) * tokens / size * 0.95)))
        kept = shorten(text, room)
    return kept[: end_within(kept, 0, tokens, count)]
