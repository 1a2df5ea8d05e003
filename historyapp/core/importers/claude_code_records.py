"""The records of a Claude Code session file as bodies of entries."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from historyapp.core.entries import DebugLog, ModelInput, ToolResult, text_of
from historyapp.core.importers.messages import CallMatcher, SourceCall, tool_result
from historyapp.core.importers.recording import OutputParts
from historyapp.core.importers.records import present_fields
from historyapp.core.json import dump_json, listing, mapping, text
from historyapp.core.recorded_diffs import RECORDED_DIFFS, UNCHANGED, diff_fields, diff_of_hunks
from historyapp.core.windows import CAVEATS

_COMMAND = ("<command-", "<local-command-", "<bash-", *CAVEATS)
_INTERRUPTION = "[Request interrupted by user"
_REJECTION = (_INTERRUPTION, "The user doesn't want to ", "User rejected tool use")
_FEEDBACK = re.compile(r"the user said:\s*(.+)", re.DOTALL)
_CATEGORIES = {
    "compact_boundary": "compaction",
    "microcompact_boundary": "compaction",
    "error": "api_error",
    "stop_hook_summary": "hook",
}
_ENVELOPE = {
    "type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp",
    "cwd", "version", "gitBranch", "userType", "isSidechain", "isMeta", "slug", "entrypoint", "level",
    "content",
}  # fmt: skip
_MAX_TURN = 1e12
"""Milliseconds."""

_TURN_ENDS = ("compact_boundary", "stop_hook_summary", "turn_duration")


def missing_fields(record: dict[str, Any]) -> str:
    """What a ``user`` or ``assistant`` record lacks, or an empty text."""
    message = record.get("message")
    if not isinstance(message, dict):
        return f"{record['type']} record without a message"
    if not isinstance(message.get("content"), (str, list)):
        return f"{record['type']} record without content"
    return ""


def current_form(record: dict[str, Any]) -> dict[str, Any]:
    """The record in the current form. Early versions wrote ``tool_use`` and ``tool_result`` without a
    message.
    """
    kind = record["type"]
    if kind not in ("tool_use", "tool_result"):
        return record
    fields = {name: value for name, value in record.items() if name == "content" or name not in _ENVELOPE}
    block = {"type": kind, **fields}
    if kind == "tool_result":
        block.setdefault("content", record.get("output"))
    role = "assistant" if kind == "tool_use" else "user"
    return {**record, "type": role, "message": {"content": [block]}}


def blocks_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The message's content as blocks. A text becomes a block. A record without a message has none."""
    content = mapping(record.get("message")).get("content")
    return [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for block in ([content] if isinstance(content, str) else listing(content))
        if isinstance(block, (str, dict))
    ]


def ends_turn(record: dict[str, Any], blocks: list[dict[str, Any]]) -> bool:
    """Whether the record, a prompt or the end of a turn, completes the message before it."""
    if record["type"] == "system":
        return record.get("subtype") in _TURN_ENDS
    if record["type"] != "user" or any(block.get("type") == "tool_result" for block in blocks):
        return False
    body = input_of(record, blocks)
    return isinstance(body, ModelInput) and body.channel == "user"


def input_of(record: dict[str, Any], blocks: list[dict[str, Any]]) -> ModelInput | DebugLog | None:
    """The input in a ``user`` record, without tool results, or a log entry if the model did not see it."""
    parts = [
        {"type": "text", "text": text(block.get("text"))} if block.get("type") == "text" else block
        for block in blocks
        if block.get("type") != "tool_result"
    ]
    message_text = text_of(parts)
    if not (message_text.strip() or any(part.get("type") != "text" for part in parts)):
        return None
    if record.get("isVisibleInTranscriptOnly") and not record.get("isCompactSummary"):
        return DebugLog(category="transcript", message=message_text)
    is_plain = len(parts) == 1 and parts[0].get("type") == "text"
    return ModelInput(channel=channel_of(record, message_text), content=message_text if is_plain else parts)


