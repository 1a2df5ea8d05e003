"""With a cap or a list of models, a request is refused if a part of it has no known price."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from historyapp.core.formats import format_named
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import PROVIDERS, ProviderRouter
from historyapp.services.unpriced import extra_image_tokens, uncounted_part, unpriced_part

CHAT, RESPONSES, CLAUDE = "gpt-5", "openai_responses:gpt-5", "claude-opus-4-5"


def test_each_provider_has_options_and_tiers_with_a_price() -> None:
    assert all(provider.priced_options and provider.priced_tiers for provider in PROVIDERS.values())


def test_a_provider_that_lists_no_options_takes_none_under_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(PROVIDERS["openai"], priced_options=(), priced_tiers=())
    monkeypatch.setattr("historyapp.services.unpriced.ProviderRouter", lambda: ProviderRouter({"new": bare}))
    assert unpriced_part(ModelRequest("new:m", {})) == ""
    for name, value in {"temperature": 0.2, "service_tier": "auto"}.items():
        request = ModelRequest("new:m", {}, options={name: value})
        assert unpriced_part(request) == f"the option {name!r}"


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (CHAT, {}),
        (CHAT, {"temperature": 0.2, "response_format": {"type": "json_object"}, "reasoning_effort": "low"}),
        (CHAT, {"service_tier": "flex", "stop": ["x"], "seed": 1, "verbosity": "low", "user": "u"}),
        (RESPONSES, {"reasoning": {"effort": "high", "summary": "auto"}, "text": {"verbosity": "low"}}),
        (RESPONSES, {"reasoning": None, "include": [], "parallel_tool_calls": False, "metadata": {"a": "b"}}),
        (CLAUDE, {"thinking": {"type": "enabled", "budget_tokens": 2000}, "tool_choice": {"type": "auto"}}),
        (CLAUDE, {"output_config": {"effort": "low"}, "service_tier": "standard_only", "top_k": 4}),
    ],
)
def test_options_that_cost_only_tokens_have_a_price(model: str, options: dict[str, Any]) -> None:
    assert unpriced_part(ModelRequest(model, {}, options=options)) == ""


@pytest.mark.parametrize("model", [CHAT, RESPONSES, CLAUDE])
def test_every_option_that_summaries_send_has_a_price(model: str) -> None:
    provider = model.partition(":")[0]
    name = {CHAT: "openai_chat", CLAUDE: "anthropic_messages"}.get(model, provider)
    written = format_named(name).prompt("Summarise.", "a run", {"type": "object"})
    assert unpriced_part(ModelRequest(model, written.context, options=written.options)) == ""


@pytest.mark.parametrize("model", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service_tier", "priority"),
        ("service_tier", ["flex"]),
        ("models", ["openai/gpt-5-pro"]),
        ("max_tool_calls", 1000),
        ("container", {"skills": []}),
        ("moderation", {"model": "omni"}),
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
def test_any_other_option_has_no_price(model: str, name: str, value: Any) -> None:
    assert unpriced_part(ModelRequest(model, {}, options={name: value})) == f"the option {name!r}"


@pytest.mark.parametrize(
    ("model", "options", "part"),
    [
        (RESPONSES, {"reasoning": {"effort": "low", "mode": "pro"}}, "reasoning.mode"),
        (CHAT, {"reasoning": {"model": "gpt-5-pro"}}, "reasoning.model"),
        (RESPONSES, {"reasoning": "pro"}, "reasoning"),
        (RESPONSES, {"text": {"voice": "alloy"}}, "text.voice"),
        (CLAUDE, {"output_config": {"task_budget": 1}}, "output_config.task_budget"),
        (CLAUDE, {"service_tier": "flex"}, "service_tier"),
        (CLAUDE, {"reasoning": {"effort": "low"}}, "reasoning"),
        (CHAT, {"thinking": {"type": "enabled"}}, "thinking"),
    ],
)
def test_a_field_that_changes_the_price_or_an_option_of_another_format_has_no_price(
    model: str, options: dict[str, Any], part: str
) -> None:
    assert unpriced_part(ModelRequest(model, {}, options=options)) == f"the option {part!r}"


@pytest.mark.parametrize(
    ("model", "block", "is_counted"),
    [
        (
            CHAT,
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD", "filename": "a"}},
            True,
        ),
        (CHAT, {"type": "file", "file": {"file_data": "https://a/b.pdf", "filename": "a"}}, False),
        (CHAT, {"type": "file", "file": {"file_id": "file-1"}}, False),
        (CLAUDE, {"type": "document", "source": {"type": "base64", "data": "QUJD"}}, True),
        (CLAUDE, {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}}, False),
        (CHAT, {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}, False),
        (CHAT, {"type": "text", "text": "https://a/b.pdf"}, True),
        (CLAUDE, {"type": "tool_use", "input": {"type": "document", "source": {"type": "url"}}}, True),
    ],
)
def test_remote_content_and_audio_are_not_counted(
    model: str, block: dict[str, Any], is_counted: bool
) -> None:
    for content in ([block], [{"type": "tool_result", "content": [block]}]):
        request = ModelRequest(model, {"messages": [{"role": "user", "content": content}]})
        assert (uncounted_part(request) == "") == is_counted


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("gpt-4o-mini", 96_338),
        ("openai_responses:GPT-4o-mini-2024-07-18", 96_338),
        ("gpt-5-nano", 2_600),
        ("gpt-5", 0),
        (CLAUDE, 0),
    ],
)
def test_models_that_count_more_tokens_for_images_have_a_surcharge(model: str, more: int) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    output = {"type": "function_call_output", "output": [{"type": "input_image", "image_url": "x"}]}
    message = {"role": "user", "content": [image]}
    field = "input" if model.startswith("openai_responses:") else "messages"
    items = [message, output] if field == "input" else [message, message]
    assert extra_image_tokens(ModelRequest(model, {field: items})) == more


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
def test_a_tool_that_the_provider_runs_has_no_price(tool: dict[str, Any], is_priced: bool) -> None:
    part = unpriced_part(ModelRequest("gpt-5", {"tools": [tool]}))
    assert part == ("" if is_priced else f"the provider's own tool {tool['type']!r}")


def test_the_page_about_models_lists_each_option() -> None:
    page = (Path(__file__).parents[2] / "docs/models.md").read_text()
    section = page.partition("## Options while a cap or a list applies")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`([a-z_]+)`", section.partition("|---|---|")[2]))
    accepted = {option for provider in PROVIDERS.values() for option in provider.priced_options}
    assert accepted <= listed
