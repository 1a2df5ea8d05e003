"""One tool, three shapes."""

from typing import Any

import pytest

from historyapp.core.errors import Invalid
from historyapp.llm.tools import as_anthropic, as_openai_chat, as_openai_responses, tools_as

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FACTS = {"name": "f", "description": "Does it."}
SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "openai": (as_openai_chat, {"type": "function", "function": {**FACTS, "parameters": SCHEMA}}),
    "openai_responses": (as_openai_responses, {"type": "function", **FACTS, "parameters": SCHEMA}),
    "anthropic": (as_anthropic, {**FACTS, "input_schema": SCHEMA}),
}


@pytest.mark.parametrize("source", SHAPES)
@pytest.mark.parametrize("target", SHAPES)
def test_every_shape_becomes_every_other(source: str, target: str) -> None:
    shape, expected = SHAPES[target]
    assert tools_as(shape, [SHAPES[source][1]]) == [expected]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "file_search", "vector_store_ids": ["v"]},
        {"type": "custom", "name": "sql", "format": {"type": "text"}},
    ],
)
def test_tools_that_are_no_functions_stay_as_they_are(tool: dict[str, Any]) -> None:
    assert tools_as(as_openai_responses, [tool]) == [tool]


def test_cache_marks_go_to_anthropic_alone() -> None:
    tool = {**SHAPES["anthropic"][1], "cache_control": {"type": "ephemeral"}}
    assert tools_as(as_anthropic, [tool]) == [tool]
    assert tools_as(as_openai_chat, [tool]) == [SHAPES["openai"][1]]


def test_a_tool_without_parameters_takes_none() -> None:
    assert tools_as(as_anthropic, [{"name": "f"}]) == [
        {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    ]


@pytest.mark.parametrize(
    "tool",
    [
        {},
        {"name": ""},
        {"name": 5},
        {"name": "f", "parameters": []},
        {"name": "f", "parameters": {"type": "array"}},
    ],
)
def test_what_is_no_tool_is_refused(tool: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        tools_as(as_openai_chat, [tool])
