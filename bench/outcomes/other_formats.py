"""Results in formats that Playhead did not import on 2026-11-23: no rule had been fitted to them.

Only what the rules read is taken: each call with the result that was reported as a success or an error.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.outcomes.results import Recorded
from historyapp.core.call_subjects import call_subject
from historyapp.core.entries import ToolResult
from historyapp.core.failures import check_of

Found = tuple[str, Any, str, bool]
"""The tool's name, its arguments, the text of its result, and whether it was reported as a success."""


def results_in_other_formats(folder: Path) -> Iterator[Recorded]:
    """The results of all files, file by file. The position counts the results of a file from 0."""
    for name, read in READERS.items():
        for path in sorted((folder / name).iterdir()):
            file = str(path.relative_to(folder))
            for position, (tool, arguments, text, is_success) in enumerate(read(_records(path))):
                subject = call_subject(tool, arguments)
                result = ToolResult(status="success", outputs=text)
                if not is_success:
                    result = ToolResult(status="error", reason=text)
                check = check_of(tool, arguments, subject.kind)
                yield Recorded(file, 0, position, 0, name, subject.kind, tool, subject.target, result, check)


def _records(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _opencode(records: list[dict[str, Any]]) -> Iterator[Found]:
    for message in (message for record in records for message in record["messages"]):
        for part in message["parts"]:
            state = part.get("state", {})
            if part["type"] == "tool" and state["status"] in ("completed", "error"):
                is_success = state["status"] == "completed"
                yield part["tool"], state["input"], state["output" if is_success else "error"], is_success


def _pi(records: list[dict[str, Any]]) -> Iterator[Found]:
    arguments: dict[str, Any] = {}
    for message in (record["message"] for record in records if record.get("type") == "message"):
        parts = message["content"] if isinstance(message["content"], list) else []
        arguments |= {part["id"]: part["arguments"] for part in parts if part["type"] == "toolCall"}
        if message["role"] == "toolResult" and message["toolCallId"] in arguments:
            text = "\n".join(part["text"] for part in parts if part["type"] == "text")
            yield message["toolName"], arguments[message["toolCallId"]], text, not message["isError"]


def _gemini(records: list[dict[str, Any]]) -> Iterator[Found]:
    messages = [message for record in records for message in record.get("messages", [record])]
    for call in (call for message in messages for call in message.get("toolCalls", [])):
        responses = [part.get("functionResponse", {}).get("response", {}) for part in call.get("result", [])]
        text = "\n".join(str(one.get("output") or one.get("error") or "") for one in responses)
        if call["status"] in ("success", "error"):
            yield call["name"], call["args"], text, call["status"] == "success"


def _copilot(records: list[dict[str, Any]]) -> Iterator[Found]:
    started: dict[str, Mapping[str, Any]] = {}
    for record in records:
        data = record.get("data", {})
        if record["type"] == "tool.execution_start":
            started[data["toolCallId"]] = data
        elif record["type"] == "tool.execution_complete" and data["toolCallId"] in started:
            call = started[data["toolCallId"]]
            answer = data.get("result") or data.get("error") or {}
            text = str(answer.get("content") or answer.get("message") or "")
            yield call["toolName"], call.get("arguments"), text, data["success"]


READERS: dict[str, Callable[[list[dict[str, Any]]], Iterator[Found]]] = {
    "copilot_cli": _copilot,
    "gemini_cli": _gemini,
    "opencode": _opencode,
    "pi_agent": _pi,
}
