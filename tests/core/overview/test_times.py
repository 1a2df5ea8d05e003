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