def channel_of(record: dict[str, Any], message_text: str) -> str:
    """The channel of a record with this text."""
    if record.get("isCompactSummary"):
        return "compaction"
    if message_text.startswith(_INTERRUPTION):
        return "interruption"
    if message_text.startswith(_COMMAND):
        return "command"
    if record.get("isMeta") or message_text.startswith(("<system-reminder>", "<task-notification>")):
        return "meta"
    return "user"


def starts_new_context(record: dict[str, Any], body: ModelInput) -> bool:
    """Whether a prompt without a parent follows a cleared context. Then it rewinds nothing."""
    message_text = text_of(body.content)
    return (
        "planContent" in record
        or message_text.startswith(("Implement the following plan:", *CAVEATS))
        or "<command-name>/clear</command-name>" in message_text
    )


def results_of(
    blocks: list[dict[str, Any]], record: dict[str, Any], calls: CallMatcher
) -> tuple[ToolResult, ...]:
    """The results in a message, matched with their tool calls."""
    results = []
    outcome = record.get("toolUseResult")
    is_rejected = record.get("toolDenialKind") == "user-rejected"
    is_rejected = is_rejected or (isinstance(outcome, str) and outcome.startswith("User rejected tool use"))
    for block in blocks:
        if not text(block.get("type")).endswith("tool_result"):
            continue
        id, name = calls.match_result(block.get("tool_use_id"), block.get("name"))
        content = block.get("content")
        output = text_of(content)
        if is_rejected or output.startswith(_REJECTION):
            feedback = _FEEDBACK.search(output)
            result = tool_result(id, name, feedback=(feedback[1] if feedback else output).strip())
        elif block.get("is_error") is True:
            result = tool_result(id, name, error=output or "The tool failed without a message.")
            parts = content if isinstance(content, list) else []
            if any(not isinstance(part, str) and mapping(part).get("type") != "text" for part in parts):
                result = result.model_copy(update={"outputs": content})
        else:
            result = tool_result(id, name, content)
        results.append(result)
    return tuple(results)


def diffs_of(results: Sequence[ToolResult], record: dict[str, Any]) -> dict[str, Any]:
    """What an edit changed, as a field of the metadata: see :mod:`historyapp.core.recorded_diffs`.

    A record says it only of a single result. For new files, and for edits that a person changed, the
    arguments say enough or more.
    """
    outcome = mapping(record.get("toolUseResult"))
    if len(results) != 1 or results[0].status != "success" or outcome.get("userModified") is True:
        return {}
    patch = outcome.get("structuredPatch")
    is_unchanged = outcome.get("type") == "update" and patch == []
    fields = UNCHANGED if is_unchanged else diff_fields(diff_of_hunks(patch))
    return {RECORDED_DIFFS: {results[0].tool_call_id: fields}} if fields else {}


def parts_of(blocks: list[dict[str, Any]]) -> tuple[OutputParts, list[dict[str, Any]]]:
    """The output in a message, and the blocks that an output cannot hold."""
    parts = OutputParts()
    others: list[dict[str, Any]] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                parts.texts.append(text(block.get("text")))
            case "thinking":
                parts.thoughts.append(text(block.get("thinking")))
                if block.get("signature"):
                    parts.reasoning.append(block)
            case "redacted_thinking":
                parts.reasoning.append(block)
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                parts.calls.append(SourceCall(block.get("id"), block.get("name"), block.get("input")))
            case str(kind) if kind.endswith("tool_result"):
                pass  # results_of() reads it
            case _:
                others.append(block)
    return parts, others


def system_log(record: dict[str, Any]) -> DebugLog:
    """A log entry of Claude Code: a compaction, an API error, a hook or the duration of a turn."""
    kind = text(record.get("subtype")) or "system"
    message = text(record.get("content"))
    facts = {key: value for key, value in record.items() if key not in _ENVELOPE}
    duration = facts.get("durationMs")
    if kind == "turn_duration" and isinstance(duration, (int, float)) and 0 <= duration < _MAX_TURN:
        message = f"The turn took {duration / 1000:.1f} s."
    elif facts := present_fields(**facts):
        message = f"{message}\n{dump_json(facts)}".strip()
    return DebugLog(category=_CATEGORIES.get(kind, kind), message=message or kind)


