from datetime import UTC, datetime
from typing import Any

import pytest

from historyapp.core.entries import ToolResult
from historyapp.core.importers.base import Append
from tests.core.importers.claude_lines import answer, assistant, read, record, says, tool_call, user, uuid
from tests.core.importers.operations import bodies, metadata, outputs, results


def test_the_lines_of_one_message_become_one_output() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
    operations = read(
        user(1, None, "go"),
        assistant(2, 1, thinking, id="m"),
        assistant(3, 2, says("I read it."), id="m"),
        assistant(4, 3, tool_call("t1", path="a"), id="m"),
    )
    (output,) = outputs(operations)
    assert (output.thoughts, output.text) == ("Hm.", "I read it.")
    assert [(c.id, c.name, c.arguments) for c in output.tool_calls] == [("t1", "Read", {"path": "a"})]
    assert output.reasoning == [thinking]


def test_thinking_without_a_signature_is_not_kept_for_replay() -> None:
    (output,) = outputs(read(assistant(1, None, {"type": "thinking", "thinking": "Hm."})))
    assert (output.thoughts, output.reasoning) == ("Hm.", [])


def test_redacted_thinking_is_kept_for_replay() -> None:
    block = {"type": "redacted_thinking", "data": "opaque"}
    (output,) = outputs(read(assistant(1, None, block)))
    assert (output.thoughts, output.reasoning) == (None, [block])


def test_a_result_between_two_lines_of_a_message_follows_the_whole_output() -> None:
    operations = read(
        assistant(1, None, tool_call("t1"), id="m"),
        answer(2, 1, "t1"),
        assistant(3, 1, tool_call("t2"), id="m"),
        answer(4, 3, "t2"),
        assistant(5, 4, says("Done.")),
    )
    assert [body.kind for body in bodies(operations)] == [
        "model_output", "tool_results", "tool_results", "model_output",
    ]  # fmt: skip
    assert [c.id for c in outputs(operations)[0].tool_calls] == ["t1", "t2"]


def test_lines_that_repeat_earlier_blocks_add_only_new_ones() -> None:
    (output,) = outputs(
        read(
            assistant(1, None, says("a"), id="m"),
            assistant(2, 1, says("a"), says("b"), id="m"),
            assistant(3, 2, says("a"), says("b"), tool_call("t"), id="m"),
        )
    )
    assert (output.text, len(output.tool_calls)) == ("a\n\nb", 1)


def test_usage_is_counted_once_and_the_last_repetition_wins() -> None:
    operations = read(
        assistant(1, None, says("a"), id="m", message={"usage": {"input_tokens": 9, "output_tokens": 1}}),
        assistant(2, 1, says("b"), id="m", message={"usage": {"input_tokens": 9, "output_tokens": 77}}),
    )
    assert [(m.get("usage"), m.get("usage_convention")) for m in metadata(operations)] == [
        ({"input_tokens": 9, "output_tokens": 77}, "anthropic")
    ]


def test_a_late_line_of_a_message_is_kept_without_counting_its_usage_again() -> None:
    usage = {"usage": {"output_tokens": 1}}
    operations = read(
        assistant(1, None, says("a"), id="m", message=usage),
        user(2, 1, "stop"),
        assistant(3, 1, says("b"), id="m", message=usage),
    )
    assert [output.text for output in outputs(operations)] == ["a", "b"]
    assert ["usage" in m for m in metadata(operations)] == [True, False, False]
    assert metadata(operations)[2]["continues"] == "m"


def test_metadata_has_the_source_of_an_entry() -> None:
    first, second = metadata(
        read(
            user(1, None, "go"),
            assistant(2, 1, says("ok"), id="m", requestId="req", message={"stop_reason": "end_turn"}),
        )
    )
    assert first == {"source": {"format": "claude_code", "line": 1, "uuid": uuid(1)}}
    assert second == {
        "source": {"format": "claude_code", "line": 2, "uuid": uuid(2), "id": "m"},
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "stop_reason": "end_turn",
        "request_id": "req",
    }


