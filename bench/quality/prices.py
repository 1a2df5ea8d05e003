"""The price of a request's input at two providers, if the previous request had the same beginning."""

from functools import cache
from typing import NamedTuple

from historyapp.core.prices import Price, load_prices

OPENAI, ANTHROPIC = "gpt-5-mini", "claude-sonnet-4-5"
CACHEABLE = 1024
"""Tokens of the shortest beginning that is cached. Source: both providers' documentation of prompt caching.
Some of Anthropic's models require more."""
STEP = 128
"""OpenAI serves cached tokens in multiples of this. Source: the same."""


class Paid(NamedTuple):
    cached: int
    """Tokens that OpenAI's cache serves."""
    openai: float
    """US dollars for a million such requests; ``anthropic`` likewise."""
    anthropic: float


def paid(tokens: int, repeated: int) -> Paid:
    """The price of ``tokens``, of which the first ``repeated`` also began the previous request.

    For Anthropic, a request is written to the cache completely or not at all, whichever is cheaper.
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
