"""The token figure and the money figure that all pages show."""

from historyapp.core.prices import Price, Prices
from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_of, tokens_of
from historyapp.core.usage import ModelTotals

PRICES = Prices("2026-01-01", {"known": Price(input=1, output=10)})
USED = ModelTotals(calls=1, input=1000, output=100, cache_read=600)


def test_tokens_are_the_reported_ones() -> None:
    tokens = tokens_of(Totals(tokens=50, models={"known": USED, "other": USED}))
    assert (tokens.shown, tokens.source, tokens.usage.cache_read) == (2000, "reported", 1200)


def test_without_a_report_tokens_are_estimated() -> None:
    assert (tokens_of(Totals(tokens=50)).shown, tokens_of(Totals(tokens=50)).source) == (50, "estimated")
    priced_alone = Totals(tokens=50, models={"": ModelTotals(calls=1, cost=7)})
    assert tokens_of(priced_alone).source == "estimated"


def test_totals_of_earlier_versions_have_no_models_but_count() -> None:
    old = Totals(tokens=50, input_tokens=900, output_tokens=30, cost=5)
    assert tokens_of(old).shown == 900
    assert money_of(old, "", PRICES)[:2] == (5, "reported")


def test_money_is_the_reported_cost_or_else_the_price_of_the_list() -> None:
    reported = ModelTotals(calls=1, input=10, cost=400)
    assert money_of(Totals(models={"known": USED}), "", PRICES)[:2] == (2000, "priced")
    assert money_of(Totals(models={"known": reported}), "", PRICES)[:2] == (400, "reported")
    both = money_of(Totals(models={"known": USED, "other": reported}), "", PRICES)
    assert both[:2] == (2400, "reported and priced")


def test_a_model_without_a_price_is_named_and_left_out() -> None:
    priced_model = money_of(Totals(models={"known": USED, "other": USED}), "", PRICES)
    assert (priced_model.micros, priced_model.source, priced_model.unknown) == (2000, "priced", ("other",))
    assert money_of(Totals(models={"other": USED}), "", PRICES).source == "unknown"
    assert money_of(Totals(), "", PRICES).source == "none"


def test_usage_without_a_model_counts_for_the_model_of_the_session() -> None:
    assert money_of(Totals(models={"": USED}), "known", PRICES).micros == 2000


def test_missing_output_makes_a_priced_cost_a_minimum_beside_a_reported_one() -> None:
    lacking, reported = USED._replace(missing_output=50), ModelTotals(calls=1, output=10, cost=400)
    for others in ({}, {"other": reported}):
        assert money_of(Totals(models={"known": lacking, **others}), "", PRICES).is_minimum
    may_include_it = reported._replace(missing_output=50)
    assert not money_of(Totals(models={"known": USED, "other": may_include_it}), "", PRICES).is_minimum
