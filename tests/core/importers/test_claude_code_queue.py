"""Prompts that were typed while Claude Code was busy: each once, before the output that answers it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from historyapp.core.entries import DebugLog, ModelInput, text_of
from historyapp.core.importers.base import Append, Operation, Source
from historyapp.core.importers.claude_code import CLAUDE_CODE
from tests.core.importers.claude_lines import S, answer, assistant, read, record, says, tool_call, user
from tests.core.importers.operations import bodies
from tests.core.importers.reading import skipped
from tests.shared import SHARED, needs

TYPED, TAKEN, LATER = "2026-01-19T03:24:30Z", "2026-01-19T03:24:35Z", "2026-01-19T03:24:40Z"
TASK = json.dumps({"task_id": "b1", "task_type": "local_bash"})
CORPUS = SHARED / "corpus" / "claude_code"


def queue(operation: str, content: Any = None, at: str = TAKEN) -> dict[str, Any]:
    fields = {"type": "queue-operation", "operation": operation, "timestamp": at, "sessionId": S}
    return fields | ({} if content is None else {"content": content})


def typed(content: Any) -> dict[str, Any]:
    return queue("enqueue", content, TYPED)


def later(number: int, parent: int, text: str) -> dict[str, Any]:
    return assistant(number, parent, says(text), timestamp=LATER)


def attached(number: int, parent: int, prompt: Any, **fields: Any) -> dict[str, Any]:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **fields}
    return record("attachment", number, parent, attachment=attachment, timestamp=TYPED)


BEGINNING = (user(1, None, "Fix it"), assistant(2, 1, tool_call("t")))


def words_of(*lines: dict[str, Any]) -> list[str]:
    """The entries that an importer reads in a file, in a few words each."""
    return [_words_of(body) for body in bodies(read(*lines))]


def _words_of(body: Any) -> str:
    match body:
        case ModelInput(channel=channel, content=content):
            return f"{channel}: {text_of(content)}"
        case DebugLog(category=category, message=message):
            return f"{category}: {message}"
    return str(body.kind)


def test_a_prompt_that_a_running_turn_took_is_read_before_the_output_that_answers_it() -> None:
    lines = (*BEGINNING, typed("use uv"), queue("remove"), answer(3, 2, "t"), later(4, 3, "Sure"))
    assert words_of(*lines) == [
        "user: Fix it",
        "model_output",
        "tool_results",
        "user: use uv",
        "model_output",
    ]
    entry = [operation for operation in read(*lines) if isinstance(operation, Append)][3]
    assert entry.draft.metadata["source"] == {"format": "claude_code", "line": 3, "queued": True}
    assert entry.draft.created_at is not None
    assert entry.draft.created_at.isoformat() == "2026-01-19T03:24:30+00:00"


def test_a_prompt_with_an_attachment_of_its_own_is_read_once() -> None:
    lines = (typed("use uv"), queue("remove"), answer(3, 2, "t"), attached(4, 3, "use uv"))
    assert words_of(*BEGINNING, *lines, later(5, 4, "Sure"))[2:] == [
        "tool_results",
        "user: use uv",
        "model_output",
    ]


def test_an_attachment_that_comes_late_does_not_repeat_the_prompt() -> None:
    lines = (typed("use uv"), queue("remove"), answer(3, 2, "t"), later(4, 3, "Sure"))
    assert words_of(*BEGINNING, *lines, attached(5, 3, "use uv")).count("user: use uv") == 1


def test_a_prompt_that_begins_the_next_turn_is_only_in_its_own_record() -> None:
    lines = (typed("and tests"), answer(3, 2, "t"), later(4, 3, "Done"), queue("dequeue"))
    assert words_of(*BEGINNING, *lines, user(5, 4, "and tests")).count("user: and tests") == 1


def test_a_removed_prompt_that_comes_as_a_user_record_is_read_once() -> None:
    lines = (typed("stop"), queue("remove"), answer(3, 2, "t"), user(4, 3, "stop"), later(5, 4, "ok"))
    assert words_of(*BEGINNING, *lines).count("user: stop") == 1


def test_the_same_words_typed_again_later_are_another_prompt() -> None:
    lines = (typed("go on"), queue("remove"), answer(3, 2, "t"), later(4, 3, "ok"), user(5, 4, "go on"))
    assert words_of(*BEGINNING, *lines).count("user: go on") == 2


def test_messages_that_were_made_before_the_turn_took_the_prompt_come_before_it() -> None:
    early = assistant(4, 3, says("Wait"), timestamp=TYPED)
    lines = (typed("use uv"), queue("remove"), answer(3, 2, "t"), early, later(5, 4, "Sure"))
    assert words_of(*BEGINNING, *lines)[2:] == [
        "tool_results",
        "model_output",
        "user: use uv",
        "model_output",
    ]


def test_a_prompt_comes_before_the_next_one_that_a_person_typed() -> None:
    lines = (typed("use uv"), queue("remove"), answer(3, 2, "t"))
    assert words_of(*BEGINNING, *lines, user(4, 3, "no, pip", timestamp=LATER))[3:] == [
        "user: use uv",
        "user: no, pip",
    ]


def test_several_prompts_keep_their_order() -> None:
    lines = (typed("a"), typed("b"), queue("remove"), queue("remove"), answer(3, 2, "t"), later(4, 3, "ok"))
    assert words_of(*BEGINNING, *lines)[3:5] == ["user: a", "user: b"]


def test_a_removal_that_names_a_prompt_removes_that_prompt() -> None:
    lines = (typed("a"), typed("b"), queue("remove", "b"), answer(3, 2, "t"), later(4, 3, "ok"))
    assert words_of(*BEGINNING, *lines)[3:] == ["user: b", "model_output"]


def test_background_tasks_in_the_queue_are_not_prompts_and_come_last() -> None:
    lines = (typed(TASK), typed("why?"), queue("remove"), answer(3, 2, "t"), later(4, 3, "ok"))
    assert words_of(*BEGINNING, *lines, queue("remove"))[3:] == ["user: why?", "model_output"]


def test_a_slash_command_in_the_middle_of_a_turn_reaches_no_model() -> None:
    lines = (typed("/model"), typed("/etc/hosts is wrong"), queue("remove"), queue("remove"))
    assert words_of(*BEGINNING, *lines, answer(3, 2, "t"), later(4, 3, "ok"))[3:5] == [
        "command: /model",
        "user: /etc/hosts is wrong",
    ]


def test_a_notification_is_not_the_input_of_a_person() -> None:
    note = "<task-notification>done</task-notification>"
    lines = (typed(note), queue("remove"), answer(3, 2, "t"), later(4, 3, "ok"))
    assert words_of(*BEGINNING, *lines)[3] == f"meta: {note}"
    attachment = attached(4, 3, "done", commandMode="task-notification")
    assert words_of(*BEGINNING, answer(3, 2, "t"), attachment)[3] == "meta: done"


def test_a_prompt_that_was_not_sent_is_named_as_skipped() -> None:
    operations = read(*BEGINNING, typed("later"), answer(3, 2, "t"))
    assert "user: later" not in map(_words_of, bodies(operations))
    assert [(item.line, item.reason) for item in skipped(operations)] == [
        (3, "a queued prompt that was not sent")
    ]


def test_a_prompt_that_is_taken_at_the_end_of_the_file_is_provisional() -> None:
    operations = read(*BEGINNING, answer(3, 2, "t"), typed("use uv"), queue("remove"))
    last = [operation for operation in operations if isinstance(operation, Append)][-1]
    assert _words_of(last.draft.body) == "user: use uv"
    assert last.provisional


@pytest.mark.parametrize("content", [None, 3, "", {}, [None], [{"type": "text"}]])
def test_an_operation_without_words_does_not_end_the_import(content: Any) -> None:
    lines = (queue("enqueue", content), queue("remove"), {"type": "queue-operation"})
    assert words_of(*lines, *BEGINNING) == ["user: Fix it", "model_output"]


def _removed(path: Path) -> list[str]:
    """The prompts of a file that a running turn took, read without the importer."""
    queued: list[str] = []
    prompts: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if '"queue-operation"' not in line:
            continue
        operation = json.loads(line)
        if operation["operation"] == "enqueue":
            queued.append(operation["content"])
        elif queued:
            prompt = next((text for text in queued if not text.startswith("{")), queued[0])
            queued.remove(prompt)
            if operation["operation"] == "remove" and not prompt.startswith(("{", "/")):
                prompts.append(prompt)
    return prompts


@needs("corpus")
def test_every_prompt_of_the_corpus_that_was_typed_into_a_turn_is_an_input_once() -> None:
    count = 0
    for path in sorted(CORPUS.rglob("*.jsonl")):
        if not (expected := _removed(path)):
            continue
        with path.open("rb") as stream:
            operations: list[Operation] = list(CLAUDE_CODE.read(Source(path.name, stream)))
        counts = Counter(text_of(body.content) for body in bodies(operations) if isinstance(body, ModelInput))
        assert {text: counts[text] for text in expected} == dict.fromkeys(expected, 1), path.name
        count += len(expected)
    assert count >= 10
