from typing import Any

import pytest

from historyapp.core.entries import DebugLog, ModelInput
from historyapp.core.importers.base import Skipped
from tests.core.importers.claude_lines import S, answer, assistant, read, record, says, tool_call, user
from tests.core.importers.operations import bodies, metadata, outputs, results, starts


def test_calls_without_an_id_get_one_and_are_paired_with_their_results() -> None:
    block = {"type": "tool_result", "content": "ok"}
    operations = read(
        assistant(1, None, tool_call(None), tool_call(None)), user(2, 1, [block]), user(3, 1, [block])
    )
    ids = [c.id for c in outputs(operations)[0].tool_calls]
    assert ids == [f"{S}-1-1", f"{S}-1-2"]
    assert [result.tool_call_id for result in results(operations)] == ids


def test_repeated_ids_in_one_output_are_made_unique() -> None:
    operations = read(
        assistant(1, None, tool_call("t", path="a"), tool_call("t", path="b")),
        answer(2, 1, "t", "A"),
        answer(3, 1, "t", "B"),
    )
    ids = [c.id for c in outputs(operations)[0].tool_calls]
    assert len(set(ids)) == 2
    assert [(r.tool_call_id, r.outputs) for r in results(operations)] == list(
        zip(ids, ("A", "B"), strict=True)
    )
    assert set(metadata(operations)[0]["source"]["call_ids"].values()) == {"t"}


def test_a_result_of_an_unknown_call_is_still_read() -> None:
    (result,) = results(read(answer(1, None, "t9")))
    assert (result.tool_call_id, result.tool_name, result.status) == ("t9", None, "success")


def test_a_result_keeps_text_or_blocks_unchanged() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    content = [says("look"), picture]
    assert [r.outputs for r in results(read(answer(1, None, "t", content), answer(2, 1, "u", "text")))] == [
        content,
        "text",
    ]


def test_a_failed_result_has_its_reason() -> None:
    (result,) = results(read(answer(1, None, "t", "Exit code 1", is_error=True)))
    assert (result.status, result.reason, result.outputs) == ("error", "Exit code 1", None)


@pytest.mark.parametrize(
    ("content", "fields", "feedback"),
    [
        (
            "The user doesn't want to proceed with this tool use. (…) the user said:\nuse uv",
            {"is_error": True, "toolUseResult": "Error: The user doesn't want …"},
            "use uv",
        ),
        ("no", {"is_error": True, "toolUseResult": "User rejected tool use"}, "no"),
        ("no", {"is_error": True, "toolDenialKind": "user-rejected"}, "no"),
        (
            "[Request interrupted by user for tool use]",
            {"is_error": True},
            "[Request interrupted by user for tool use]",
        ),
    ],
)
def test_a_call_that_a_person_refused_is_interrupted_by_human(
    content: str, fields: dict[str, Any], feedback: str
) -> None:
    (result,) = results(read(answer(1, None, "t", content, **fields)))
    assert (result.status, result.feedback) == ("interrupted_by_human", feedback)


def test_text_beside_a_result_is_an_input_after_it() -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    operations = read(assistant(1, None, tool_call("t")), user(2, 1, [block, says("and now stop")]))
    assert [body.kind for body in bodies(operations)] == ["model_output", "tool_results", "model_input"]


@pytest.mark.parametrize(
    ("content", "fields", "channel"),
    [
        ("Fix it", {}, "user"),
        ("Base directory for this skill", {"isMeta": True}, "meta"),
        ("<system-reminder>x</system-reminder>", {}, "meta"),
        ("<command-name>/clear</command-name>", {}, "command"),
        ("<local-command-stdout>Bye!</local-command-stdout>", {}, "command"),
        ("[Request interrupted by user]", {}, "interruption"),
        (
            "This session is being continued",
            {"isCompactSummary": True, "isVisibleInTranscriptOnly": True},
            "compaction",
        ),
    ],
)
def test_the_channel_names_the_sender(content: str, fields: dict[str, Any], channel: str) -> None:
    (body,) = bodies(read(user(1, None, content, **fields)))
    assert body == ModelInput(channel=channel, content=content)


def test_a_picture_in_a_prompt_is_kept() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    (body,) = bodies(read(user(1, None, [says("look"), picture])))
    assert body.content == [says("look"), picture]


