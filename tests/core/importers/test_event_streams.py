import json
from typing import Any

import pytest
from hypothesis import given

from historyapp.core.importers import event_streams
from historyapp.core.importers.event_streams import streamed_message
from tests.core.importers.reading import damaged

ANTHROPIC: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "you"}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "citations_delta", "citation": {"url": "u"}},
    },
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"a": '},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
]
OPENAI: list[dict[str, Any]] = [
    {"id": "c", "choices": [{"delta": {"role": "assistant", "content": "Hi "}}]},
    {"choices": [{"delta": {"content": "you", "reasoning_content": "hm"}}]},
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{"}}]}}
        ]
    },
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}, "finish_reason": "stop"}
        ]
    },
    {"choices": [], "usage": {"prompt_tokens": 3}},
]


def stream(events: list[Any], ending: str = "\n\n") -> str:
    return "".join(f"event: x\ndata: {json.dumps(event)}{ending}" for event in events) + "data: [DONE]\n\n"


@pytest.mark.parametrize("ending", ["\n\n", "\r\n\r\n"])
def test_an_anthropic_stream_becomes_its_message(ending: str) -> None:
    assert streamed_message(stream(ANTHROPIC, ending)) == {
        "id": "m",
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Hi you", "citations": [{"url": "u"}]},
            {"type": "tool_use", "id": "t", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


def test_an_openai_stream_becomes_its_completion() -> None:
    message = streamed_message(stream(OPENAI))
    assert message
    [choice] = message["choices"]
    assert choice["finish_reason"] == "stop"
    assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == ("Hi you", "hm")
    assert choice["message"]["tool_calls"] == [
        {"type": "function", "function": {"name": "f", "arguments": "{}"}, "id": "t"}
    ]
    assert (message["id"], message["usage"]) == ("c", {"prompt_tokens": 3})


def test_input_that_was_cut_off_stays_as_text() -> None:
    message = streamed_message(stream(ANTHROPIC[:8]))
    assert message
    assert message["content"][1]["input"] == '{"a": '


def test_other_text_is_not_read_as_a_stream() -> None:
    assert streamed_message("<html>busy</html>") is None
    assert streamed_message(stream([{"type": "response.created"}])) is None


@given(damaged(ANTHROPIC) | damaged(OPENAI))
def test_the_readable_events_of_a_damaged_stream_are_used(events: Any) -> None:
    streamed_message(stream(events if isinstance(events, list) else [events]))


def test_the_values_of_large_events_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MAX_EMBEDDED_VALUES", 500)
    large = {**OPENAI[0], "citations": [[]] * 550}
    message = streamed_message(stream([large] * 3 + OPENAI * 30))
    assert message
    assert "choices" in message
    message = streamed_message(stream([large] * 20))
    assert message
    assert message["error"].endswith("more than 500 JSON values beyond 1,000 of each.")
