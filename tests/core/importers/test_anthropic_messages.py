import json
from typing import Any

import pytest

from historyapp.core.entries import SystemInstruction
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.anthropic_messages import ANTHROPIC_MESSAGES
from tests.core.importers.reading import (
    bodies,
    inputs,
    kinds,
    logs,
    metadata,
    outputs,
    read,
    results,
    skipped,
    starts,
)


def says(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def asks(*blocks: Any) -> dict[str, Any]:
    return {**says(*blocks), "role": "user"}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def tool_call(id: str, name: str = "look", kind: str = "tool_use", **arguments: Any) -> dict[str, Any]:
    return {"type": kind, "id": id, "name": name, "input": arguments}


def tool_result(id: str, content: Any = "here", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


def thinks(thought: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": thought, "signature": "Sig=="}


def searches(id: str) -> dict[str, Any]:
    return tool_call(id, "web_search", "server_tool_use", query="x")


def search_found(id: str, content: Any) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": content}


def answered(*blocks: Any, **fields: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "model": "claude", "usage": {"input_tokens": 5}}
    return {**message, **says(*blocks), **fields}


def recorded(messages: list[Any], response: Any, **fields: Any) -> dict[str, Any]:
    return {"request": {"model": "claude", "messages": messages, **fields}, "response": response}


TURNS = [
    asks("Where is it?"),
    says("I look.", tool_call("a"), tool_call("b", "find")),
    asks(tool_result("a"), tool_result("b", "there")),
]


def test_parallel_calls_and_their_results_are_one_entry_each() -> None:
    operations = read(ANTHROPIC_MESSAGES, [*TURNS, says("Here.")])
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_output"]
    assert [tool_call.id for tool_call in outputs(operations)[0].tool_calls] == ["a", "b"]
    assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [
        ("a", "look", "here"),
        ("b", "find", "there"),
    ]


def test_text_beside_results_is_an_input_after_them() -> None:
    operations = read(ANTHROPIC_MESSAGES, [*TURNS[:2], asks("Hurry.", tool_result("a"))])
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_input"]
    assert inputs(operations)[-1].content == "Hurry."


def test_thinking_becomes_thoughts_and_stays_byte_for_byte() -> None:
    blocks = [thinks("hm"), {"type": "redacted_thinking", "data": "xyz"}, thinks("so")]
    [output] = outputs(read(ANTHROPIC_MESSAGES, [asks("?"), says(*blocks, "Here.")]))
    assert (output.thoughts, output.text, output.reasoning) == ("hm\n\nso", "Here.", blocks)


def test_an_error_has_its_reason() -> None:
    operations = read(
        ANTHROPIC_MESSAGES, [*TURNS[:2], asks(tool_result("a", [text("no such file")], is_error=True))]
    )
    assert [(r.status, r.reason) for r in results(operations)] == [("error", "no such file")]


def test_a_result_of_a_server_tool_ends_an_output() -> None:
    message = says(
        thinks("hm"),
        "I search.",
        searches("s"),
        search_found("s", [{"url": "u"}]),
        "Found it.",
        tool_call("a"),
    )
    operations = read(ANTHROPIC_MESSAGES, [asks("?"), message, asks(tool_result("a"))])
    assert kinds(operations)[1:] == ["model_output", "tool_results", "model_output", "tool_results"]
    [first, second] = outputs(operations)
    assert (first.text, second.text) == ("I search.", "Found it.")
    assert [(r.tool_call_id, r.tool_name) for r in results(operations)] == [
        ("s", "web_search"),
        ("a", "look"),
    ]


def test_an_output_with_an_open_call_is_not_ended_by_a_server_tools_result() -> None:
    message = says(tool_call("a"), searches("s"), search_found("s", []), "Then.")
    operations = read(ANTHROPIC_MESSAGES, [asks("?"), message, asks(tool_result("a"))])
    assert kinds(operations)[1:] == ["model_output", "tool_results", "tool_results"]
    assert [tool_call.id for tool_call in outputs(operations)[0].tool_calls] == ["a", "s"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}, "max_uses_exceeded"),
        ({"type": "bash_code_execution_result", "return_code": 2, "stderr": "bad", "stdout": ""}, "bad"),
        (
            {"type": "bash_code_execution_result", "return_code": 3, "stderr": "", "stdout": ""},
            "return code 3",
        ),
    ],
)
def test_an_error_of_a_server_tool_keeps_its_text(content: dict[str, Any], reason: str) -> None:
    operations = read(ANTHROPIC_MESSAGES, [asks("?"), says(searches("s"), search_found("s", content))])
    assert [(r.status, r.reason) for r in results(operations)] == [("error", reason)]


