"""What the fold puts into a step's row about its first call and about what failed."""

from datetime import UTC, datetime
from typing import Any

from historyapp.core.entries import Body, Entry, ModelOutput, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.projection import Step, Tail, advance

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def newest(*bodies: Body) -> Step:
    tail = Tail()
    for position, body in enumerate(bodies, 1):
        tail = Tail.load(advance(tail, Entry(position, body, NOW)).tail.dump())
    assert tail.step is not None
    return tail.step


def calling(*calls: tuple[str, dict[str, Any]]) -> ModelOutput:
    made = [ToolCall(id=str(n), name=name, arguments=values) for n, (name, values) in enumerate(calls)]
    return ModelOutput(tool_calls=tuple(made))


def failing(*reasons: str) -> ToolResults:
    results = [ToolResult(tool_call_id=str(n), status="error", reason=one) for n, one in enumerate(reasons)]
    return ToolResults(results=tuple(results))


def test_a_step_has_the_kind_and_target_of_its_first_call() -> None:
    step = newest(calling(("bash", {"command": "make\n test"}), ("read", {"path": "a.py"})))
    assert (step.kind, step.target) == ("shell", "make test")


def test_an_action_written_as_text_has_them_too() -> None:
    step = newest(ModelOutput(use_tool=UseTool(name="look", arguments={"path": "a.py"})))
    assert (step.kind, step.target) == ("read", "a.py")


def test_an_answer_has_none() -> None:
    step = newest(ModelOutput(text="done"))
    assert (step.kind, step.target, step.error_line) == ("", "", "")


def test_the_error_line_is_the_first_line_of_the_first_error() -> None:
    called = calling(("bash", {"command": "ls"}), ("bash", {"command": "pwd"}))
    step = newest(called, failing("\n\nno such folder\nmore", "no memory"))
    assert step.error_line == "no such folder"


def test_the_error_line_of_an_earlier_result_stays() -> None:
    called = calling(("bash", {"command": "ls"}), ("bash", {"command": "pwd"}))
    later = ToolResults(results=(ToolResult(tool_call_id="1", status="error", reason="second"),))
    assert newest(called, failing("first"), later).error_line == "first"


def test_a_long_error_line_is_cut() -> None:
    assert len(newest(calling(("bash", {})), failing("x" * 1000)).error_line) == 200


def test_a_result_that_answers_no_call_gives_no_error_line() -> None:
    late = ToolResults(results=(ToolResult(tool_call_id="gone", status="error", reason="late"),))
    assert newest(calling(("bash", {})), late).error_line == ""