def test_an_entry_has_its_record_s_time_and_file_order_is_kept() -> None:
    operations = read(
        user(1, None, "later", timestamp="2026-01-19T05:00:00+02:00"),
        user(2, 1, "earlier", timestamp="2026-01-01T00:00:00Z"),
        user(3, 2, "never", timestamp="no time"),
    )
    assert [op.draft.created_at for op in operations if isinstance(op, Append)] == [
        datetime(2026, 1, 19, 3, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        None,
    ]


def test_an_output_has_the_time_at_which_its_calls_began() -> None:
    times = [f"2026-01-19T05:00:{second:02}Z" for second in (0, 20, 21, 40, 41)]
    operations = read(
        assistant(1, None, says("I edit it."), id="m", timestamp=times[0]),
        assistant(2, 1, tool_call("a"), id="m", timestamp=times[1]),
        answer(3, 2, "a", timestamp=times[2]),
        assistant(4, 2, tool_call("b"), id="m", timestamp=times[3]),
        answer(5, 4, "b", timestamp=times[4]),
        user(6, 5, "thanks"),
    )
    moments = [op.draft.created_at for op in operations if isinstance(op, Append)]
    assert [moment.second for moment in moments[:3] if moment] == [20, 21, 41]


def test_entries_that_are_open_at_the_end_of_the_file_are_provisional() -> None:
    operations = read(user(1, None, "go"), assistant(2, 1, tool_call("t")), answer(3, 2, "t"))
    assert [op.provisional for op in operations if isinstance(op, Append)] == [False, True, True]


def test_an_input_closes_the_message_before_it() -> None:
    operations = read(assistant(1, None, says("a")), user(2, 1, "thanks"))
    assert [op.provisional for op in operations if isinstance(op, Append)] == [False, False]


def test_an_unknown_block_is_kept_in_the_metadata() -> None:
    block = {"type": "fallback", "model": "x"}
    operations = read(assistant(1, None, says("a"), block))
    assert metadata(operations)[0]["blocks"] == [block]


def test_a_server_side_tool_is_answered_in_its_own_message() -> None:
    used = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "x"}}
    search_result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"title": "X"}]}
    operations = read(assistant(1, None, used, search_result, says("It is X.")))
    assert [body.kind for body in bodies(operations)] == ["model_output", "tool_results"]
    assert results(operations) == [
        ToolResult(tool_call_id="srv", tool_name="web_search", status="success", outputs=[{"title": "X"}])
    ]


def test_a_server_side_result_is_not_dated_before_its_output() -> None:
    used = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "x"}}
    search_result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"title": "X"}]}
    operations = read(
        assistant(1, None, says("I search."), id="m", timestamp="2026-01-19T05:00:00Z"),
        assistant(2, 1, used, search_result, id="m", timestamp="2026-01-19T05:00:20Z"),
    )
    moments = [op.draft.created_at for op in operations if isinstance(op, Append)]
    assert [moment.second for moment in moments if moment] == [20, 20]


def test_an_early_version_s_bare_tool_records_are_read() -> None:
    operations = read(
        record("tool_use", 1, None, name="bash", input={"command": "ls"}),
        record("tool_result", 2, 1, name="bash", output="a.txt"),
    )
    (output,) = outputs(operations)
    assert output.tool_calls[0].arguments == {"command": "ls"}
    assert results(operations) == [
        ToolResult(tool_call_id=output.tool_calls[0].id, tool_name="bash", status="success", outputs="a.txt")
    ]


@pytest.mark.parametrize("kind", ["progress", "attachment"])
def test_the_first_input_of_a_new_process_says_so(kind: str) -> None:
    hook = {"type": "hook_success", "hookName": "SessionStart:resume"}
    facts = {"data": hook} if kind == "progress" else {"attachment": hook}
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, says("ready")),
        record(kind, 3, 2, **facts),
        record(kind, 4, 3, **facts),
        user(5, 4, "go on"),
        assistant(6, 5, says("done")),
        user(7, 6, "more"),
    )
    inputs = [
        operation.draft.metadata["source"].get("resumed")
        for operation in operations
        if isinstance(operation, Append) and operation.draft.body.kind == "model_input"
    ]
    assert inputs == [None, True, None]


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [("2.1.5", "Read", 25), ("2.1.5", "Task", None), ("2.1.52", "Read", None), (7, "Read", None)],
)
def test_results_that_claude_code_may_clear_have_its_estimate(
    version: Any, name: str, expected: int | None
) -> None:
    operations = read(
        user(1, None, "start"),
        assistant(2, 1, tool_call("call_1", name)),
        answer(3, 2, "call_1", "x" * 100, version=version),
    )
    assert metadata(operations)[2]["source"].get("clearable") == expected