def test_blocks_that_neutral_fields_cannot_hold_stay_in_the_raw_message() -> None:
    cited = text("Because", citations=[{"url": "u"}])
    plain, odd = outputs(
        read(ANTHROPIC_MESSAGES, [asks("?"), says("a", tool_call("t")), says(cited, text(" so."))])
    )
    assert plain.raw_message is None
    assert odd.text == "Because so."
    assert odd.raw_message == {"role": "assistant", "content": [cited, text(" so.")]}


def test_usage_is_read_once_for_a_message() -> None:
    reply = answered(searches("s"), search_found("s", []), "Found.")
    operations = read(ANTHROPIC_MESSAGES, [recorded(TURNS[:1], reply)])
    assert [m.get("usage") for m in metadata(operations)] == [None, {"input_tokens": 5}, None, None]
    assert metadata(operations)[1]["usage_convention"] == "anthropic"
    assert [m["source"].get("id") for m in metadata(operations)] == [None, "msg_1", "msg_1", "msg_1"]


def test_only_new_messages_of_recorded_calls_are_read() -> None:
    first = recorded(TURNS[:1], answered(thinks("hm"), "I look.", tool_call("a")), system="Be brief.")
    repeated = says("I look.", tool_call("a"))  # clients may leave thinking out
    second = recorded([*TURNS[:1], repeated, asks(tool_result("a"))], answered("Here."), system="Be brief.")
    operations = read(ANTHROPIC_MESSAGES, [first, second])
    assert kinds(operations) == [
        "system_instruction", "model_input", "model_output", "tool_results", "model_output",
    ]  # fmt: skip
    assert [start.model for start in starts(operations)] == ["claude"]


def test_a_request_has_its_instruction_and_tools() -> None:
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    operations = read(
        ANTHROPIC_MESSAGES, {"system": [text("A"), text("B")], "tools": tools, "messages": TURNS}
    )
    assert bodies(operations)[0] == SystemInstruction(text="A\n\nB")
    assert starts(operations)[0].metadata["tools"] == tools


def test_a_streamed_response_is_assembled() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "S"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "He"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "re"}},
        {"type": "content_block_start", "index": 2, "content_block": tool_call("a")},
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": '{"x"'},
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": ": 1}"},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    operations = read(ANTHROPIC_MESSAGES, [recorded(TURNS[:1], stream)])
    [output] = outputs(operations)
    assert (output.thoughts, output.text) == ("hm", "Here")
    assert output.reasoning == [{"type": "thinking", "thinking": "hm", "signature": "S"}]
    assert output.tool_calls[0].arguments == {"x": 1}
    assert metadata(operations)[-1]["usage"] == {"input_tokens": 5, "output_tokens": 2}


def test_a_refused_call_is_logged() -> None:
    operations = read(
        ANTHROPIC_MESSAGES, [recorded(TURNS[:1], {"type": "error", "error": {"message": "busy"}})]
    )
    assert "busy" in logs(operations)[0].message


def test_an_image_becomes_neutral_and_other_blocks_stay_unchanged() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    [user_input] = inputs(read(ANTHROPIC_MESSAGES, [asks("see", image, document), says("ok")]))
    assert user_input.content == [
        text("see"),
        {"type": "image", "media_type": "image/png", "data": "AA"},
        document,
    ]


def test_an_empty_message_is_an_empty_entry() -> None:
    operations = read(
        ANTHROPIC_MESSAGES, [{"role": "user", "content": ""}, {"role": "assistant", "content": []}]
    )
    assert (inputs(operations)[0].content, outputs(operations)[0].text) == ("", "")


def test_a_broken_message_is_named_and_the_others_are_read() -> None:
    operations = read(ANTHROPIC_MESSAGES, [asks("?"), "x", {"content": "no role"}, says("a", tool_call("t"))])
    assert [item.line for item in skipped(operations)] == [2, 3]
    assert kinds(operations) == ["model_input", "model_output"]


def test_a_file_without_messages_is_refused() -> None:
    with pytest.raises(UnreadableTranscript):
        read(ANTHROPIC_MESSAGES, {"messages": []})
