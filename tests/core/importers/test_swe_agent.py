from typing import Any

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append
from historyapp.core.importers.swe_agent import SWE_AGENT
from tests.core.importers.reading import (
    inputs,
    kinds,
    logs,
    metadata,
    outputs,
    read,
    results,
    skipped,
    starts,
)
from tests.core.importers.samples import CALL
from tests.core.importers.samples import SWE_AGENT as SAMPLE


def asks(text: str = "ISSUE:\nIt breaks\n\nINSTRUCTIONS:\nFix it") -> dict[str, Any]:
    return {"role": "user", "content": text, "message_type": "observation", "agent": "main"}


def acts(command: str, thought: str = "Hm.") -> dict[str, Any]:
    content = f"{thought}\n```\n{command}\n```"
    return {"role": "assistant", "content": content, "thought": thought, "action": command, "agent": "main"}


def step(command: str, observation: str, thought: str = "Hm.") -> dict[str, Any]:
    response = f"{thought}\n```\n{command}\n```"
    return {"action": command, "observation": observation, "response": response, "thought": thought}


def run(*history: Any, trajectory: list[Any] | None = None, **fields: Any) -> list[Any]:
    return read(SWE_AGENT, {"history": list(history), "trajectory": trajectory or [], "info": {}, **fields})


def test_a_command_written_as_text_is_an_action_and_the_next_user_message_its_result() -> None:
    operations = run(asks(), acts("ls"), asks("a.py"), acts("submit"))
    assert kinds(operations) == ["model_input", "model_output", "tool_results", "model_output"]
    output = outputs(operations)[0]
    assert output.use_tool
    assert (output.use_tool.name, output.use_tool.arguments) == ("shell", {"command": "ls"})
    assert (output.thoughts, output.text) == ("Hm.", "")
    assert output.raw_message == {"role": "assistant", "content": "Hm.\n```\nls\n```"}
    assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [
        (None, "shell", "a.py")
    ]


def test_tool_calls_are_answered_by_the_ids_of_the_tool_message() -> None:
    calls = [CALL, {**CALL, "id": "b"}]
    message = {"role": "assistant", "content": "Hm.", "thought": "Hm.", "action": "x", "tool_calls": calls}
    operations = run(asks(), message, {"role": "tool", "content": "both", "tool_call_ids": ["a", "b"]})
    [output] = outputs(operations)
    assert (output.text, output.thoughts, output.use_tool) == ("Hm.", None, None)
    assert [(r.tool_call_id, r.tool_name, r.outputs) for r in results(operations)] == [
        ("a", "look", "both"),
        ("b", "look", "both"),
    ]


def test_thinking_is_unchanged() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "S"}]
    [output] = outputs(run(asks(), {**acts("ls"), "thinking_blocks": blocks}))
    assert output.reasoning == blocks


def test_the_last_result_is_read_from_the_trajectory() -> None:
    operations = run(asks(), acts("submit"), trajectory=[step("submit", "the diff")])
    assert [r.outputs for r in results(operations)] == ["the diff"]
    assert isinstance(operations[-1], Append)
    assert operations[-1].provisional


def test_steps_that_only_the_trajectory_has_are_read_in_order() -> None:
    trajectory = [step("ls", "a"), step("edit", "refused"), step("cat a", "x"), step("submit", "diff")]
    operations = run(asks(), acts("ls"), asks("a $"), acts("cat a"), asks("x $"), trajectory=trajectory)
    commands = [output.use_tool.arguments["command"] for output in outputs(operations) if output.use_tool]
    assert commands == ["ls", "edit", "cat a", "submit"]
    assert [r.outputs for r in results(operations)] == ["a $", "refused", "x $", "diff"]


def test_a_step_is_found_by_its_action_if_the_texts_differ() -> None:
    edited = {**acts("ls"), "content": "edited by hand"}
    operations = run(asks(), edited, asks("a $"), trajectory=[step("ls", "a")])
    assert len(outputs(operations)) == 1


def test_the_trajectory_adds_time_and_state_to_results() -> None:
    timed = {**step("ls", "a"), "execution_time": 0.5, "state": '{"open_file": "n/a"}'}
    entry_metadata = metadata(run(asks(), acts("ls"), asks("a $"), trajectory=[timed]))[-1]
    assert (entry_metadata["execution_time"], entry_metadata["state"]) == (0.5, {"open_file": "n/a"})
    assert "observation" not in entry_metadata


def test_the_full_output_is_kept_beside_the_one_that_the_model_saw() -> None:
    operations = run(asks(), acts("ls"), asks("(cut)"), trajectory=[step("ls", "all of it")])
    assert (results(operations)[0].outputs, metadata(operations)[-1]["observation"]) == ("(cut)", "all of it")


def test_a_trajectory_without_history_is_read() -> None:
    operations = run(trajectory=[step("ls", "a"), step("submit", "diff")])
    assert kinds(operations) == ["model_output", "tool_results"] * 2


def test_a_demonstration_is_not_history() -> None:
    operations = run({**asks("watch"), "is_demo": True}, {**acts("x"), "is_demo": True}, asks(), acts("ls"))
    assert kinds(operations) == ["debug_log", "debug_log", "model_input", "model_output"]
    assert [log.category for log in logs(operations)] == ["demonstration", "demonstration"]
    assert starts(operations)[0].title == "It breaks"


def test_the_session_is_named_and_titled() -> None:
    [start] = starts(read(SWE_AGENT, SAMPLE, "django-1.traj"))
    assert (start.session, start.title, start.agent, start.model) == (
        "django-1.traj", "It breaks", "SWE-agent", "gpt-4o",
    )  # fmt: skip
    assert start.metadata["submission"] == "diff"


def test_a_prompt_without_a_heading_is_its_own_title() -> None:
    [start] = starts(run(asks("Solve the   puzzle\nnow " + "x" * 100), acts("ls")))
    assert start.title.startswith("Solve the puzzle now x")
    assert len(start.title) == 80


def test_an_answer_without_a_command_has_no_open_call() -> None:
    operations = run(asks(), acts(""), asks("Say it again."))
    assert kinds(operations) == ["model_input", "model_output", "model_input"]
    assert inputs(operations)[-1].content == "Say it again."


def test_broken_records_are_named_and_the_others_are_read() -> None:
    operations = run(
        asks(), 7, {"role": "narrator", "content": "x"}, acts("ls"), trajectory=[8, step("ls", "a")]
    )
    assert [item.line for item in skipped(operations)] == [2, 3, 1]
    assert kinds(operations) == ["model_input", "model_output", "tool_results"]


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(UnreadableTranscript):
        run()
