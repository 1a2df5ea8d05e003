"""JSON inside texts: at most a limit of values becomes objects, the rest stays text."""

from collections.abc import Iterator
from typing import Any

import pytest

from historyapp.api.entries import EntriesIn
from historyapp.core import embedded_json
from historyapp.core.actions import with_raw_message_fields
from historyapp.core.content import arguments_of
from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.entries import ModelOutput
from historyapp.core.importers.messages import CallMatcher, SourceCall
from historyapp.core.json import TooManyValues, parse_embedded
from historyapp.llm.anthropic_messages import MessagesStreamReader
from historyapp.llm.completions import collect
from historyapp.llm.deltas import FinishedDelta, StartedDelta, ToolCallDelta

TEXT = '{"a":[' + "[]," * 120 + "1]}"
"""Counts as 242 values: 120 lists have two marks each, a comma and a bracket."""


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_json, "MAX_EMBEDDED_VALUES", 500)


def tool_calls(number: int) -> list[dict[str, Any]]:
    function = {"name": "f", "arguments": TEXT}
    return [{"id": f"c{index}", "type": "function", "function": function} for index in range(number)]


def types(calls: Any) -> list[type]:
    return [type(call.arguments) for call in calls]


def test_a_text_of_too_many_values_is_refused_before_it_is_read() -> None:
    assert parse_embedded(TEXT)
    with pytest.raises(TooManyValues):
        parse_embedded("[" + TEXT + "," + TEXT + "," + TEXT + "]")


def test_commas_and_brackets_in_strings_do_not_count() -> None:
    text = '{"code":"' + "f(x, [1, 2]), " * 1_000 + '"}'
    assert isinstance(arguments_of(text), dict)


def test_the_arguments_beyond_the_limit_of_a_message_stay_text() -> None:
    output = ModelOutput.model_validate({"tool_calls": tool_calls(3)})
    assert types(output.tool_calls) == [dict, dict, str]
    from_message = with_raw_message_fields(ModelOutput(raw_message={"tool_calls": tool_calls(4)}))
    assert types(from_message.tool_calls) == [dict, dict, str, str]


def test_no_short_arguments_are_read_after_the_limit() -> None:
    """Otherwise each of many texts beyond it would be counted."""
    with shared_value_limit():
        assert [type(arguments_of(text)) for text in (TEXT * 3, "{}")] == [str, str]
    assert arguments_of("{}") == {}


def test_all_entries_of_a_body_share_the_limit() -> None:
    entries = [{"kind": "model_output", "tool_calls": tool_calls(1)} for _ in range(3)]
    drafts = EntriesIn.model_validate({"entries": entries}).entries
    bodies = [draft.body for draft in drafts]
    assert [types(body.tool_calls) for body in bodies if isinstance(body, ModelOutput)] == [
        [dict], [dict], [str],
    ]  # fmt: skip


def test_all_calls_of_an_imported_output_share_the_limit() -> None:
    calls, _ = CallMatcher("s").add_output(SourceCall(str(index), "f", TEXT) for index in range(3))
    assert types(calls) == [dict, dict, str]


def streamed(number: int) -> Iterator[StartedDelta | ToolCallDelta | FinishedDelta]:
    yield StartedDelta(provider="openai", model="m", id="x")
    for index in range(number):
        yield ToolCallDelta(index=index, id=f"c{index}", name="f", arguments=TEXT)
    yield FinishedDelta(reason="tool_calls", provider_reason="tool_calls", message={})


def test_all_calls_of_a_streamed_response_share_the_limit() -> None:
    assert types(collect(streamed(3)).output.tool_calls) == [dict, dict, str]


def test_all_blocks_of_a_message_of_anthropic_share_the_limit() -> None:
    reader = MessagesStreamReader()
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "model": "m"}}]
    for index in range(3):
        block = {"type": "tool_use", "id": f"c{index}", "name": "f", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": TEXT}
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    for event in [*events, {"type": "message_stop"}]:
        list(reader.read(event))
    finished = reader.finish()
    assert finished is not None
    assert [type(block["input"]) for block in finished.message["content"]] == [dict, dict, str]