def test_a_message_shown_only_in_the_transcript_is_a_log() -> None:
    (body,) = bodies(read(user(1, None, "shown", isVisibleInTranscriptOnly=True)))
    assert body == DebugLog(category="transcript", message="shown")


def test_an_api_error_is_logged_and_is_not_an_output() -> None:
    error = assistant(
        1, None, says("API Error: 500"), isApiErrorMessage=True, message={"model": "<synthetic>"}
    )
    (body,) = bodies(read(error))
    assert body == DebugLog(category="api_error", message="API Error: 500")


def test_the_model_of_a_session_is_never_the_synthetic_one() -> None:
    operations = read(
        assistant(1, None, says("x"), message={"model": "<synthetic>"}), assistant(2, 1, says("y"))
    )
    assert starts(operations)[S].model == "claude-opus-4-5"


@pytest.mark.parametrize(
    ("fields", "category", "words"),
    [
        (
            {"subtype": "compact_boundary", "content": "Conversation compacted"},
            "compaction",
            "Conversation compacted",
        ),
        ({"subtype": "turn_duration", "durationMs": 61_234}, "turn_duration", "61.2 s"),
        ({"subtype": "stop_hook_summary", "hookErrors": ["exit 2"]}, "hook", "exit 2"),
        ({"subtype": "api_error", "error": {"status": 529}}, "api_error", "529"),
        ({"subtype": "turn_duration", "durationMs": 10**400}, "turn_duration", "1000"),
        ({}, "system", "system"),
    ],
)
def test_notes_of_claude_code_are_kept(fields: dict[str, Any], category: str, words: str) -> None:
    (body,) = bodies(read(record("system", 1, None, **fields)))
    assert body.category == category
    assert words in body.message


def test_a_prompt_typed_while_the_agent_worked_is_an_input() -> None:
    queued = record("attachment", 1, None, attachment={"type": "queued_command", "prompt": "also do B"})
    assert bodies(read(queued)) == [ModelInput(channel="user", content="also do B")]


def test_a_reminder_is_an_input_and_a_hook_s_report_is_not() -> None:
    reminder = {"type": "edited_text_file", "filename": "a", "snippet": "1 changed"}
    report = {"type": "hook_success", "stdout": "fine"}
    first, second = bodies(
        read(
            record("attachment", 1, None, attachment=reminder), record("attachment", 2, 1, attachment=report)
        )
    )
    assert (first.channel, first.content, first.raw_input) == ("meta", "a:\n\n1 changed", reminder)
    assert second.category == "hook"


@pytest.mark.parametrize(
    ("attachment", "channel"),
    [
        ({"hookEvent": "UserPromptSubmit", "content": "Local time: Tuesday"}, "meta"),
        ({"hookEvent": "SessionStart", "content": "Be brief."}, "meta"),
        ({"hookEvent": "SessionStart", "content": "", "stdout": "{}"}, "hook"),
        ({"hookEvent": "PostToolUse", "content": "formatted"}, "hook"),
    ],
)
def test_what_a_hook_prints_before_a_prompt_is_an_input(attachment: dict[str, Any], channel: str) -> None:
    facts = {"type": "hook_success", "hookName": "a", **attachment}
    (body,) = bodies(read(record("attachment", 1, None, attachment=facts)))
    if channel == "meta":
        assert body == ModelInput(channel="meta", content=attachment["content"], raw_input=facts)
    else:
        assert body.category == "hook"


@pytest.mark.parametrize(
    ("facts", "content"),
    [
        (
            {"type": "agent_listing_delta", "addedLines": ["- Plan: plans", "- Explore: reads"]},
            "- Plan: plans\n- Explore: reads",
        ),
        (
            {"type": "mcp_instructions_delta", "addedNames": ["docs"], "addedBlocks": ["## docs\nAsk it."]},
            "## docs\nAsk it.",
        ),
    ],
)
def test_agents_and_servers_that_are_announced_to_the_model_are_an_input(
    facts: dict[str, Any], content: str
) -> None:
    (body,) = bodies(read(record("attachment", 1, None, attachment=facts)))
    assert (body.channel, body.content) == ("meta", content)


