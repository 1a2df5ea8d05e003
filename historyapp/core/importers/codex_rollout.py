"""Codex CLI sessions: ``~/.codex/sessions/**/rollout-*.jsonl``, and the output of ``codex exec --json``."""

from collections.abc import Iterator, Mapping
from typing import Any

from historyapp.core.importers.base import Head, Operation, Skipped, Source
from historyapp.core.importers.codex_lines import FORMAT
from historyapp.core.importers.codex_session import CodexSession
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.records import LineCounter, read_lines
from historyapp.core.json import listing, mapping, text

_WRAPPED = ("session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state")
_UNWRAPPED = ("function_call", "function_call_output")
_TOOLS = {
    "command_execution": ("shell", ("command",)),
    "file_change": ("apply_patch", ("changes",)),
    "todo_list": ("update_plan", ("items",)),
}
"""The tool of an item, and the item's fields with its arguments."""


class CodexRollout:
    """Reads Codex rollout files of all versions, and the stream of ``codex exec --json``."""

    name = FORMAT
    title = "Codex rollout"

    def recognises(self, head: Head) -> bool:
        for line in head.lines:
            if isinstance(line.get("payload"), dict):
                if line.get("type") in _WRAPPED:
                    return True
                continue
            # Files of 2025 have no payload around the first line and items.
            is_first = "type" not in line and {"id", "timestamp", "instructions"} <= line.keys()
            is_item = line.get("type") in _UNWRAPPED and "call_id" in line
            if is_first or is_item or "record_type" in line or _is_exec(line):
                return True
        return False

    def read(self, source: Source) -> Iterator[Operation]:
        return require_entries(_operations(source), source, self.title)


def _operations(source: Source) -> Iterator[Operation]:
    session, stream, counter = CodexSession(source.name), _ExecStream(), LineCounter()
    for line in read_lines(source.stream, counter=counter):
        if isinstance(line, Skipped):
            yield line
            continue
        records = stream.translate(line.data) if _is_exec(line.data) else (line.data,)
        for record in records:
            yield from session.add(line.number, record)
    yield from session.close()
    yield from counter.end()


CODEX_ROLLOUT = CodexRollout()


def _is_exec(record: Mapping[str, Any]) -> bool:
    """Whether a line is output of ``codex exec --json``."""
    kind = text(record.get("type"))
    return kind.startswith(("thread.", "turn.", "item.")) and "payload" not in record


class _ExecStream:
    """Translates the output of ``codex exec --json``, which has no times and prompts, into rollout lines."""

    def __init__(self) -> None:
        self._turns = 0
        self._started: set[str] = set()

    def translate(self, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The rollout lines for a line of the stream."""
        match record["type"]:
            case "thread.started":
                yield {"type": "session_meta", "payload": {"id": record.get("thread_id")}}
            case "item.started" | "item.completed":
                yield from self._item(mapping(record.get("item")), record["type"] == "item.completed")
            case "turn.completed":
                self._turns += 1
                usage = {"last_token_usage": record.get("usage"), "total_token_usage": {"turns": self._turns}}
                yield _event({"type": "token_count", "info": usage})
                yield _event({"type": "task_complete"})
            case "turn.failed":
                message = text(mapping(record.get("error")).get("message"))
                yield _event({"type": "error", "message": message})
            case _:
                yield record

    def _item(self, item: dict[str, Any], completed: bool) -> Iterator[dict[str, Any]]:
        kind, id = text(item.get("type")), text(item.get("id"))
        if kind in _TOOLS or kind == "mcp_tool_call":
            if id not in self._started:
                self._started.add(id)
                name, fields = _TOOLS.get(kind, ("", ()))
                tool_call = {"type": "function_call", "id": id, "call_id": id}
                if kind == "mcp_tool_call":
                    names = {"name": item.get("tool"), "namespace": item.get("server")}
                    yield _response(tool_call | names | {"arguments": item.get("arguments")})
                else:
                    arguments = {field: item.get(field) for field in fields}
                    yield _response(tool_call | {"name": name, "arguments": arguments})
            if completed:
                self._started.discard(id)
                content = listing(mapping(item.get("result")).get("content"))
                error = text(mapping(item.get("error")).get("message"))
                output = item.get("aggregated_output") or error or content or item.get("status")
                exit_code = item.get("exit_code") or int(item.get("status") == "failed")
                wrapped = {"output": output, "metadata": {"exit_code": exit_code}}
                yield _response({"type": "function_call_output", "call_id": id, "output": wrapped})
        elif completed and kind == "web_search":
            action = {"type": "search", "query": item.get("query")}
            yield _response({"type": "web_search_call", "id": id, "status": "completed", "action": action})
        elif completed and kind == "reasoning":
            yield _response({"type": "reasoning", "id": id, "summary": [{"text": item.get("text")}]})
        elif completed and kind == "agent_message":
            content = [{"type": "output_text", "text": item.get("text")}]
            yield _response({"type": "message", "id": id, "role": "assistant", "content": content})
        elif completed:
            yield _event({"type": kind, "message": item.get("message")})


def _response(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response_item", "payload": item}


def _event(event: dict[str, Any]) -> dict[str, Any]:
    return {"type": "event_msg", "payload": event}
