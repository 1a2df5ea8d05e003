"""Assistant messages in each provider's shape, read as the fields of an output."""

from typing import Any

import pytest
from pydantic import ValidationError

from historyapp.core.entries import ModelOutput, ToolCall
from historyapp.core.provider_messages import MessageFields, read_message

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "S"}
ENCRYPTED = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "x",
}
CALL = {"id": "c1", "name": "ls", "arguments": {"all": True}}
CHAT = {
    "role": "assistant",
    "content": "Look.",
    "reasoning_content": "Hm.",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"all": true}'}}
    ],
}
ANTHROPIC = {
    "role": "assistant",
    "content": [
        THINKING,
        {"type": "text", "text": "Look."},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"all": True}},
    ],
}
RESPONSES = {
    "id": "resp_1",
    "output": [
        ENCRYPTED,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": '{"all": true}'},
    ],
}


@pytest.mark.parametrize(
    ("message", "reasoning"),
    [
        (CHAT, ()),
        ({"choices": [{"message": CHAT}]}, ()),
        (ANTHROPIC, (THINKING,)),
        (RESPONSES, (ENCRYPTED,)),
    ],
)
def test_the_messages_of_all_providers_have_the_same_fields(
    message: dict[str, Any], reasoning: tuple[Any, ...]
) -> None:
    assert read_message(message) == MessageFields("Look.", "Hm.", (CALL,), reasoning)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ({"type": "function_call", "call_id": "c", "name": "n", "arguments": "oops"}, ("c", "n", "oops")),
        (
            {"output": [{"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "x"}]},
            ("c", "n", "x"),
        ),
        (
            {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "n", "input": "x"}}]},
            ("c", "n", "x"),
        ),
        ({"function_call": {"name": "n", "arguments": ""}}, ("call_1", "n", {})),
        ({"tool_calls": [{"id": "c", "name": "n"}]}, ("c", "n", {})),
    ],
)
def test_rare_shapes_of_calls_are_read(message: dict[str, Any], call: tuple[str, str, Any]) -> None:
    (tool_call,) = read_message(message).tool_calls
    assert tuple(tool_call.values()) == call


def test_calls_without_an_id_get_one_that_no_other_has() -> None:
    given = [
        {"function": {"name": "a"}},
        {"id": "call_1", "function": {"name": "b"}},
        {"id": "", "function": {"name": "c"}},
    ]
    assert [call["id"] for call in read_message({"tool_calls": given}).tool_calls] == [
        "call_2",
        "call_1",
        "call_3",
    ]


def test_a_text_with_citations_is_joined() -> None:
    pieces = [{"type": "text", "text": "a ", "citations": [1]}, {"type": "text", "text": "b"}]
    assert read_message({"content": pieces}).text == "a b"


@pytest.mark.parametrize(
    "message",
    [
        {}, {"content": 5}, {"content": [1, None, {"type": 5}]}, {"tool_calls": "x"}, {"output": {}},
        {"tool_calls": [1, {"id": 5}, {"function": {"name": ""}}]}, {"choices": []}, {"choices": [1]},
        {"output": [{"type": "message", "content": "x"}, {"type": "reasoning", "summary": 5}]},
    ],
)  # fmt: skip
def test_an_invalid_message_has_no_fields(message: dict[str, Any]) -> None:
    assert read_message(message) == MessageFields()


@pytest.mark.parametrize(
    "given",
    [
        {"id": "c1", "name": "ls", "arguments": {"all": True}},
        CHAT["tool_calls"][0],
        ANTHROPIC["content"][3],
        RESPONSES["output"][2],
    ],
)
def test_calls_are_accepted_in_every_providers_shape(given: dict[str, Any]) -> None:
    output = ModelOutput.model_validate({"tool_calls": [given]})
    assert output.tool_calls == (ToolCall(id="c1", name="ls", arguments={"all": True}),)


def test_arguments_that_are_not_a_json_object_stay_unchanged() -> None:
    for written in ("{oops", "[1]", '{"a": NaN}'):
        given = {"id": "c", "type": "function", "function": {"name": "n", "arguments": written}}
        assert ModelOutput.model_validate({"tool_calls": [given]}).tool_calls[0].arguments == written


@pytest.mark.parametrize(
    "given", [{"id": "c"}, {"id": "c", "name": None}, {"id": "c", "type": "function", "function": {}}]
)
def test_the_error_of_a_call_without_a_name_says_what_to_do(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"has no name\. Name the tool"):
        ModelOutput.model_validate({"tool_calls": [given]})
