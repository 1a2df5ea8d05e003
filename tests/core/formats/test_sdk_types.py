"""Rendered requests match the request types of the official SDKs."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from anthropic.types import MessageParam, TextBlockParam, ToolUnionParam
from hypothesis import given, settings
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam, ToolParam
from pydantic import TypeAdapter, ValidationError

from historyapp.core.conversation import ConversationPart
from historyapp.core.formats import FORMATS
from tests.core.formats.contexts import FIELDS, SESSIONS, TOOLS, context
from tests.examples import examples

TYPES: dict[str, dict[str, TypeAdapter[Any]]] = {
    "openai_chat": {
        "messages": TypeAdapter(list[ChatCompletionMessageParam]),
        "tools": TypeAdapter(list[ChatCompletionFunctionToolParam]),
    },
    "openai_responses": {
        "instructions": TypeAdapter(str),
        "input": TypeAdapter(list[ResponseInputItemParam]),
        "tools": TypeAdapter(list[ToolParam]),
    },
    "anthropic_messages": {
        "messages": TypeAdapter(list[MessageParam]),
        "system": TypeAdapter(list[TextBlockParam]),
        "tools": TypeAdapter(list[ToolUnionParam]),
    },
}


def parse(name: str, request: Mapping[str, Any]) -> None:
    for field, value in request.items():
        read = TYPES[name][field].validate_python(value)
        for _ in drained(read):
            pass


def drained(value: Any) -> Iterator[Any]:
    """Everything within: pydantic checks what the SDKs call an ``Iterable`` only when it is read."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, (str, int, float, type(None))):
        for item in value:
            yield from drained(item)
    yield value


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=examples(50))
@given(conversation=SESSIONS, fields=FIELDS, tools=TOOLS)
def test_the_sdks_types_take_every_request(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any], tools: list[Any]
) -> None:
    parse(name, FORMATS[name].request(context(name, conversation, **fields), tools))


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("openai_chat", {"messages": [{"role": "tool", "content": "x"}]}),
        ("openai_responses", {"input": [{"type": "function_call", "call_id": "a"}]}),
        ("anthropic_messages", {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
    ],
)
def test_the_types_refuse_invalid_requests(name: str, broken: Any) -> None:
    with pytest.raises(ValidationError):
        parse(name, broken)
