"""The time of a run."""

import pytest

from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from tests.core.overview.runs import Run


def _result(id: str) -> ToolResults:
    return ToolResults(results=(ToolResult(tool_call_id=id, status="success", outputs="ok"),))


def test_the_reported_time_of_a_step_is_in_each_of_its_results_and_counts_once() -> None:
    both = ModelOutput(tool_calls=tuple(ToolCall(id=id, name="ls", arguments={}) for id in "12"))
    run = Run().add(both).add(_result("1"), execution_time=2.5).add(_result("2"), execution_time=2.5)
    run.call().add(_result("1"), execution_time=1)
    assert run.figures.reported_tool_time == 3_500


@pytest.mark.parametrize("value", ["2", -1, 1e300, float("nan"), None])
def test_a_reported_time_that_is_no_plausible_number_is_left_out(value: object) -> None:
    assert Run().call().add(_result("1"), execution_time=value).figures.reported_tool_time == 0


@pytest.mark.parametrize(
    ("run", "times"),
    [
        (Run().ask().call(after=1).ask(after=20).answer(after=3), (4_000, 0, 0, 20_000)),
        (Run().ask().call(after=1).ask(after=20).ask(after=5).ok(after=10), (1_000, 35_000, 0, 0)),
        (Run().ask().call(after=1).ok(after=2).ask(after=20), (1_000, 2_000, 20_000, 0)),
        (Run().ask().call(after=1).ask(after=20).ask(after=5), (1_000, 0, 5_000, 20_000)),
        (Run().ask().call("AskUserQuestion", after=1).ask(after=20), (1_000, 0, 20_000, 0)),
    ],
)
def test_the_time_of_calls_that_never_have_a_result_is_neither_that_of_tools_nor_a_wait(
    run: Run, times: tuple[int, int, int, int]
) -> None:
    found = run.figures
    assert times == (found.model_time, found.tool_time, found.waiting_time, found.unanswered_time)