_SENT_HOOKS = ("SessionStart", "UserPromptSubmit")
"""Claude Code sends the text that hooks of these events print to the model. JSON that they print has records
of its own."""
_NAMED = ("file", "edited_text_file")
"""Attachments that contain a file, and those that contain the lines around a change that a person made."""


_REMINDERS = ("task_reminder", "todo_reminder")
"""Attachments with the list of tasks, which Claude Code sends with a reminder to keep it up to date."""


def attachment_of(record: dict[str, Any]) -> ModelInput | DebugLog | None:
    """An attachment of Claude Code: a prompt typed while it worked, a reminder, a file or a hook's output."""
    attachment = mapping(record.get("attachment"))
    kind = text(attachment.get("type"))
    if kind == "queued_command":
        prompt = attachment.get("prompt")
        if not prompt or not isinstance(prompt, (str, list)):
            return None
        is_meta = attachment.get("commandMode") == "task-notification"
        channel = "meta" if is_meta else channel_of(attachment, text_of(prompt))
        return ModelInput(channel=channel, content=prompt)
    if kind == "hook_system_message":  # Claude Code shows it to the user, not to the model
        content = text(attachment.get("content")).strip()
        return DebugLog(category="hook", message=f"{text(attachment.get('hookName'))}: {content}")
    is_sent = kind == "hook_success" and text(attachment.get("hookEvent")) in _SENT_HOOKS
    if is_sent and (output := text(attachment.get("content"))).strip():
        return ModelInput(channel="meta", raw_input=attachment, content=output)
    if kind.startswith("hook_") and kind != "hook_additional_context":
        return DebugLog(category="hook", message=dump_json(attachment))
    name = text(attachment.get("displayPath")) or text(attachment.get("filename")) or "file"
    if kind == "file" and (image := _image(mapping(attachment.get("content")))):
        return ModelInput(channel="meta", content=[{"type": "text", "text": name}, image])
    content = "\n".join(_tasks(attachment)) if kind in _REMINDERS else "\n\n".join(_texts(attachment))
    if kind in _NAMED and content.strip():
        content = f"{name}:\n\n{content}"
    return ModelInput(channel="meta", raw_input=attachment, content=content) if content.strip() else None


def _image(content: dict[str, Any]) -> dict[str, Any] | None:
    """A file that is an image, as a part of an input."""
    file = mapping(content.get("file"))
    if content.get("type") != "image" or not text(file.get("base64")):
        return None
    media_type = text(file.get("type")) or "image/png"
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": file["base64"]}}


def _tasks(attachment: dict[str, Any]) -> Iterator[str]:
    """The tasks of a reminder, one in each line."""
    for number, task in enumerate(map(mapping, listing(attachment.get("content"))), 1):
        subject, status = text(task.get("subject")) or text(task.get("content")), text(task.get("status"))
        id = text(task.get("id"))
        if subject.strip():
            yield f"{f'#{id}' if id else number}. [{status}] {subject}"


def _texts(attachment: dict[str, Any]) -> Iterator[str]:
    for key in ("text", "content", "snippet", "banner"):
        value = attachment.get(key)
        if isinstance(value, dict):
            value = mapping(value.get("file")).get("content", value.get("content"))
        for part in listing(value) or [value]:
            if isinstance(part, str):
                yield part
    for key in ("addedLines", "addedBlocks"):  # agents and tools of the agent, instructions of MCP servers
        if lines := [line for line in listing(attachment.get(key)) if isinstance(line, str)]:
            yield "\n".join(lines)
    for skill in listing(attachment.get("skills")):
        if content := text(mapping(skill).get("content")):
            yield content
