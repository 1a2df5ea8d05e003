from typing import Any

import pytest

from historyapp.core.entries import ModelInput, SystemInstruction, ToolResult
from historyapp.core.importers.base import Skipped
from tests.core.importers.codex_lines import asks, event, item, output, read, says, thinks, tool_call
from tests.core.importers.operations import bodies, metadata, outputs, results, starts


def test_encrypted_reasoning_is_kept_for_replay() -> None:
    reasoning = thinks("Plan.", encrypted_content="opaque")
    (body,) = outputs(read(reasoning, says("Done.")))
    assert (body.thoughts, body.text, body.reasoning) == ("Plan.", "Done.", [reasoning["payload"]])


def test_unencrypted_reasoning_becomes_only_thoughts() -> None:
    content = [{"type": "reasoning_text", "text": "Raw."}]
    (body,) = outputs(read(item("reasoning", summary=[], content=content)))
    assert (body.thoughts, body.reasoning) == ("Raw.", [])


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ('{"command":["ls"]}', {"command": ["ls"]}),
        ({"command": ["ls"]}, {"command": ["ls"]}),
        ("[REDACTED]", "[REDACTED]"),
        (None, {}),
    ],
)
def test_arguments_are_an_object_or_the_raw_text(given: Any, arguments: Any) -> None:
    (body,) = outputs(read(tool_call("c", given)))
    assert body.tool_calls[0].arguments == arguments


def test_a_custom_tool_s_input_is_free_text() -> None:
    patch = "*** Begin Patch\n*** End Patch"
    (body,) = outputs(read(item("custom_tool_call", call_id="c", name="apply_patch", input=patch)))
    assert (body.tool_calls[0].name, body.tool_calls[0].arguments) == ("apply_patch", patch)


def test_a_namespace_is_part_of_the_tool_s_name() -> None:
    (body,) = outputs(read(tool_call("c", namespace="mcp__github__")))
    assert body.tool_calls[0].name == "mcp__github__shell"


@pytest.mark.parametrize("status", ["completed", "in_progress", "failed", None])
def test_a_web_search_is_part_of_the_output_and_has_no_result(status: str | None) -> None:
    search = item("web_search_call", status=status, action={"type": "search", "query": "x"})
    operations = read(search, says("It is X."))
    (body,) = outputs(operations)
    assert (body.text, body.tool_calls, results(operations)) == ("It is X.", (), [])
    assert body.reasoning == [search["payload"]]
    assert metadata(operations)[0]["source"]["hosted"] == 1


def test_a_generated_image_is_a_result() -> None:
    image_item = item(
        "image_generation_call", id="ig", status="completed", revised_prompt="a cat", result="AA=="
    )
    operations = read(image_item)
    assert outputs(operations)[0].tool_calls[0].arguments == {"prompt": "a cat"}
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    assert results(operations)[0].outputs == [{"type": "image", "source": source}]


def test_a_call_that_failed_at_its_provider_is_an_error() -> None:
    operations = read(item("mcp_call", call_id="c", name="find", arguments="{}", error="no such server"))
    assert [(r.status, r.reason) for r in results(operations)] == [("error", "no such server")]


def test_tools_that_were_searched_for_are_the_result() -> None:
    operations = read(
        item("tool_search_call", call_id="c", arguments={"query": "x"}),
        item("tool_search_output", call_id="c", tools=[{"name": "t"}]),
    )
    assert results(operations) == [
        ToolResult(tool_call_id="c", tool_name="tool_search", status="success", outputs=[{"name": "t"}])
    ]


@pytest.mark.parametrize(
    ("raw", "outputs"),
    [
        ("plain", "plain"),
        ('{"output":"a.txt\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}', "a.txt\n"),
        ('{"output": broken', '{"output": broken'),
        (
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine",
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nfine",
        ),
        ([{"type": "input_text", "text": "a"}], [{"type": "input_text", "text": "a"}]),
        ({"type": "input_text", "text": "a"}, {"type": "input_text", "text": "a"}),
        ({"content": "a", "success": True}, "a"),
        ("a log:\nExit code: 1", "a log:\nExit code: 1"),
        (None, None),
    ],
)
def test_a_successful_result_has_its_output(raw: Any, outputs: Any) -> None:
    (result,) = results(read(tool_call("c"), output("c", raw)))
    assert (result.status, result.outputs, result.tool_name) == ("success", outputs, "shell")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"output":"no such file","metadata":{"exit_code":1}}', "no such file"),
        ('{"output":"","metadata":{"exit_code":127}}', "exit code 127"),
        (
            "Exit code: 2\nWall time: 1 seconds\nOutput:\nbad",
            "Exit code: 2\nWall time: 1 seconds\nOutput:\nbad",
        ),
        (
            "Chunk ID: 1\nProcess exited with code 1\nOutput:",
            "Chunk ID: 1\nProcess exited with code 1\nOutput:",
        ),
        ("failed in sandbox LandlockRestrict: denied", "failed in sandbox LandlockRestrict: denied"),
        ({"content": "refused", "success": False}, "refused"),
    ],
)
def test_a_failed_result_has_its_reason(raw: Any, reason: str) -> None:
    (result,) = results(read(tool_call("c"), output("c", raw)))
    assert (result.status, result.reason) == ("error", reason)


