"""The price of a request's input, if the previous request had the same beginning."""

from typing import NamedTuple

from historyapp.core.context_diff import CACHE_INCREMENT, MIN_CACHED
from historyapp.core.prices import Price


class InputCost(NamedTuple):
    cached: int
    """Tokens that the provider's cache serves."""
    micros: float
    """Millionths of a US dollar for one request."""


def input_cost(price: Price, tokens: int, repeated: int) -> InputCost:
    """The cost of ``tokens``. The first ``repeated`` of them also began the previous request.

    Where writing to the cache has a price (Anthropic), a request is written completely or not at all,
    whichever is cheaper. Elsewhere (OpenAI) the cache serves multiples of 128 tokens, and writing to it is
    free.
    """
    read = repeated if repeated >= MIN_CACHED else 0
    read_price = price.input if price.cache_read is None else price.cache_read
    if price.cache_write is None:
        served = cached_tokens(repeated)
        return InputCost(served, price.input * (tokens - served) + read_price * served)
    uncached, written = price.input * tokens, read_price * read + price.cache_write * (tokens - read)
    return InputCost(0, uncached) if uncached <= written else InputCost(read, written)


def cached_tokens(repeated: int) -> int:
    """The tokens that a cache without a price for writing serves."""
    return repeated // CACHE_INCREMENT * CACHE_INCREMENT if repeated >= MIN_CACHED else 0
