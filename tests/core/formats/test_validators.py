"""Each rule of a validator refuses something. Otherwise the validator would prove nothing."""

from typing import Any

import pytest

from tests.core.formats.refusals import Refused
from tests.core.formats.validators import validate

ASKS = {"role": "user", "content": "go"}
FUNCTION = {"name": "ls", "arguments": "{}"}


def chat(*messages: Any, **fields: Any) -> Any:
    return {"messages": [ASKS, *messages], **fields}


def called(id: str = "a", **changed: Any) -> Any:
    function = {**FUNCTION, **changed}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


RETURNED = {"role": "tool", "tool_call_id": "a", "content": "x"}


@pytest.mark.parametrize(
    "broken",
    [
        {"messages": []},
        chat(temperature=1),
        chat({"role": "user", "content": " "}),
        chat({"role": "user", "content": []}),
        chat({"role": "user", "content": "\ud800"}),
        chat({"role": "user", "content": "\0"}),
        chat({"role": "user", "content": [{"type": "document"}]}),
        chat(
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/svg;base64,A"}}],
            }
        ),
        chat({"role": "critic", "content": "x"}),
        chat(RETURNED),
        chat(called()),
        chat(called(), ASKS, RETURNED),
        chat(called(), RETURNED, RETURNED),
        chat(called(), RETURNED, called(), RETURNED),
        chat(called(), {**RETURNED, "content": ""}),
        chat(called("x" * 41)),
        chat(called(name="a b"), RETURNED),
        chat(called(arguments={}), RETURNED),
        chat(called(arguments="[]"), RETURNED),
        chat({"role": "assistant", "content": None}),
        chat({"role": "assistant", "content": "x", "tool_calls": []}),
        chat({"role": "assistant", "content": "x", "reasoning": "y"}),
        chat(tools=[]),
        chat(tools=[{"function": {"name": "ls", "parameters": {"type": "string"}}}]),
        chat(tools=[{"function": {"name": "ls", "parameters": {"type": "object"}}}] * 2),
    ],
)
def test_openai_chat_refuses(broken: Any) -> None:
    with pytest.raises(Refused):
        validate("openai_chat", broken)


INPUT = {"type": "message", "role": "user", "content": "go"}
CALL = {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}


@pytest.mark.parametrize(
    "items",
    [
        [],
        [CALL],
        [OUTPUT],
        [CALL, INPUT, OUTPUT],
        [CALL, OUTPUT, OUTPUT],
        [CALL, OUTPUT, CALL, OUTPUT],
        [{**CALL, "call_id": "x" * 65}, {**OUTPUT, "call_id": "x" * 65}],
        [REASONING],
        [REASONING, INPUT],
        [{**REASONING, "encrypted_content": None}, CALL, OUTPUT],
        [{**REASONING, "id": ""}, CALL, OUTPUT],
        [{**INPUT, "role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
        [{**INPUT, "content": [{"type": "input_image", "image_url": "https://x.test", "detail": "all"}]}],
        [{"type": "item_reference", "id": "x"}],
    ],
)
def test_openai_responses_refuses(items: list[Any]) -> None:
    with pytest.raises(Refused):
        validate("openai_responses", {"input": items})


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> Any:
    return {"role": "assistant", "content": list(blocks)}


TEXT = {"type": "text", "text": "go"}
USE = {"type": "tool_use", "id": "a", "name": "ls", "input": {}}
BACK = {"type": "tool_result", "tool_use_id": "a", "content": [TEXT]}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "S"}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [assistant(TEXT)],
        [user(TEXT), user(TEXT)],
        [user(TEXT), assistant(TEXT)],
        [user()],
        [user({**TEXT, "text": " "})],
        [user(BACK)],
        [user(TEXT), assistant(USE), user(TEXT)],
        [user(TEXT), assistant(USE), user(TEXT, BACK)],
        [user(TEXT), assistant(USE), user(BACK, BACK)],
        [user(TEXT), assistant(USE, USE), user(BACK)],
        [user(TEXT), assistant(USE), user(BACK), assistant(USE), user(BACK)],
        [user(TEXT), assistant({**USE, "input": "{}"}), user(BACK)],
        [user(TEXT), assistant({**USE, "id": "ä"}), user({**BACK, "tool_use_id": "ä"})],
        [user(TEXT), assistant(USE), user({**BACK, "content": []})],
        [user(TEXT), assistant(THINKING), user(TEXT)],
        [user(TEXT), assistant({**THINKING, "signature": ""}, TEXT), user(TEXT)],
        [user(TEXT), assistant({**THINKING, "cache_control": {}}, TEXT), user(TEXT)],
        [user(THINKING)],
        [user(USE)],
        [user({"type": "image", "source": {"type": "url", "url": "http://x.test"}})],
        [user({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "AA"}})],
        [user({"type": "document", "source": {}})],
        [user(*[MARKED] * 5)],
    ],
)
def test_anthropic_refuses(messages: list[Any]) -> None:
    with pytest.raises(Refused):
        validate("anthropic_messages", {"messages": messages})
