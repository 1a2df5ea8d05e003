from typing import Any

import pytest

from historyapp.core.usage import Usage, cost_of, usage_of

LITELLM = {
    "prompt_tokens": 3486,
    "completion_tokens": 1135,
    "prompt_tokens_details": {"cached_tokens": 4},
    "cache_creation_input_tokens": 3482,
    "cache_read_input_tokens": 4,
}


@pytest.mark.parametrize(
    ("usage", "convention", "known"),
    [
        (
            {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 2},
            "anthropic",
            Usage(95, 2, 90),
        ),
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 2}, None, Usage(95, 2, 90)),
        ({"prompt_tokens": 95, "prompt_tokens_details": {"cached_tokens": 90}}, "openai", Usage(95, 0, 90)),
        (LITELLM, "openai", Usage(3486, 1135, 4)),
        ({"prompt_tokens": 95, "cache_read_tokens": 90}, "openai", Usage(95, 0, 90)),
        ("unknown", "openai", Usage()),
        ({"prompt_tokens": -1, "completion_tokens": "many"}, "openai", Usage()),
    ],
)
def test_cached_tokens_are_counted_once_whoever_reports_them(
    usage: Any, convention: str | None, known: Usage
) -> None:
    assert usage_of({"usage": usage, "usage_convention": convention}) == known


@pytest.mark.parametrize(("cost", "micros"), [(0.25, 250_000), (None, 0), ("1", 0), (-1, 0), (True, 0)])
def test_a_cost_is_counted_in_millionths_of_a_dollar(cost: Any, micros: int) -> None:
    assert cost_of({"cost": cost}) == micros