def test_a_file_that_was_attached_is_an_input_with_its_name() -> None:
    file = {"filePath": "/src/a.css", "content": ".a {}", "numLines": 1}
    attachment = {"type": "file", "displayPath": "a.css", "content": {"type": "text", "file": file}}
    (body,) = bodies(read(record("attachment", 1, None, attachment=attachment)))
    assert (body.channel, body.content, body.raw_input) == ("meta", "a.css:\n\n.a {}", attachment)


def test_a_picture_that_was_attached_is_an_image() -> None:
    content = {"type": "image", "file": {"base64": "AA==", "type": "image/jpeg"}}
    attachment = {"type": "file", "filename": "/src/a.jpg", "content": content}
    (body,) = bodies(read(record("attachment", 1, None, attachment=attachment)))
    source = {"type": "base64", "media_type": "image/jpeg", "data": "AA=="}
    assert body.content == [says("/src/a.jpg"), {"type": "image", "source": source}]


def test_the_text_of_skills_that_were_called_up_is_an_input() -> None:
    attachment = {"type": "invoked_skills", "skills": [{"name": "a", "content": "Do A"}, {"content": "Do B"}]}
    (body,) = bodies(read(record("attachment", 1, None, attachment=attachment)))
    assert (body.channel, body.content) == ("meta", "Do A\n\nDo B")


def test_the_tasks_of_a_reminder_are_an_input() -> None:
    tasks = [{"id": "6", "subject": "Write it", "status": "pending"}, {"id": "7"}, "x"]
    todos = [{"content": "Look", "status": "completed"}, {"content": "Fix", "status": "in_progress"}]
    lines = [
        record("attachment", 1, None, attachment={"type": "task_reminder", "content": tasks}),
        record("attachment", 2, 1, attachment={"type": "todo_reminder", "content": todos}),
    ]
    assert [(body.channel, body.content) for body in bodies(read(*lines))] == [
        ("meta", "#6. [pending] Write it"),
        ("meta", "1. [completed] Look\n2. [in_progress] Fix"),
    ]


def test_a_hook_s_message_to_the_person_is_a_log_in_its_own_words() -> None:
    message = {"type": "hook_system_message", "content": "\n\nLinked to\nyour commit.", "hookName": "Start"}
    (body,) = bodies(read(record("attachment", 1, None, attachment=message)))
    assert body == DebugLog(category="hook", message="Start: Linked to\nyour commit.")


@pytest.mark.parametrize(
    "line",
    [
        {"type": "file-history-snapshot", "messageId": "1", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": S},
        record("progress", 1, None, data={"type": "bash_progress", "output": "x"}),
        record("attachment", 1, None, attachment={"type": "todo_reminder", "content": []}),
        user(1, None, ""),
        user(1, None, []),
        {"type": "something-new", "sessionId": S},
    ],
)
def test_records_without_history_are_skipped_and_not_counted_as_damaged(line: dict[str, Any]) -> None:
    (skipped,) = [op for op in read(line) if isinstance(op, Skipped)]
    assert (skipped.line, skipped.damaged) == (1, False)


@pytest.mark.parametrize(
    "line",
    [
        record("user", 9, None, message="error"),
        record("user", 9, None),
        record("assistant", 9, None, message={"contenst": []}),
        record("assistant", 9, None, message={"content": None}),
        {"silly": "this"},
        {"type": {"a": 1}},
        '{"type": "user", "message": {"role": "us',
    ],
)
def test_a_broken_record_is_named_and_all_others_are_read(line: dict[str, Any] | str) -> None:
    operations = read(user(1, None, "before"), line, user(2, 1, "after"))
    assert [body.content for body in bodies(operations)] == ["before", "after"]
    assert [(op.line, op.damaged) for op in operations if isinstance(op, Skipped)] == [(2, True)]


def test_a_record_that_occurs_twice_is_imported_once() -> None:
    operations = read(user(1, None, "one"), assistant(2, 1, says("two")), user(1, None, "one"))
    assert len(bodies(operations)) == 2
    assert [(op.line, op.damaged) for op in operations if isinstance(op, Skipped)] == [(3, False)]


def test_records_with_equal_ids_that_are_not_uuids_stay_separate() -> None:
    lines = [user(1, None, text) | {"uuid": "edge_011", "parentUuid": "edge_011"} for text in ("one", "two")]
    assert [body.content for body in bodies(read(*lines))] == ["one", "two"]
