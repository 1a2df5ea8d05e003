"""Lines of Codex files, made for tests."""

import io
import json
from typing import Any

from historyapp.core.importers.base import Operation, Source
from historyapp.core.importers.codex_rollout import CODEX_ROLLOUT

S = "019c8a4d-8f45-7010-8b5d-7fad920aa6f9"
"""The session's id."""


def line(kind: str, payload: Any, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-02-23T11:41:32.239Z", "type": kind, "payload": payload} | fields


def meta(**fields: Any) -> dict[str, Any]:
    return line("session_meta", {"id": S, "timestamp": "2026-02-23T11:41:04.709Z"} | fields)


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return line("response_item", {"type": kind, **fields})


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return line("event_msg", {"type": kind, **fields})


def says(text: str, role: str = "assistant") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def asks(text: str) -> dict[str, Any]:
    return says(text, "user")


def thinks(text: str, **fields: Any) -> dict[str, Any]:
    return item("reasoning", summary=[{"type": "summary_text", "text": text}], **fields)


def tool_call(id: str, arguments: Any = '{"command":["ls"]}', **fields: Any) -> dict[str, Any]:
    return item("function_call", call_id=id, name="shell", arguments=arguments, **fields)


def output(id: str, output: Any = "ok") -> dict[str, Any]:
    return item("function_call_output", call_id=id, output=output)


def tokens(total: int, used: int = 1, **fields: Any) -> dict[str, Any]:
    usage = {"total_token_usage": {"total_tokens": total}, "last_token_usage": {"output_tokens": used}}
    info = {**usage, **fields}
    return event("token_count", info=info)


def read(
    *records: dict[str, Any] | str, name: str = f"rollout-2026-02-23T12-41-04-{S}.jsonl"
) -> list[Operation]:
    lines = [item if isinstance(item, str) else json.dumps(item) for item in records]
    return list(CODEX_ROLLOUT.read(Source(name, io.BytesIO("\n".join(lines).encode()))))
