"""What ``codex exec --json`` prints, as the lines that a rollout file would hold."""

from collections.abc import Iterator, Mapping
from typing import Any

from historyapp.core.json import listing, mapping, text

_TOOLS = {
    "command_execution": ("shell", ("command",)),
    "file_change": ("apply_patch", ("changes",)),
    "todo_list": ("update_plan", ("items",)),
}
"""The tool that an item stands for, and the item's fields that are its arguments."""


def is_exec(record: Mapping[str, Any]) -> bool:
    """Whether a line is one of that stream."""
    kind = text(record.get("type"))
    return kind.startswith(("thread.", "turn.", "item.")) and "payload" not in record


class ExecStream:
    """Translates one stream, line by line. It has no times; prompts are not in it."""

    def __init__(self) -> None:
        self._turns = 0
        self._called: set[str] = set()

    def translate(self, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The rollout lines that one line of the stream stands for."""
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
            if id not in self._called:
                self._called.add(id)
                name, fields = _TOOLS.get(kind, ("", ()))
                call = {"type": "function_call", "id": id, "call_id": id}
                if kind == "mcp_tool_call":
                    names = {"name": item.get("tool"), "namespace": item.get("server")}
                    yield _response(call | names | {"arguments": item.get("arguments")})
                else:
                    arguments = {field: item.get(field) for field in fields}
                    yield _response(call | {"name": name, "arguments": arguments})
            if completed:
                self._called.discard(id)
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
