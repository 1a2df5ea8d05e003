"""Where a cap holds, a request is refused if a part of it has no price in the price list."""

from typing import Any

import pytest

from historyapp.llm.request import ModelRequest
from historyapp.services.unpriced import unpriced_part


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.2, "response_format": {"type": "json_object"}, "reasoning_effort": "low"},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "tool_choice": {"type": "auto"}},
        {"service_tier": "flex"},
    ],
)
def test_options_that_cost_only_tokens_have_a_price(options: dict[str, Any]) -> None:
    assert unpriced_part(ModelRequest("gpt-5", {}, options=options)) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service_tier", "priority"),
        ("service_tier", ["flex"]),
        ("web_search_options", {}),
        ("prediction", {"type": "content", "content": "x"}),
        ("modalities", ["audio"]),
        ("max_tokens", 1_000_000),
        ("speed", "fast"),
        ("inference_geo", "us"),
        ("cache_control", {"type": "ephemeral", "ttl": "1h"}),
        ("mcp_servers", []),
        ("prompt", {"id": "pmpt_1"}),
        ("invented_tomorrow", True),
    ],
)
def test_any_other_option_has_none(name: str, value: Any) -> None:
    assert unpriced_part(ModelRequest("gpt-5", {}, options={name: value})) == f"the option {name!r}"


@pytest.mark.parametrize(
    ("tool", "is_priced"),
    [
        ({"type": "function", "function": {"name": "ls"}}, True),
        ({"name": "ls", "input_schema": {"type": "object"}}, True),
        ({"type": "bash_20250124", "name": "bash"}, True),
        ({"type": "text_editor_20250728", "name": "editor"}, True),
        ({"type": "web_search_20250305", "name": "web_search"}, False),
        ({"type": "code_execution_20250825", "name": "code_execution"}, False),
        ({"type": "web_search"}, False),
        ({"type": "image_generation"}, False),
    ],
)
def test_a_tool_that_the_provider_runs_has_none(tool: dict[str, Any], is_priced: bool) -> None:
    part = unpriced_part(ModelRequest("gpt-5", {"tools": [tool]}))
    assert part == ("" if is_priced else f"the provider's own tool {tool['type']!r}")
