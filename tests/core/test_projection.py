"""What the fold stores in a step's row about its first call and its failures."""

from datetime import UTC, datetime
from typing import Any

from historyapp.core.entries import (
    Body,
    DebugLog,
    Entry,
    ModelInput,
    ModelOutput,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.failures import Check
from historyapp.core.json import dump_json
from historyapp.core.output_facts import MAX_CHECKED
from historyapp.core.projection import Step, Tail, Totals, advance

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def newest(*bodies: Body) -> Step:
    tail = Tail()
    for position, body in enumerate(bodies, 1):
        tail = Tail.load(advance(tail, Entry(position, body, NOW)).tail.dump())
    assert tail.step is not None
    return tail.step


def calling(*calls: tuple[str, dict[str, Any]]) -> ModelOutput:
    tool_calls = [ToolCall(id=str(n), name=name, arguments=values) for n, (name, values) in enumerate(calls)]
    return ModelOutput(tool_calls=tuple(tool_calls))


def failing(*reasons: str) -> ToolResults:
    results = [
        ToolResult(tool_call_id=str(n), status="error", reason=reason) for n, reason in enumerate(reasons)
    ]
    return ToolResults(results=tuple(results))


def test_a_step_has_the_kind_and_target_of_its_first_call() -> None:
    step = newest(calling(("bash", {"command": "make\n test"}), ("read", {"path": "a.py"})))
    assert (step.kind, step.target) == ("shell", "make test")


def test_an_action_written_as_text_has_a_kind_and_a_target_too() -> None:
    step = newest(ModelOutput(use_tool=UseTool(name="read_file", arguments={"path": "a.py"})))
    assert (step.kind, step.target) == ("read", "a.py")


def test_an_answer_has_no_kind_or_target() -> None:
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


def command_results(*ids: str, outputs: str = "make: *** [all] Error 2") -> ToolResults:
    results = [ToolResult(tool_call_id=id, status="success", outputs=outputs) for id in ids]
    return ToolResults(results=tuple(results))


MAKE = ("bash", {"command": "make | tail"})


def test_a_step_has_the_rule_and_the_line_of_its_likely_failure() -> None:
    step = newest(calling(MAKE), command_results("0"))
    assert (step.status, step.likely_failure) == ("success", "command_error")
    assert step.error_line == "make: *** [all] Error 2"
    assert step.total_likely_failures == 1


def test_each_result_is_read_by_its_own_call() -> None:
    called = calling(("read", {"path": "a.log"}), MAKE)
    assert newest(called, command_results("0")).likely_failure == ""
    assert newest(called, command_results("0"), command_results("1")).likely_failure == "command_error"


def test_a_reported_error_is_not_a_likely_failure_in_any_order() -> None:
    called = calling(MAKE, MAKE)
    error = ToolResults(results=(ToolResult(tool_call_id="1", status="error", reason="no"),))
    for bodies in ((command_results("0"), error), (error, command_results("0"))):
        step = newest(called, *bodies)
        assert (step.status, step.likely_failure, step.error_line) == ("error", "", "no")
        assert step.total_likely_failures == 0


def test_an_interruption_is_not_a_likely_failure() -> None:
    stopped = ToolResults(results=(ToolResult(tool_call_id="1", status="interrupted_by_human"),))
    step = newest(calling(MAKE, MAKE), command_results("0"), stopped)
    assert (step.likely_failure, step.error_line, step.total_likely_failures) == ("", "", 0)


def test_likely_failures_are_counted_separately_from_errors() -> None:
    step = newest(
        calling(MAKE),
        command_results("0"),
        calling(MAKE),
        failing("no"),
        calling(MAKE),
        command_results("0"),
        calling(MAKE),
    )
    assert (step.total_likely_failures, step.total_errors) == (2, 1)


def test_the_number_of_remembered_calls_is_bounded() -> None:
    assert len(newest(calling(*[MAKE] * 200)).checks) == MAX_CHECKED


def test_answered_calls_are_not_remembered() -> None:
    assert newest(calling(MAKE), command_results("0")).checks == {}


def test_calls_remembered_by_an_earlier_version_can_be_read() -> None:
    step = newest(calling(MAKE))
    stored = {**step.dump(), "checks": [["0", list(step.checks["0"])]]}
    assert Step.load(stored).checks == step.checks
    assert Step.load({**stored, "checks": []}).checks == {}


def test_a_check_stored_by_an_earlier_version_has_no_kind() -> None:
    assert Check.load(["program", ["make"], ""]) == Check("program", ("make",))


def test_the_preview_of_a_result_depends_on_its_own_call() -> None:
    called = calling(MAKE, ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y\nz"}))
    answered = command_results("1", outputs="The file a has been updated.")
    assert newest(called, answered, command_results("0", outputs="gcc\nbuilt")).result_preview == "+2 −1"
    assert newest(called, command_results("0", outputs="gcc\nbuilt"), answered).result_preview == "built"


def test_steps_are_counted_by_kind_without_answers() -> None:
    read, shell = calling(("read", {"path": "a.py"})), calling(("bash", {"command": "ls"}))
    assert newest(read, shell, shell, ModelOutput(text="done")).kind_totals == {"read": 1, "shell": 2}


def test_a_turn_begins_at_the_step_after_an_input_of_a_person() -> None:
    step, user_input = calling(("ls", {})), ModelInput(content="go")
    by_program = ModelInput(channel="reminder", content="stay on task")
    assert (newest(step).turn, newest(step).turn_first) == (0, 0)
    tail = newest(step, user_input, by_program, step, by_program, step)
    assert (tail.turn, tail.turn_first) == (1, 2)


def test_the_input_preview_is_what_the_person_wrote_and_not_what_the_harness_added() -> None:
    step, added = calling(("ls", {})), ModelInput(channel="meta", content="caveat: the messages below")
    assert newest(added, ModelInput(content="go"), added, step).input_preview == "go"
    assert newest(ModelInput(content="go"), step, added, step).input_preview == added.content
    assert newest(ModelInput(content="go"), ModelInput(content="no, stop"), step).input_preview == "no, stop"


def test_steps_after_a_compaction_are_counted_once_for_its_note_and_its_summary() -> None:
    step, summary = calling(("ls", {})), ModelInput(channel="compaction", content="so far")
    note, other = (DebugLog(category=name, message="x") for name in ("compaction", "hook"))
    condensed = DebugLog(category="condensation", message="x")
    assert newest(step, other, ModelInput(content="compaction"), step).compactions == 0
    assert newest(note, summary, step, step, note, step, condensed, step).compactions == 3


def test_the_names_of_models_that_each_entry_stores_are_limited() -> None:
    totals = Totals()
    for number in range(30):
        names = ("\N{GRINNING FACE}" * 90 + str(number), f"model-{number}-{'x' * 80}", f"m{number}")
        for name in names:
            usage = {"model": name, "usage": {"input_tokens": 10**9, "output_tokens": 1}}
            totals = totals.with_entry(Entry(1, ModelOutput(text="x"), NOW, usage))
    assert len(dump_json(totals.dump())) < 3_000
    assert {"m0", "m1", ""} < totals.models.keys()
    assert sum(model.calls for model in totals.models.values()) == 90
    assert sum(model.output for model in totals.models.values()) == totals.output_tokens == 90
