"""A call that asks a person waits for one: no tool takes its time."""

import pytest

from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.overview.findings import choose_findings, ending_of
from historyapp.core.overview.person_waits import person_waits
from tests.core.overview.runs import Run


def calls(*names: str) -> Run:
    tool_calls = tuple(ToolCall(id=name, name=name, arguments={}) for name in names)
    return Run().ask().add(ModelOutput(tool_calls=tool_calls), after=3)


def results(*ids: str) -> ToolResults:
    return ToolResults(
        results=tuple(ToolResult(tool_call_id=id, status="success", outputs="a") for id in ids)
    )


@pytest.mark.parametrize("name", ["AskUserQuestion", "ExitPlanMode", "request_user_input"])
def test_the_time_until_an_answer_is_a_wait(name: str) -> None:
    figures = Run().ask().call(name, after=3).ok(after=100).figures
    assert (figures.model_time, figures.tool_time, figures.waiting_time) == (3000, 0, 100_000)
    assert figures.tools[name].milliseconds == 0
    assert not figures.slowest
    findings = choose_findings(figures, ending_of(figures, is_live=True))
    assert [(finding.kind, finding.steps, finding.milliseconds) for finding in findings] == [
        ("longest_pause", (1,), 100_000)
    ]


def test_a_question_that_failed_has_asked_nobody() -> None:
    figures = Run().ask().call("AskUserQuestion").failed(after=4).figures
    assert (figures.tool_time, figures.waiting_time) == (4000, 0)


def test_an_input_instead_of_an_answer_ends_the_wait() -> None:
    figures = Run().ask().call("ExitPlanMode").ask(after=9).figures
    assert (figures.tool_time, figures.waiting_time) == (0, 9000)
    assert Run().ask().call("Bash").ask(after=9).figures.waiting_time == 0


def test_other_tools_keep_their_time_and_the_slowest_names_the_step() -> None:
    run = calls("Read", "Bash", "AskUserQuestion").add(results("Read"), after=1)
    figures = run.add(results("Bash"), after=5).add(results("AskUserQuestion"), after=60).figures
    assert (figures.tool_time, figures.waiting_time) == (6000, 60_000)
    assert [(step.tool, step.score) for step in figures.slowest] == [("Bash", 6000)]


def test_an_answer_with_the_time_of_other_results_is_no_known_wait() -> None:
    together = calls("Bash", "AskUserQuestion").add(results("Bash", "AskUserQuestion"), after=60)
    first = calls("Bash", "AskUserQuestion").add(results("AskUserQuestion"), after=60).add(results("Bash"))
    last = calls("Bash", "AskUserQuestion").add(results("Bash"), after=60).add(results("AskUserQuestion"))
    for run in (together, first, last):
        assert person_waits(run.runs[1]).total == 0
