"""The price of a request's input at two providers, if the previous request had the same beginning."""

from functools import cache
from typing import NamedTuple

from historyapp.core.evaluation.costs import input_cost
from historyapp.core.prices import Price, load_prices

OPENAI, ANTHROPIC = "gpt-5-mini", "claude-sonnet-4-5"


class Paid(NamedTuple):
    cached: int
    """Tokens that OpenAI's cache serves."""
    openai: float
    """US dollars for a million such requests; ``anthropic`` likewise."""
    anthropic: float


def paid(tokens: int, repeated: int) -> Paid:
    """The price of ``tokens``. The first ``repeated`` of them also began the previous request."""
    openai = input_cost(_price(OPENAI), tokens, repeated)
    return Paid(openai.cached, openai.micros, input_cost(_price(ANTHROPIC), tokens, repeated).micros)


@cache
def _price(model: str) -> Price:
    price = load_prices().of(model)
    assert price is not None
    return price
