"""Waits for the approval of tool calls."""

from typing import Any

import pytest

from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.overview.approvals import approval_waits
from historyapp.core.overview.findings import choose_findings, ending_of
from tests.core.overview.runs import Run

ASKS: dict[str, Any] = {"sandbox_permissions": "require_escalated"}
QUICK = "Chunk ID: 1\nWall time: 0.5000 seconds\nProcess exited with code 0\nOutput:\n"


def calls(**arguments: dict[str, str]) -> Run:
    tool_calls = [ToolCall(id=id, name="exec_command", arguments=each) for id, each in arguments.items()]
    return Run().ask().add(ModelOutput(tool_calls=tuple(tool_calls)), after=3)


def result(id: str, outputs: str) -> ToolResults:
    return ToolResults(results=(ToolResult(tool_call_id=id, status="success", outputs=outputs),))


@pytest.mark.parametrize("asks", [ASKS, {"with_escalated_permissions": True}])
def test_what_a_call_that_asks_for_approval_takes_beyond_its_own_time_is_a_wait(asks: dict[str, Any]) -> None:
    figures = Run().ask().call("exec_command", after=3, cmd="ls", **asks).ok(QUICK, after=100).figures
    assert (figures.model_time, figures.tool_time, figures.waiting_time) == (3000, 500, 99_500)
    assert figures.tools["exec_command"].milliseconds == figures.slowest[0].score == 500
    findings = choose_findings(figures, ending_of(figures, is_live=True))
    assert [(finding.kind, finding.steps, finding.milliseconds) for finding in findings] == [
        ("longest_approval", (1,), 99_500)
    ]


def test_a_call_that_does_not_ask_has_all_of_its_time() -> None:
    figures = Run().ask().call("exec_command", cmd="ls").ok(QUICK, after=100).figures
    assert (figures.tool_time, figures.waiting_time) == (100_000, 0)


def test_an_unknown_time_of_a_tool_is_no_wait() -> None:
    figures = Run().ask().call("exec_command", cmd="ls", **ASKS).ok("fine", after=100).figures
    assert (figures.tool_time, figures.waiting_time) == (100_000, 0)
    run = calls(a=ASKS, b={}).add(result("a", QUICK), after=100).add(result("b", "fine"))
    assert approval_waits(run.runs[1]) == {}


def test_the_time_beside_an_output_counts_like_the_one_within_it() -> None:
    run = calls(a=ASKS).add(result("a", "fine"), after=10, duration_seconds=4)
    assert approval_waits(run.runs[1]) == {3: 6000}


def test_a_call_that_a_person_rejects_is_a_wait_and_takes_the_tool_no_time() -> None:
    def stopped(feedback: str) -> ToolResults:
        refused = ToolResult(tool_call_id="a", status="interrupted_by_human", feedback=feedback)
        return ToolResults(results=(refused,))

    figures = calls(a=ASKS).add(stopped("exec command rejected by user"), after=100).figures
    assert (figures.tool_time, figures.waiting_time) == (0, 100_000)
    assert not any(step.score for step in figures.slowest)
    unknown = calls(a=ASKS).add(stopped("aborted by user after 100.0s"), after=100).figures
    assert (unknown.tool_time, unknown.waiting_time) == (100_000, 0), "an aborted call may have run"


def test_time_in_which_another_tool_ran_is_no_wait() -> None:
    slow = QUICK.replace("0.5", "8.0")
    run = calls(a=ASKS, b={}).add(result("a", QUICK), after=10).add(result("b", slow))
    assert approval_waits(run.runs[1]) == {3: 2000}