@pytest.mark.parametrize(
    "message", ["aborted by user after 5.2s", "patch rejected by user", "Wall time: 3\naborted by user"]
)
def test_a_call_that_a_person_stopped_is_interrupted_by_human(message: str) -> None:
    (result,) = results(read(tool_call("c"), output("c", message)))
    assert (result.status, result.feedback) == ("interrupted_by_human", message)


@pytest.mark.parametrize("message", ["x" * 400 + "aborted by user", "aborted by user\n" + "x" * 400])
def test_an_output_that_mentions_an_abort_is_not_an_interruption(message: str) -> None:
    (result,) = results(read(tool_call("c"), output("c", message)))
    assert result.status == "success"


def test_exit_code_and_duration_are_kept_beside_the_result() -> None:
    raw = '{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.5}}'
    facts = metadata(read(tool_call("c"), output("c", raw)))[1]
    assert (facts["exit_code"], facts["duration_seconds"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (event("exec_command_end", call_id="c", exit_code=2), "output"),
        (event("patch_apply_end", call_id="c", success=False, stderr="no match"), "output"),
        (event("mcp_tool_call_end", call_id="c", result={"Err": "timed out"}), "output"),
        (event("mcp_tool_call_end", call_id="c", result={"Ok": {"isError": True, "content": []}}), "output"),
    ],
)
def test_an_event_can_report_that_a_tool_failed(ending: dict[str, Any], reason: str) -> None:
    (result,) = results(read(tool_call("c"), ending, output("c", "output")))
    assert (result.status, result.reason) == ("error", reason)


@pytest.mark.parametrize(
    "ending",
    [
        event("exec_command_end", call_id="c", exit_code=0),
        event("patch_apply_end", call_id="c", success=True),
        event("mcp_tool_call_end", call_id="c", result={"Ok": {"isError": False, "content": []}}),
        event("exec_command_end", call_id="other", exit_code=2),
    ],
)
def test_an_event_of_success_or_of_another_call_changes_nothing(ending: dict[str, Any]) -> None:
    assert results(read(tool_call("c"), ending, output("c")))[0].status == "success"


@pytest.mark.parametrize(
    ("message", "channel"),
    [
        ("Fix it", "user"),
        ("<environment_context>\n  <cwd>/</cwd>", "meta"),
        ("<user_instructions>\nBe brief.", "meta"),
        ("# AGENTS.md instructions for /tmp", "meta"),
        ("<turn_aborted>\n", "interruption"),
        ("# Context from my IDE setup:\n\n## My request for Codex:\nFix it", "user"),
    ],
)
def test_the_channel_names_the_sender(message: str, channel: str) -> None:
    assert bodies(read(asks(message))) == [ModelInput(channel=channel, content=message)]


@pytest.mark.parametrize(
    "prompt",
    [
        "# Context from my IDE setup:\n- a.py\n\n## My request for Codex:\nFix the login",
        "<codex_delegation>\n  <source_thread_id>1f</source_thread_id>\n  <input>Fix the login",
    ],
)
def test_the_title_is_the_request_without_the_text_that_a_program_put_before_it(prompt: str) -> None:
    (start,) = starts(read(asks("<environment_context>"), asks(prompt))).values()
    assert start.title == "Fix the login"


def test_a_developer_s_message_is_an_instruction() -> None:
    assert bodies(read(says("Be brief.", "developer"))) == [SystemInstruction(text="Be brief.")]


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/png;base64,AA==", {"type": "base64", "media_type": "image/png", "data": "AA=="}),
        ("https://example.org/a.png", {"type": "url", "url": "https://example.org/a.png"}),
    ],
)
def test_a_picture_in_a_prompt_is_kept(url: str, source: dict[str, str]) -> None:
    content = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": url}]
    (body,) = bodies(read(item("message", role="user", content=content)))
    assert body.content == [{"type": "text", "text": "look"}, {"type": "image", "source": source}]


def test_another_agent_s_message_is_an_input() -> None:
    content = [{"type": "input_text", "text": "found it"}]
    (body,) = bodies(read(item("agent_message", author="a", recipient="b", content=content)))
    assert body == ModelInput(channel="agent", content="found it")


@pytest.mark.parametrize(
    "line", [item("ghost_snapshot"), item("something_new"), asks(""), item("message", role="user")]
)
def test_an_item_without_content_is_skipped_and_not_counted_as_damaged(line: dict[str, Any]) -> None:
    assert [(op.line, op.damaged) for op in read(line) if isinstance(op, Skipped)] == [(1, False)]
