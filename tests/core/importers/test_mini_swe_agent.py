from datetime import UTC, datetime
from typing import Any

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append
from historyapp.core.importers.mini_swe_agent import MINI_SWE_AGENT
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

TASK = {"role": "user", "content": "Please solve this issue: It breaks\nBadly"}
CALLS = {"role": "assistant", "content": "I look.", "tool_calls": [CALL], "function_call": None}


def came_back(text: str, **extra: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "a", "content": text, "extra": extra}


def ended(status: str, text: str = "diff") -> dict[str, Any]:
    return {"role": "exit", "content": text, "extra": {"exit_status": status, "submission": text}}


def run(*messages: Any, **info: Any) -> list[Any]:
    document = {"trajectory_format": "mini-swe-agent-1.1", "instance_id": "x-1", "info": info}
    return read(MINI_SWE_AGENT, {**document, "messages": list(messages)})


def writes(command: str) -> dict[str, Any]:
    return {"role": "assistant", "content": f"THOUGHT: hm\n\n```mswea_bash_command\n{command}\n```\nSo."}


def test_usage_cost_and_time_are_those_of_the_message() -> None:
    response = {"id": "r", "usage": {"prompt_tokens": 7}}
    operations = run(
        TASK, {**CALLS, "extra": {"response": response, "cost": 0.25, "timestamp": 1775812897.5}}
    )
    entry_metadata = metadata(operations)[-1]
    assert (entry_metadata["usage"], entry_metadata["usage_convention"], entry_metadata["cost"]) == (
        {"prompt_tokens": 7},
        "openai",
        0.25,
    )
    assert entry_metadata["source"]["id"] == "r"
    assert operations[-1].draft.created_at == datetime(2026, 4, 10, 9, 21, 37, 500000, UTC)


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        ({"returncode": 0, "exception_info": ""}, "success"),
        ({"returncode": 2}, "error"),
        ({"returncode": -1, "exception_info": "action was not executed"}, "error"),
        ({"returncode": 0, "exception_info": "timed out"}, "error"),
    ],
)
def test_a_command_fails_by_its_return_code_or_an_exception(extra: dict[str, Any], status: str) -> None:
    [result] = results(run(TASK, CALLS, came_back("it said", **extra)))
    assert (result.status, result.outputs or result.reason, result.tool_name) == (status, "it said", "look")


def test_output_that_the_model_did_not_see_is_in_the_metadata() -> None:
    operations = run(TASK, CALLS, came_back("(cut)", raw_output="all of it", returncode=0), writes("ls"))
    assert metadata(operations)[-2]["raw_output"] == "all of it"
    operations = run(TASK, CALLS, came_back("<output>short</output>", raw_output="short\n", returncode=0))
    assert "raw_output" not in metadata(operations)[-1]


def test_a_fenced_command_is_an_action_and_the_next_user_message_its_result() -> None:
    back = {"role": "user", "content": "<returncode>1</returncode>\n<output>\nno\n</output>"}
    operations = read(MINI_SWE_AGENT, [TASK, writes("ls -l"), back])
    [output], [result] = outputs(operations), results(operations)
    assert output.use_tool
    assert (output.use_tool.name, output.use_tool.arguments) == ("bash", {"command": "ls -l"})
    assert output.thoughts == "THOUGHT: hm\n\n\nSo."
    assert output.raw_message == writes("ls -l")
    assert (result.tool_call_id, result.tool_name, result.status) == (None, "bash", "error")


def test_an_answer_without_exactly_one_command_has_no_open_call() -> None:
    two = {"role": "assistant", "content": "```bash\na\n```\n```bash\nb\n```"}
    operations = run(TASK, two, {"role": "user", "content": "Give one command."})
    assert kinds(operations) == ["model_input", "model_output", "model_input"]


def test_several_commands_that_were_run_are_one_action() -> None:
    message = {**writes("a"), "extra": {"actions": [{"command": "a"}, {"command": "b"}]}}
    [output] = outputs(run(TASK, message))
    assert output.use_tool
    assert output.use_tool.arguments == {"commands": ["a", "b"]}


def test_the_submission_is_the_last_result() -> None:
    operations = run(TASK, CALLS, ended("Submitted"))
    assert [(r.tool_call_id, r.status, r.outputs) for r in results(operations)] == [("a", "success", "diff")]


def test_a_run_that_broke_off_fails_its_last_command() -> None:
    operations = run(TASK, CALLS, ended("TimeoutExpired", ""))
    assert [(r.status, r.reason) for r in results(operations)] == [("error", "TimeoutExpired")]


def test_an_end_that_answers_nothing_is_logged() -> None:
    operations = run(TASK, CALLS, came_back("ok"), ended("LimitsExceeded", ""))
    assert [log.message for log in logs(operations)] == ["LimitsExceeded"]


def test_a_traceback_is_logged_provisionally() -> None:
    operations = run(TASK, exit_status="Timeout", traceback="Traceback: boom")
    assert logs(operations)[0].message == "Timeout\nTraceback: boom"
    assert isinstance(operations[-1], Append)
    assert operations[-1].provisional


def test_an_interruption_by_a_person_answers_every_open_call() -> None:
    two = {**CALLS, "tool_calls": [CALL, {**CALL, "id": "b"}]}
    stop = {"role": "user", "content": "No, wait.", "extra": {"interrupt_type": "UserRejection"}}
    answers = results(run(TASK, two, stop))
    assert [(r.tool_call_id, r.status, r.feedback) for r in answers] == [
        ("a", "interrupted_by_human", "No, wait."),
        ("b", "interrupted_by_human", "No, wait."),
    ]


def test_messages_of_the_scaffold_are_not_inputs_of_the_user() -> None:
    complaint = {"role": "user", "content": "Bad call.", "extra": {"interrupt_type": "FormatError"}}
    operations = run({"role": "system", "content": "You help."}, TASK, complaint)
    assert [message.channel for message in inputs(operations)] == ["user", "environment"]
    assert kinds(operations)[0] == "system_instruction"


def test_the_session_is_named_and_titled() -> None:
    [start] = starts(run(TASK, mini_version="2.2", config={"model": {"model_name": "deepseek"}}))
    assert (start.session, start.title, start.agent, start.model) == (
        "run.json", "It breaks", "mini-swe-agent", "deepseek",
    )  # fmt: skip
    assert (start.metadata["instance_id"], start.metadata["version"]) == ("x-1", "2.2")


def test_broken_messages_are_named_and_the_others_are_read() -> None:
    operations = run(TASK, None, {"content": "no role"}, writes("ls"))
    assert [item.line for item in skipped(operations)] == [2, 3]
    assert kinds(operations) == ["model_input", "model_output"]


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(UnreadableTranscript):
        run()
