"""What the input of a request costs at two providers when its beginning was sent with the request before."""

from functools import cache
from typing import NamedTuple

from historyapp.core.prices import Price, load_prices

OPENAI, ANTHROPIC = "gpt-5-mini", "claude-sonnet-4-5"
CACHEABLE = 1024
"""Tokens of the shortest beginning that is cached. Source: both providers' documentation of prompt caching
(some of Anthropic's models want more)."""
STEP = 128
"""OpenAI serves cached tokens in steps of this many. Source: the same."""


class Paid(NamedTuple):
    cached: int
    """Tokens that OpenAI's cache serves."""
    openai: float
    """US dollars for a million such requests; ``anthropic`` likewise."""
    anthropic: float


def paid(tokens: int, repeated: int) -> Paid:
    """For a request of ``tokens`` whose first ``repeated`` also began the request before it.

    Anthropic is paid for writing all of a request to its cache, or for none where that is cheaper.
    """
    read = repeated if repeated >= CACHEABLE else 0
    served = read // STEP * STEP
    openai, anthropic = _price(OPENAI), _price(ANTHROPIC)
    first = openai.input * (tokens - served) + (openai.cache_read or 0) * served
    written = (anthropic.cache_read or 0) * read + (anthropic.cache_write or 0) * (tokens - read)
    return Paid(served, first, min(anthropic.input * tokens, written))


@cache
def _price(model: str) -> Price:
    price = load_prices().of(model)
    assert price is not None
    return price
