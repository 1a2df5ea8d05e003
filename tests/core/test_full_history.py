"""The cost of a context compared with that of the full history."""

import pytest

from historyapp.core.context import NO_CUTS, Context, CutCost, Rendered
from historyapp.core.evaluation.costs import input_cost
from historyapp.core.full_history import compare_with_full_history
from historyapp.core.manifest import FullHistory, LeftOut, Manifest, Segment
from historyapp.core.prices import Price

OPENAI = Price(input=1.0, output=8.0, cache_read=0.1)
ANTHROPIC = Price(input=1.0, output=8.0, cache_read=0.1, cache_write=1.25)
UNCACHED = Price(input=1.0, output=8.0)


def context_of(sizes: list[int], *, stable: int = 0, cut_cost: CutCost = NO_CUTS) -> Context:
    """A context of messages with these tokens, without the first steps of its session."""
    segments = [Segment(source="step", step=number, tokens=size) for number, size in enumerate(sizes, 9)]
    manifest = Manifest(policy="budgeted", max_tokens=None, tokens=sum(sizes), segments=segments)
    manifest.left_out.append(LeftOut(first_step=1, last_step=8, reason="old"))
    parts = tuple(Rendered(number, [], size) for number, size in enumerate(sizes, 1))
    return Context(parts, manifest, stable=stable, cut_cost=cut_cost)


def compared(context: Context, tokens: int, price: Price) -> FullHistory:
    comparison = compare_with_full_history(context, tokens, 100, price)
    assert comparison is not None
    return comparison


def test_a_context_with_the_whole_history_is_not_compared() -> None:
    context = context_of([100, 100])
    context.manifest.left_out.clear()
    assert compare_with_full_history(context, 200, 2, OPENAI) is None
    context.manifest.segments[0] = context.manifest.segments[0].model_copy(update={"form": "masked"})
    assert compare_with_full_history(context, 200, 2, OPENAI) is not None


def test_the_cache_serves_all_of_the_history_but_a_step() -> None:
    comparison = compared(context_of([8_000]), 100_000, OPENAI)
    assert comparison.micros == round(0.1 * 98_944 + 1.0 * 1_056)  # 99,000 tokens in whole blocks of 128
    assert comparison.context_micros == 8_000


def test_parts_that_stay_are_read_from_the_cache() -> None:
    assert compared(context_of([6_400, 1_600], stable=1), 100_000, OPENAI).context_micros == 640 + 1_600


def test_cuts_count_as_often_as_they_happen() -> None:
    often = context_of([6_400, 1_600], stable=1, cut_cost=CutCost(5_120, 0.5))
    assert compared(often, 100_000, OPENAI).context_micros == (640 + 1_600 + 128 + 6_720) / 2


def test_a_history_that_is_too_short_for_a_cache_is_paid_in_full() -> None:
    comparison = compare_with_full_history(context_of([64]), 89, 2, OPENAI)
    assert comparison == FullHistory(tokens=89, micros=89, context_micros=64, break_even_tokens=64)


@pytest.mark.parametrize("price", [OPENAI, ANTHROPIC, UNCACHED], ids=["openai", "anthropic", "uncached"])
@pytest.mark.parametrize("size", [900, 8_000, 60_000])
def test_below_the_break_even_the_full_history_costs_less(price: Price, size: int) -> None:
    context = context_of([size // 2, size - size // 2], stable=1)
    tokens = compared(context, 1_000_000, price).break_even_tokens

    def cost(history: int) -> float:
        return input_cost(price, history, history - 1_000_000 // 100).micros

    block = 128 * price.input  # a cache serves whole blocks
    own = compared(context, 1_000_000, price).context_micros
    assert cost(tokens) <= own + block
    assert cost(tokens + 2_000) > own
