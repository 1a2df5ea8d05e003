"""Lines of Claude Code files, made for tests."""

import io
import json
from typing import Any
from uuid import UUID

from historyapp.core.importers.base import Operation, Source
from historyapp.core.importers.claude_code import CLAUDE_CODE

S = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
"""The session's id."""


def uuid(number: int) -> str:
    return str(UUID(int=number))


def record(kind: str, number: int, parent: int | None, **fields: Any) -> dict[str, Any]:
    """One line; ``number`` and ``parent`` stand for uuids."""
    links = {"uuid": uuid(number), "parentUuid": None if parent is None else uuid(parent)}
    envelope = {"type": kind, "sessionId": S, "isSidechain": False, "timestamp": "2026-01-19T03:24:29.405Z"}
    return envelope | links | fields


def user(number: int, parent: int | None, content: Any, **fields: Any) -> dict[str, Any]:
    return record("user", number, parent, message={"role": "user", "content": content}, **fields)


def assistant(
    number: int, parent: int | None, *blocks: dict[str, Any], id: str | None = None, **fields: Any
) -> dict[str, Any]:
    message = {
        "id": id or f"msg_{number}",
        "model": "claude-opus-4-5",
        "role": "assistant",
        "content": list(blocks),
    }
    message |= fields.pop("message", {})
    return record("assistant", number, parent, message=message, **fields)


def says(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool_call(id: str | None, name: str = "Read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def answer(number: int, parent: int | None, id: str, content: Any = "ok", **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, "content": content}
    if "is_error" in fields:
        block["is_error"] = fields.pop("is_error")
    return user(number, parent, [block], **fields)


def read(*records: dict[str, Any] | str, name: str = f"{S}.jsonl", folder: str = "") -> list[Operation]:
    lines = [item if isinstance(item, str) else json.dumps(item) for item in records]
    stream = io.BytesIO("\n".join(lines).encode("utf-8", "surrogatepass"))
    return list(CLAUDE_CODE.read(Source(name, stream, folder)))
