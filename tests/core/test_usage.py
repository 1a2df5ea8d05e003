"""Tokens and money, as providers and harnesses report them."""

from typing import Any

import pytest

from historyapp.core.usage import (
    MAX_CALL_COST,
    MAX_CALL_TOKENS,
    MICRO,
    Usage,
    cost_of,
    dollar_text,
    rounded_dollars,
    usage_of,
)


@pytest.mark.parametrize(
    "usage",
    [
        {
            "prompt_tokens": 100,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        {
            "input_tokens": 100,
            "output_tokens": 30,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "output_tokens_details": {"reasoning_tokens": 7},
        },
        {
            "input_tokens": 30,
            "output_tokens": 30,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 10,
            "output_tokens_details": {"thinking_tokens": 7},
        },
    ],
    ids=["openai_chat", "openai_responses", "anthropic"],
)
def test_every_convention_gives_the_same_split(usage: dict[str, Any]) -> None:
    parsed = usage_of({"usage": usage})
    assert parsed == Usage(input=100, output=30, cache_read=60, cache_write=10, reasoning=7)
    assert parsed.uncached == 30


def test_no_more_tokens_are_written_for_an_hour_than_are_written() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 10}
    lifetimes = {"ephemeral_1h_input_tokens": 8}
    assert usage_of({"usage": {**usage, "cache_creation": lifetimes}}).cache_write_hour == 8
    lifetimes = {"ephemeral_1h_input_tokens": 80}
    assert usage_of({"usage": {**usage, "cache_creation": lifetimes}}).cache_write_hour == 10
    assert usage_of({"usage": {**usage, "cache_creation": None}}).cache_write_hour == 0


def test_more_cached_than_sent_tokens_give_no_negative_count() -> None:
    assert (
        usage_of({"usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}}).uncached == 0
    )


@pytest.mark.parametrize(
    "usage",
    [
        None,
        5,
        [],
        {"input_tokens": "many"},
        {"input_tokens": -1},
        {"input_tokens": True},
        {"prompt_tokens_details": 3},
    ],
)
def test_usage_in_an_unknown_form_counts_nothing(usage: object) -> None:
    assert usage_of({"usage": usage}) == Usage()


@pytest.mark.parametrize(
    ("cost", "micros"), [(0.25, 250_000), (1, 1_000_000), (-1, 0), (True, 0), ("1", 0), (None, 0)]
)
def test_costs_are_millionths_of_a_dollar(cost: object, micros: int) -> None:
    assert cost_of({"cost": cost}) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "$0.00"), (500_000, "$0.50"), (1_500, "$0.0015"), (1, "$0.000001"), (1_234_000_000, "$1,234.00")],
)
def test_dollars_are_exact_and_have_two_decimals_at_least(micros: int, text: str) -> None:
    assert dollar_text(micros) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (12, "$0.000012"),
        (1_234, "$0.0012"),
        (12_340, "$0.01"),
        (1_234_567_000, "$1,234.57"),
    ],
)
def test_rounded_dollars_show_amounts_below_a_cent(micros: int, text: str) -> None:
    assert rounded_dollars(micros) == text


def test_figures_that_no_model_call_can_have_are_ignored() -> None:
    usage = {"input_tokens": MAX_CALL_TOKENS, "output_tokens": MAX_CALL_TOKENS - 1}
    assert usage_of({"usage": usage}) == Usage(output=MAX_CALL_TOKENS - 1)
    assert cost_of({"cost": MAX_CALL_COST}) == 0
    assert cost_of({"cost": MAX_CALL_COST - 1}) == (MAX_CALL_COST - 1) * MICRO
