"""Rows of steps that wait for a command of Codex name the command."""

from typing import Any

import pytest

from historyapp.core.entries import Entry, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.projection import Tail, advance
from historyapp.core.waits import MAX_NAMED
from tests.core.overview.runs import START

HEAD = "Chunk ID: 804fb4\nWall time: 30.0 seconds\nProcess running with session ID {}\nOutput:\n1 passed"


def targets(*steps: tuple[dict[str, Any], Any]) -> list[str]:
    """The targets of the rows of these steps. The state between two entries is stored as JSON."""
    tail, found = Tail(), list[str]()
    for number, (arguments, outputs) in enumerate(steps):
        name = "write_stdin" if "session_id" in arguments else "exec_command"
        call = ToolCall(id=str(number), name=name, arguments=arguments)
        result = ToolResult(tool_call_id=str(number), status="success", outputs=outputs)
        for body in (ModelOutput(tool_calls=(call,)), ToolResults(results=(result,))):
            tail = Tail.load(advance(tail, Entry(number + 1, body, START, {}, 1)).tail.dump())
        assert tail.step is not None
        found.append(tail.step.target)
    return found


def wait(session: int, chars: str = "") -> dict[str, Any]:
    return {"session_id": session, "chars": chars}


def test_a_wait_names_the_command_until_its_id_is_used_again() -> None:
    assert targets(
        ({"cmd": "make test"}, HEAD.format(7)),
        ({"cmd": "npm start"}, [{"type": "text", "text": HEAD.format(8)}]),
        (wait(7), HEAD.format(7)),
        (wait(7), "done"),
        (wait(8), "done"),
        (wait(9), "unknown"),
        ({"cmd": "ls"}, HEAD.format(7)),
        (wait(7), "done"),
    ) == [
        "make test", "npm start", "wait for make test", "wait for make test", "wait for npm start", "", "ls",
        "wait for ls",
    ]  # fmt: skip


def test_input_for_a_command_is_no_wait() -> None:
    assert targets(({"cmd": "python"}, HEAD.format(7)), (wait(7, "exit()"), "done"))[1] == "exit()"


def test_a_wait_starts_no_command() -> None:
    steps = ({"cmd": "make test"}, HEAD.format(7)), (wait(7), HEAD.format(8)), (wait(8), "done")
    assert targets(*steps) == ["make test", "wait for make test", ""]


def test_only_the_newest_commands_are_remembered() -> None:
    many = [({"cmd": f"job {n}"}, HEAD.format(n)) for n in range(1, MAX_NAMED + 2)]
    assert targets(*many, (wait(1), ""), (wait(2), ""))[-2:] == ["", "wait for job 2"]


@pytest.mark.parametrize(
    "outputs", [None, 5, [], [7], {"output": HEAD.format(7)}, "x" * 500 + HEAD.format(7)]
)
def test_other_results_name_no_running_command(outputs: Any) -> None:
    assert targets(({"cmd": "ls"}, outputs), (wait(7), ""))[1] == ""
