from typing import Any

import pytest

from historyapp.core.entries import DebugLog
from historyapp.core.importers.base import Append
from tests.core.importers.codex_lines import S, read
from tests.core.importers.operations import bodies, metadata, outputs, results, starts

START = {"type": "thread.started", "thread_id": S}


def item(state: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{state}", "item": {"id": "item_1", "type": kind, **fields}}


def test_the_thread_is_the_session() -> None:
    operations = read(START, item("completed", "agent_message", text="Hi"), name="out.jsonl")
    assert list(starts(operations)) == [S]


def test_reasoning_a_command_and_its_output_are_one_step() -> None:
    operations = read(
        START,
        {"type": "turn.started"},
        item("completed", "reasoning", text="Look around."),
        item("started", "command_execution", command="ls", status="in_progress"),
        item("completed", "command_execution", command="ls", aggregated_output="a.txt\n", exit_code=0),
        {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 2}},
    )
    (output,) = outputs(operations)
    assert output.thoughts == "Look around."
    assert [(c.name, c.arguments) for c in output.tool_calls] == [("shell", {"command": "ls"})]
    assert [(r.status, r.outputs) for r in results(operations)] == [("success", "a.txt\n")]
    assert metadata(operations)[0]["usage"] == {"input_tokens": 5, "output_tokens": 2}
    assert not any(op.provisional for op in operations if isinstance(op, Append))


def test_a_tool_that_never_ended_is_a_call_without_a_result() -> None:
    operations = read(START, item("started", "command_execution", command="sleep 9"))
    assert (len(outputs(operations)), results(operations)) == (1, [])


@pytest.mark.parametrize(
    ("completed", "name", "status"),
    [
        (
            item("completed", "command_execution", command="x", exit_code=1, aggregated_output="no"),
            "shell",
            "error",
        ),
        (item("completed", "file_change", changes=[], status="completed"), "apply_patch", "success"),
        (item("completed", "file_change", changes=[], status="failed"), "apply_patch", "error"),
        (
            item("completed", "mcp_tool_call", server="git", tool="log", status="completed"),
            "git__log",
            "success",
        ),
        (item("completed", "todo_list", items=[]), "update_plan", "success"),
    ],
)
def test_every_kind_of_tool_is_a_call_with_its_result(
    completed: dict[str, Any], name: str, status: str
) -> None:
    operations = read(START, completed)
    assert [c.name for c in outputs(operations)[0].tool_calls] == [name]
    assert [(r.tool_name, r.status) for r in results(operations)] == [(name, status)]


def test_a_web_search_is_part_of_the_output_and_has_no_result() -> None:
    started, completed = (item(state, "web_search", query="x") for state in ("started", "completed"))
    operations = read(START, started, completed, item("completed", "agent_message", text="It is X."))
    [output] = outputs(operations)
    assert (output.text, output.tool_calls, results(operations)) == ("It is X.", (), [])
    assert [block["action"] for block in output.reasoning] == [{"type": "search", "query": "x"}]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "turn.failed", "error": {"message": "out of credits"}},
        {"type": "item.completed", "item": {"id": "1", "type": "error", "message": "out of credits"}},
    ],
)
def test_a_failure_is_logged(line: dict[str, Any]) -> None:
    assert bodies(read(START, line)) == [DebugLog(category="error", message="out of credits")]


def test_the_usage_of_each_turn_is_its_last_output_s() -> None:
    def turn(text: str) -> list[dict[str, Any]]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        return [item("completed", "agent_message", text=text), {"type": "turn.completed", "usage": usage}]

    assert ["usage" in facts for facts in metadata(read(START, *turn("a"), *turn("b")))] == [True, True]
