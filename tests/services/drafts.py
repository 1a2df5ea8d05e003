"""Short ways to write entries."""

from datetime import datetime
from typing import Any

from historyapp.core.entries import (
    Body,
    EntryDraft,
    ModelInput,
    ModelOutput,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)


def draft(body: Body, at: datetime | None = None, **metadata: Any) -> EntryDraft:
    return EntryDraft(body, at, metadata)


def ask(text: str) -> EntryDraft:
    return draft(ModelInput(content=text))


def act(name: str = "ls", **arguments: Any) -> EntryDraft:
    """An action written as text."""
    return draft(ModelOutput(thoughts="let me see", use_tool=UseTool(name=name, arguments=arguments)))


def tool_calls(*ids: str, name: str = "read") -> EntryDraft:
    """Provider tool calls."""
    return draft(ModelOutput(tool_calls=tuple(ToolCall(id=id, name=name) for id in ids)))


def answer(text: str = "done") -> EntryDraft:
    return draft(ModelOutput(text=text))


def ok(id: str | None = None, outputs: Any = "fine") -> EntryDraft:
    return draft(ToolResults(results=(ToolResult(tool_call_id=id, status="success", outputs=outputs),)))


def failed(id: str | None = None, reason: str = "no such file") -> EntryDraft:
    return draft(ToolResults(results=(ToolResult(tool_call_id=id, status="error", reason=reason),)))
