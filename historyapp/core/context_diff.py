"""Compares two contexts, by segment and by the part that a provider's prompt cache can reuse."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from historyapp.core.manifest import Segment
from historyapp.core.prices import Price
from historyapp.core.usage import Usage

MIN_CACHED = 1024
"""Neither provider caches a request with fewer tokens. Source: OpenAI documentation, "Prompt caching"; Claude
documentation, "Prompt caching", whose smaller models need more."""
_CLOSING = b'"]}'
MIN_MISSED_SHARE, MIN_MISSED_TOKENS = 0.05, 2_000
"""A cache miss is reported if it is larger than both."""
CACHE_INCREMENT = 128
"""The cached beginning of a request is a multiple of this many tokens. Source: OpenAI documentation, "Prompt
caching"."""


class ChangedSegment(NamedTuple):
    """A segment that both contexts have, in another form or size."""

    before: Segment
    after: Segment


@dataclass(frozen=True, slots=True)
class SegmentDiff:
    """The segments that differ between two contexts."""

    added: list[Segment]
    removed: list[Segment]
    changed: list[ChangedSegment]


@dataclass(frozen=True, slots=True)
class PrefixDiff:
    """The common beginning of two requests."""

    first_difference: int | None
    """The first byte that differs, from 0; null when both are the same."""
    share: float
    """The share of the newer request's bytes before that byte, from 0 to 1."""
    continues: bool = True
    """Whether the newer request begins with all of the older one, except for closing brackets."""


def diff_segments(before: Iterable[Segment], after: Iterable[Segment]) -> SegmentDiff:
    """Compares segments with the same source."""
    old, new = (
        {(part.source, part.step, part.last_step, part.position): part for part in segments}
        for segments in (before, after)
    )
    return SegmentDiff(
        added=[segment for key, segment in new.items() if key not in old],
        removed=[segment for key, segment in old.items() if key not in new],
        changed=[ChangedSegment(old[key], new[key]) for key in new if key in old and old[key] != new[key]],
    )


def first_changed(before: Sequence[Segment], after: Sequence[Segment]) -> Segment | None:
    """The first segment of the later context that the earlier one does not have at this place.

    If the earlier context has more segments, its first additional one. None if all are equal.
    """
    for old, new in zip_longest(before, after):
        if old != new:
            return new or old
    return None


def diff_prefix(before: bytes, after: bytes) -> PrefixDiff:
    """Compares requests as provider caches do, byte by byte from the beginning."""
    if before == after:
        return PrefixDiff(None, 1.0)
    low, high = 0, min(len(before), len(after))
    while low < high:  # by bisection: comparing slices is fast
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    continues = not before[low:].strip(_CLOSING)
    return PrefixDiff(low, low / len(after) if after else 0.0, continues)


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """The effect of a prompt cache on a request that is sent shortly after another one."""

    reusable: int
    """Input tokens that it can read from the cache."""
    saved: int | None
    """Compared with a request without any cache, in millionths of a dollar. Negative if writing to the
    cache costs more than reading saves. Null: the model's price is not known."""


def is_missed(missed: int, shared: int) -> bool:
    """Whether a provider missed a part of its cache that is large enough to report.

    Args:
        missed: tokens that the cache could hold and that were not read from it.
        shared: tokens with which both requests begin.
    """
    return missed > max(MIN_MISSED_TOKENS, MIN_MISSED_SHARE * shared)


def cache_effect(tokens: int, share: float, price: Price | None, *, for_hour: bool = False) -> CacheEffect:
    """The effect for a request of ``tokens`` tokens whose first ``share`` is in the cache.

    If the price list has a price for cache writes, it applies to all input that is not read from the cache.

    Args:
        for_hour: whether the cache lives for an hour, instead of five minutes.
    """
    reusable = int(tokens * share) // CACHE_INCREMENT * CACHE_INCREMENT
    if reusable < MIN_CACHED:
        reusable = 0
    if price is None:
        return CacheEffect(reusable, None)
    written = tokens - reusable if price.cache_write is not None and tokens >= MIN_CACHED else 0
    hour_tokens = written if for_hour else 0
    cached = Usage(input=tokens, cache_read=reusable, cache_write=written, cache_write_hour=hour_tokens)
    return CacheEffect(reusable, price.cost(Usage(input=tokens)) - price.cost(cached))
