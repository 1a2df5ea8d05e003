"""The recorder in an agent's loop, and what it can read after a crash."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, TypeAdapter
from pytest_django.live_server_helper import LiveServer

from historyapp.client import (
    ActionError,
    ActionInterrupted,
    ActionProposal,
    ActionSuccess,
    Conflict,
    Episode,
    ModelOutput,
    Playhead,
    Recorder,
    ToolCall,
    UseTool,
    from_exception,
)
from historyapp.client.hooks import recordable
from historyapp.core.actions import ActionResult
from historyapp.models import Project
from tests import golden
from tests.api.conftest import key_for
from tests.shared import needs

RESULT: TypeAdapter[ActionSuccess | ActionError | ActionInterrupted] = TypeAdapter(ActionResult)


def proposal(name: str = "ls") -> ActionProposal:
    return ActionProposal(thoughts="so", use_tool=UseTool(name=name))


@pytest.fixture
def five(recorder: Recorder) -> Recorder:
    for number in range(1, 6):
        recorder.after_parse(proposal(f"tool_{number}"))
        recorder.after_execute(number)
    return recorder


def newest(recorder: Recorder) -> Episode:
    return recorder[-1]


class Planned(ActionProposal):
    """A proposal as an agent extends it."""

    confidence: float = 0.5


class Plan(BaseModel):
    observation: str
    sure: bool | None = None


def test_extra_fields_of_proposals_are_kept(recorder: Recorder) -> None:
    thoughts: Any = Plan(observation="two files")
    recorder.after_parse(Planned(thoughts=thoughts, use_tool=UseTool(name="ls")), metadata={"cost": 0.25})
    assert newest(recorder).thoughts == {"observation": "two files", "sure": None}
    (entry,) = recorder.playhead.entries(recorder.session_id)
    assert entry.metadata == {"cost": 0.25, "proposal": {"confidence": 0.5}}


def test_steps_are_found_by_their_tool(five: Recorder) -> None:
    episodes = five.playhead.episodes(five.session_id, tool="tool_3", since=datetime(2020, 1, 1, tzinfo=UTC))
    assert [step.number for step in episodes] == [3]


def test_an_action_is_recorded_before_it_runs(recorder: Recorder) -> None:
    recorder.after_parse(proposal(), metadata={"cost": 0.25})
    assert recorder.fmt_list() == "1. Executed `ls()`."
    assert recorder.session.cost == 0.25


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("fine", "fine"),
        ({"a": [None, 1.5]}, "{'a': [None, 1.5]}"),
        (None, "None"),
        ((1, 2), "(1, 2)"),
        ({1: 2}, "{1: 2}"),
        (float("nan"), "nan"),
        (ActionSuccess(outputs={3}), "{3}"),
        (ActionError(reason="no"), "Action failed: 'no'"),
        (ValueError("no"), "Action failed: 'no'"),
        (KeyError(), "Action failed: 'KeyError()'"),
        (
            ActionInterrupted(feedback="no"),
            'The user interrupted the action with the following feedback: "no"',
        ),
    ],
)
def test_every_outcome_of_an_action_is_recorded(recorder: Recorder, outcome: object, text: str) -> None:
    recorder.after_parse(proposal())
    recorder.after_execute(outcome)
    assert recorder.fmt_list() == f"1. Executed `ls()`: {text}"


def test_an_exception_is_recorded_with_its_type(recorder: Recorder) -> None:
    recorder.after_parse(proposal())
    recorder.after_execute(error := OSError(2, "no such file"))
    result = newest(recorder).result
    assert result is not None
    assert result.error is not None
    assert result.error.model_dump() == from_exception(error).model_dump()


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError


@dataclass
class Point:
    x: int


@pytest.mark.parametrize("value", ["x", 1, 1.5, True, None, [1, [2]], {"a": {"b": []}}, "\ud800"])
def test_json_values_are_recorded_unchanged(value: object) -> None:
    assert recordable(value) is value


@pytest.mark.parametrize("value", [b"x", (1,), [(1,)], {1: 1}, {"a": {2}}, Point(1), float("inf")])
def test_other_values_are_recorded_as_text(value: object) -> None:
    assert recordable(value) == str(value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("make", [Unshowable, lambda: nested(100_000)])
def test_values_that_cannot_be_printed_are_recorded_as_such(make: Callable[[], object]) -> None:
    assert "cannot be shown" in recordable(make())


def test_a_deep_value_is_recorded_as_its_text() -> None:
    assert recordable(nested(300)) == str(nested(300))


def test_a_second_action_and_a_second_result_are_conflicts(recorder: Recorder) -> None:
    with pytest.raises(Conflict, match="Cannot register result for cycle without action"):
        recorder.after_execute("fine")
    recorder.after_parse(proposal())
    with pytest.raises(Conflict, match="Action for current cycle already set"):
        recorder.after_parse(proposal())


def test_steps_are_read_like_items_of_a_list(five: Recorder) -> None:
    numbers = [1, 2, 3, 4, 5]
    assert [step.number for step in five] == [step.number for step in five.episodes] == numbers
    for part in (slice(None), slice(-2, None), slice(1, 3), slice(None, None, -2), slice(4, 2), slice(9, 99)):
        assert [step.number for step in five[part]] == numbers[part]
    assert [five[index].number for index in (0, 4, -1, -5)] == [1, 5, 5, 1]
    for index in (5, -6):
        with pytest.raises(IndexError, match=r"The session has \d+ steps"):
            five[index]


def test_a_step_reads_as_its_long_form_and_has_a_short_one(recorder: Recorder) -> None:
    recorder.after_parse(proposal())
    recorder.after_execute("fine")
    recorder.after_parse(proposal("rm"))
    recorder.after_execute(ValueError("no"))
    recorder.append(ModelOutput(text="Done."))
    recorder.after_parse(proposal("sleep"))
    assert (
        str(recorder[0])
        == recorder[0].format()
        == ('Executed `ls()`\n- **Reasoning:** "so"\n- **Status:** `success`\n- **Output:** fine')
    )
    assert [step.short for step in recorder] == [
        "Executed `ls()`: fine",
        "Executed `rm()`: Action failed: 'no'",
        "Answered: Done.",
        "Executed `sleep()`.",
    ]
    assert str(recorder[-1]).endswith("- **Status:** `did_not_finish`\n")
    lines = [f"{step.number}. {step.short}" for step in recorder[:]]
    assert "\n".join(lines) == recorder.fmt_list()


def test_a_new_recorder_has_no_steps(recorder: Recorder) -> None:
    assert (len(recorder), recorder.cursor, recorder.in_flight, recorder[:]) == (0, 0, None, [])
    assert not recorder
    with pytest.raises(IndexError):
        recorder[-1]


def test_the_cursor_counts_finished_steps(five: Recorder) -> None:
    five.after_parse(proposal())
    assert (len(five), five.cursor) == (6, 5)
    five.rewind()
    assert (len(five), five.cursor) == (5, 5)


def test_a_rewind_drops_the_step_in_flight_and_more_steps(five: Recorder) -> None:
    five.after_parse(proposal())
    assert five.rewind(2, reason="wrong").steps_cut == 3
    assert len(five) == 3
    five.rewind(99)
    assert len(five) == 0


def test_a_fork_continues_without_its_parent(five: Recorder) -> None:
    child = five.fork(2, title="other")
    child.after_parse(proposal("other"))
    assert (len(child), len(five), child.session.title) == (3, 5, "other")
    assert len(five.fork()) == 5


def test_settings_determine_the_context(five: Recorder) -> None:
    assert [message.role for message in five.get_messages()][:2] == ["system", "assistant"]
    five.configure(full_message_count=5)
    assert {message.role for message in five.get_messages()} == {"assistant", "user"}
    five.say("And now?")
    assert five.get_messages()[-1].as_dict() == {"role": "user", "content": "And now?"}
    assert five.compile_progress(max_tokens=0) == ""
    assert five.fmt_paragraph().count("### Step ") == 5


def test_the_step_in_flight_is_found_and_reported_after_a_crash(
    playhead: Playhead, caplog: pytest.LogCaptureFixture
) -> None:
    id = uuid4()
    Recorder.open(playhead, id, title="a run").after_parse(proposal())
    again = Recorder.open(playhead, id, title="a run")
    assert again.in_flight is not None
    assert again.in_flight.call == "ls()"
    assert f"Session {id} has an action in flight: step 1" in caplog.text
    again.after_execute(ActionInterrupted(feedback="The agent was restarted."))
    assert again.in_flight is None
    assert newest(again).status == "interrupted_by_human"


def test_reopening_a_session_logs_nothing_without_a_step_in_flight(
    five: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(Recorder.open(five.playhead, five.session_id)) == 5
    assert caplog.text == ""


def test_an_id_of_a_session_of_another_project_is_a_conflict(
    recorder: Recorder, live_server: LiveServer
) -> None:
    stranger = Playhead(live_server.url, key_for(Project.objects.create(name="Charlie's"), "charlie"))
    with pytest.raises(Conflict):
        Recorder.open(stranger, recorder.session_id)


def test_results_of_parallel_calls_are_recorded_one_by_one(recorder: Recorder) -> None:
    calls = tuple(ToolCall(id=id, name="read", arguments={"path": id}) for id in ("a", "b"))
    recorder.append(ModelOutput(tool_calls=calls))
    recorder.after_call(calls[1], OSError("no such file"))
    assert recorder.in_flight is not None
    recorder.after_call(calls[0], "fine")
    assert recorder.in_flight is None
    assert newest(recorder).status == "error"
    assert [entry.fields["results"][0]["tool_call_id"] for entry in entries(recorder, "tool_results")] == [
        "b",
        "a",
    ]


def entries(recorder: Recorder, kind: str) -> list[Any]:
    return list(recorder.playhead.entries(recorder.session_id, kind=kind))


@needs(golden.PATH)
def test_the_recorder_gives_the_results_of_the_earlier_history(playhead: Playhead) -> None:
    for parameter in golden.cases()[::16]:  # the API's own tests take them all
        (case,) = parameter.values
        count = case["config"]["full_message_count"]
        recorder = Recorder.open(playhead, settings={"max_tokens": None, "full_message_count": count})
        refused = [message for operation in case["ops"] if (message := refusal(recorder, operation))]
        seen = observed(recorder)
        for key in set(case["compare"]) & set(seen):
            assert seen[key] == case["expected"][key], (case["id"], key)
        assert refused == [error["message"] for error in case["expected"]["errors"]]


def refusal(recorder: Recorder, operation: dict[str, Any]) -> str:
    """Why the operation was refused; empty when it was not."""
    try:
        match operation["op"]:
            case "register_action":
                recorder.register_action(ActionProposal.model_validate(operation["action"]))
            case "register_result":
                recorder.register_result(RESULT.validate_python(operation["result"]))
            case "rewind":
                recorder.rewind(operation["n"])
            case "set_summary":
                step = recorder[operation["index"]].number
                recorder.playhead.write_summary(recorder.session_id, step, step, operation["summary"])
    except Conflict as conflict:
        return str(conflict)
    return ""


def observed(recorder: Recorder) -> dict[str, Any]:
    return {
        "n_episodes": len(recorder),
        "cursor": recorder.cursor,
        "has_current_episode": recorder.current_episode is not None,
        "fmt_list": recorder.fmt_list(),
        "fmt_paragraph": recorder.fmt_paragraph(),
        "episode_formats": [episode.format() for episode in recorder],
        "summaries": [episode.summary for episode in recorder],
        "messages_unlimited": [message.as_dict() for message in recorder.get_messages()],
    }
