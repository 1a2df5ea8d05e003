"""Prices are by family, dated and overridable, and can be unknown."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from historyapp.core.prices import Price, load_prices
from historyapp.core.usage import Usage
from tests.console import ROOT


@pytest.mark.parametrize(
    ("model", "input"),
    [
        ("gpt-5", 1.25),
        ("gpt-5-2025-08-07", 1.25),
        ("gpt-5-mini-2025-08-07", 0.25),
        ("openai:gpt-4o-mini", 0.15),
        ("anthropic/claude-sonnet-4-5-20250929", 3.0),
        ("openai:anthropic/claude-sonnet-4-5", 3.0),
        ("openai_responses:gpt-5", 1.25),
        ("anthropic:claude-opus-4-5", 5.0),
        ("Claude-Opus-4-5", 5.0),
        ("claude-opus-4-1-20250805", 15.0),
        ("claude-3-7-sonnet-latest", 3.0),
        ("claude-opus-4@20250514", 15.0),
        ("gpt-4o-2024-11-20", 2.5),
        ("gpt-4o-2024-05-13", 5.0),
        ("gpt-5-chat-latest", 1.25),
        ("gpt-5.3-codex", 1.75),
        ("gpt-5.4-2026-03-05", 2.5),
        ("claude-opus-4-6", 5.0),
        ("claude-sonnet-4.6", 3.0),
        ("gemini-3.1-pro-preview", 2.0),
        ("gemini/gemini-2.5-pro", 1.25),
        ("deepseek/deepseek-chat", 0.27),
        ("x-ai/grok-4", 3.0),
    ],
)
def test_a_release_has_the_price_of_its_model(model: str, input: float) -> None:
    price = load_prices().of(model)
    assert price is not None
    assert price.input == input


@pytest.mark.parametrize(
    "model",
    [
        "",
        "llama-3",
        "gpt-5omni",
        "gpt",
        "claude",
        "gpt-5.25",
        "gpt-5-2-2",
        "o3-deep-research",
        "gpt-image-1",
        "gpt-realtime",
        "claude-opus-4-9",
        "ft:gpt-4o",
        "openai:ft:gpt-5-pro:gpt-5-nano",
        "ft:gpt-5-nano",
        "x/y:gpt-5-nano",
        "x/gpt-5-nano",
        "gpt-5-nano:online",
        "openai/gpt-5-nano:online",
        "openai:openai:gpt-5-nano",
        "openai/openai/gpt-5-nano",
        "openai: gpt-5-nano",
        "openai",
        "openai:",
    ],
)
def test_an_unknown_model_does_not_get_the_price_of_a_similar_one(model: str) -> None:
    assert load_prices().of(model) is None


def test_the_cost_splits_input_by_cache_reads_and_writes() -> None:
    price = Price(input=10, output=100, cache_read=1, cache_write=12.5)
    usage = Usage(input=1000, output=10, cache_read=600, cache_write=300)
    assert price.cost(usage) == 100 * 10 + 600 * 1 + round(300 * 12.5) + 10 * 100
    assert Price(input=10, output=0).cost(usage) == 10_000


def test_a_long_request_costs_more_where_the_list_says_so() -> None:
    price = load_prices().of("claude-sonnet-4-5")
    assert price is not None
    assert price.of_request(Usage(input=200_000, output=1000)) == 200_000 * 3 + 1000 * 15
    assert price.of_request(Usage(input=200_001, output=1000)) == 200_001 * 6 + 1000 * 22.5
    assert price.cost(Usage(input=400_000, output=0)) == 400_000 * 3, "the sum of two short requests"
    assert Price(input=1, output=1).of_request(Usage(input=10**9, output=0)) == 10**9


def test_the_list_has_the_prices_of_the_installed_package() -> None:
    # The package's data takes 80 MB, so another process reads it.
    command = (
        "from requirements.price_list import *; print(text_of(price_list(date.fromisoformat({!r}))), end='')"
    )
    arguments = [sys.executable, "-c", command.format(load_prices().as_of)]
    written = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT)
    assert written.stdout == files("historyapp.core").joinpath("prices.json").read_text()


def test_the_price_list_of_an_operator_overrides_ours(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    models = {"gpt-5": {"input": 1, "output": 2}, "local-llama": {"input": 0, "output": 0}}
    file.write_text(json.dumps({"as_of": "2027-01-01", "per_million_tokens": models}))
    prices = load_prices(file)
    assert prices.as_of == "2027-01-01"
    assert prices.of("gpt-5") == Price(input=1, output=2)
    assert prices.of("local-llama") == Price(input=0, output=0)
    assert prices.of("gpt-4o") == load_prices().of("gpt-4o")


def test_a_cache_for_an_hour_has_its_own_price_if_the_list_has_one() -> None:
    usage = Usage(input=1000, cache_write=300, cache_write_hour=200)
    price = Price(input=10, output=100, cache_write=12.5)
    assert price.cost(usage) == 700 * 10 + 300 * 12.5
    priced = price.model_copy(update={"cache_write_hour": 20})
    assert priced.cost(usage) == 700 * 10 + 100 * 12.5 + 200 * 20
    listed = load_prices().of("claude-opus-4-8")
    assert listed
    assert (listed.cache_write, listed.cache_write_hour) == (6.25, 10)


def test_an_operator_s_price_is_found_by_the_name_that_is_sent(tmp_path: Path) -> None:
    file, price = tmp_path / "prices.json", {"input": 7, "output": 7}
    models = {"qwen2.5:7b": price, "meta/llama": price, "openai:gpt-5": price}
    file.write_text(json.dumps({"as_of": "2027-01-01", "per_million_tokens": models}))
    prices = load_prices(file)
    for model in ("openai:qwen2.5:7b", "openai:meta/llama", "openai:gpt-5"):
        assert prices.of(model) == Price(input=7, output=7)
    assert prices.of("openai_responses:gpt-5") == load_prices().of("gpt-5")


def _list_with(price: str) -> str:
    return f'{{"as_of": "x", "per_million_tokens": {{"a": {{"input": {price}, "output": 1}}}}}}'


@pytest.mark.parametrize("text", ["{}", "[]", *map(_list_with, ("-1", "NaN", "Infinity", "1e999", '"much"'))])
def test_the_error_of_an_invalid_price_list_names_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.json is not a price list"):
        load_prices(file)
