"""What the input of a request costs if the previous one had the same beginning."""

import pytest

from historyapp.core.evaluation.costs import input_cost
from historyapp.core.prices import Price

OPENAI = Price(input=1.0, output=8.0, cache_read=0.1)
ANTHROPIC = Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)


@pytest.mark.parametrize(
    ("price", "repeated", "cached", "micros"),
    [
        (OPENAI, 1023, 0, 4000),
        (OPENAI, 1200, 1152, 4000 - 0.9 * 1152),
        (Price(input=1.0, output=1.0), 2000, 1920, 4000),
        (ANTHROPIC, 3000, 3000, 300 + 1250),
        (ANTHROPIC, 500, 0, 4000),
    ],
)
def test_a_shared_beginning_is_read_from_the_cache(
    price: Price, repeated: int, cached: int, micros: float
) -> None:
    cost = input_cost(price, 4000, repeated)
    assert cost.cached == cached
    assert cost.micros == pytest.approx(micros)


def test_a_request_is_not_written_to_the_cache_if_that_costs_more() -> None:
    assert input_cost(ANTHROPIC, 20_000, 1500).cached == 0
    assert input_cost(ANTHROPIC, 20_000, 1500).micros == 20_000
