from datetime import UTC, datetime
from typing import Any

from historyapp.core.importers.base import Append, RewindTo
from historyapp.core.importers.gemini_cli import GEMINI_CLI
from historyapp.core.usage import usage_of
from tests.core.importers.gemini_records import GEMINI_FACTS, GEMINI_LINES, GEMINI_MESSAGES
from tests.core.importers.reading import (
    inputs,
    kinds,
    lines,
    logs,
    metadata,
    outputs,
    read,
    results,
    skipped,
    starts,
)

DOCUMENT = {**GEMINI_FACTS, "messages": GEMINI_MESSAGES}


def says(id: str, text: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": id, "type": "gemini", "content": text, "model": "gemini-3-flash-preview", **fields}


def asks(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "type": "user", "content": text}


def in_lines(*records: Any) -> list[Any]:
    return read(GEMINI_CLI, lines(GEMINI_FACTS, *records), "session.jsonl")


def test_a_session_has_the_fields_of_its_file() -> None:
    [start] = starts(read(GEMINI_CLI, DOCUMENT))
    assert (start.session, start.title, start.agent, start.model) == (
        "s", "Fix it", "Gemini CLI", "gemini-2.5-pro",
    )  # fmt: skip
    assert start.metadata == {"project_hash": "p", "kind": "main"}
    assert start.spawned_by is None


def test_a_sub_agent_is_in_the_folder_of_its_parent() -> None:
    document = {**DOCUMENT, "kind": "subagent"}
    [start] = starts(read(GEMINI_CLI, document, folder="/home/x/.gemini/tmp/p/chats/parent-id"))
    assert start.spawned_by == "parent-id"


def test_a_message_of_the_model_is_an_output_and_its_results() -> None:
    operations = read(GEMINI_CLI, DOCUMENT)
    assert kinds(operations) == ["model_input", "debug_log", "model_output", "tool_results", "model_output"]
    [first, last] = outputs(operations)
    assert (first.thoughts, first.text) == ("**Reading**\n\nThe file first.", "I look.")
    assert [(call.id, call.name) for call in first.tool_calls] == [
        ("a", "read_file"), ("b", "look"), ("c", "look"), ("d", "look"),
    ]  # fmt: skip
    assert last.text == "Done."


def test_a_result_has_the_status_of_its_call() -> None:
    good, bad, cancelled = results(read(GEMINI_CLI, DOCUMENT))
    image = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert (good.status, good.outputs) == ("success", [{"type": "text", "text": "here"}, image])
    assert (bad.status, bad.reason) == ("error", "no tool")
    assert (cancelled.status, cancelled.feedback) == ("interrupted_by_human", "here")


def test_a_file_that_is_written_again_has_the_diff_of_the_transcript() -> None:
    shown = {"fileDiff": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n", "isNewFile": False}
    same = {"fileDiff": "--- a\n+++ a\n", "isNewFile": False}
    call = {"id": "w", "name": "write_file", "args": {"file_path": "a", "content": "y"}, "status": "success"}
    records = [
        {**call, "resultDisplay": shown},
        {**call, "id": "n", "resultDisplay": {**shown, "isNewFile": True}},
        {**call, "id": "same", "resultDisplay": {**same, "originalContent": "y", "newContent": "y"}},
    ]
    operations = in_lines(asks("1", "go"), says("2", toolCalls=records))
    diffs = metadata(operations)[-1]["recorded_diffs"]
    changed = {"added": 1, "removed": 1, "diff": "@@ -1 +1 @@\n-x\n+y"}
    assert diffs == {"w": changed, "same": {"added": 0, "removed": 0}}


def test_a_response_with_other_fields_is_kept_completely() -> None:
    response = [{"functionResponse": {"response": {"output": "x", "exit": 1}}}]
    call = {"id": "a", "name": "look", "status": "success", "result": response}
    [result] = results(in_lines(asks("1", "go"), says("2", toolCalls=[call])))
    assert result.outputs == {"output": "x", "exit": 1}


def test_usage_has_the_field_names_of_gemini_and_is_understood() -> None:
    entry_metadata = metadata(read(GEMINI_CLI, DOCUMENT))
    assert (entry_metadata[2]["usage_convention"], entry_metadata[2]["model"]) == ("gemini", "gemini-2.5-pro")
    assert usage_of(entry_metadata[2])._asdict() == {
        "input": 92, "output": 8, "cache_read": 60, "cache_write": 0, "reasoning": 3, "cache_write_hour": 0,
    }  # fmt: skip
    assert "usage" not in entry_metadata[4]


def test_results_have_the_time_at_which_the_last_call_ended() -> None:
    calls = [
        {
            "id": id,
            "name": "look",
            "status": "success",
            "result": "x",
            "timestamp": f"2026-01-01T00:00:0{id}Z",
        }
        for id in "132"
    ]
    message = says("2", toolCalls=calls, timestamp="2026-01-01T00:00:00Z")
    [_, output, result] = [
        operation for operation in in_lines(asks("1", "go"), message) if isinstance(operation, Append)
    ]
    assert output.draft.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert result.draft.created_at == datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)


def test_a_message_that_is_written_again_is_read_once_and_in_full() -> None:
    update = {"$set": {"lastUpdated": "2026-01-10T02:08:36Z"}}
    operations = in_lines(
        asks("1", "go"), update, says("2"), update, says("2", "I look."), asks("3", "so"), says("2")
    )
    assert [output.text for output in outputs(operations)] == ["I look."]
    assert [(item.line, item.damaged) for item in skipped(operations)] == [(8, False)]


def test_the_newest_message_is_provisional() -> None:
    operations = in_lines(asks("1", "go"), says("2", "I look."))
    assert [operation.provisional for operation in operations if isinstance(operation, Append)] == [
        False,
        True,
    ]


def test_a_rewind_goes_back_to_before_its_message() -> None:
    operations = in_lines(
        asks("1", "go"), says("2", "x"), asks("3", "no"), {"$rewindTo": "2"}, asks("4", "so")
    )
    [rewind] = [operation for operation in operations if isinstance(operation, RewindTo)]
    assert rewind.to_position == 1
    assert [message.content for message in inputs(operations)] == ["go", "no", "so"]


def test_a_rewind_to_an_unknown_message_goes_back_to_the_beginning() -> None:
    operations = in_lines(asks("1", "go"), says("2", "x"), {"$rewindTo": "9"}, asks("4", "so"))
    assert [operation.to_position for operation in operations if isinstance(operation, RewindTo)] == [0]


def test_a_replaced_history_names_the_messages_that_the_model_no_longer_sees() -> None:
    kept = [
        asks("9", "summary so far"),
        {"id": "10", "type": "gemini", "content": "Got it."},
        asks("3", "more"),
    ]
    operations = in_lines(asks("1", "go"), says("2", "x"), asks("3", "more"), {"$set": {"messages": kept}})
    [log] = logs(operations)
    assert (log.category, log.message) == ("condensation", "2 messages left the context.")
    source = metadata(operations)[3]["source"]
    assert source["condensed"] == {"forgotten": ["1", "2"]}
    assert [(message.channel, message.content) for message in inputs(operations)][-1] == (
        "meta",
        "summary so far",
    )
    assert len(outputs(operations)) == 1


def test_calls_and_results_in_the_content_of_a_replaced_history_are_read_once() -> None:
    response = {
        "id": "8",
        "type": "user",
        "content": [{"functionResponse": {"name": "look", "response": {}}}],
    }
    operations = in_lines(
        asks("1", "go"), {"$set": {"messages": [asks("1", "go"), response]}}, says("2", "x")
    )
    assert kinds(operations) == ["model_input", "model_output"]


def test_a_file_of_lines_is_read_in_full() -> None:
    operations = read(GEMINI_CLI, lines(*GEMINI_LINES), "session.jsonl")
    assert kinds(operations) == [
        "model_input", "debug_log", "model_output", "tool_results", "model_output", "model_input",
        "debug_log", "model_input", "model_output",
    ]  # fmt: skip
    assert len(results(operations)) == 3
