"""Makes titles, times, results and sources for all importers, and pairs tool calls with results."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from historyapp.core.content import arguments_of
from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.entries import EntryDraft, ToolCall, ToolResult, text_of
from historyapp.core.importers.base import MAX_SESSION_ID, Source
from historyapp.core.text import preview

_TITLE_LENGTH = 80
_MAX_OPEN_CALLS = 1000
_MILLISECONDS = 1e11
"""Larger numbers are milliseconds: as seconds they would be after the year 5138."""


def title_of(content: Any) -> str:
    """A session's title: the beginning of its task on one line, at most 80 characters."""
    return preview(text_of(content), _TITLE_LENGTH)


def session_of(source: Source) -> str:
    """The id of a session without one in the file: the file's name without its folder."""
    return re.split(r"[/\\]", source.name)[-1]


def moment(value: Any, zone: tzinfo | None = None) -> datetime | None:
    """A time in UTC from seconds or milliseconds since 1970 or from ISO 8601, or None if it is invalid.

    ``zone`` is the zone of times that name none. If it is None, such times are invalid.
    """
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC)
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            if time.tzinfo is UTC:
                return time
            time = time.replace(tzinfo=time.tzinfo or zone)
            return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError, OSError):
        pass
    return None


def usage_facts(usage: Any, convention: str) -> dict[str, Any]:
    """Metadata with the usage of a model call, unchanged. Empty if the source has none."""
    return {"usage": usage, "usage_convention": convention} if isinstance(usage, dict) and usage else {}


def tool_result(
    id: str | None,
    name: str | None,
    outputs: Any = None,
    *,
    error: str | None = None,
    feedback: str | None = None,
) -> ToolResult:
    """A result: interrupted by a user with ``feedback``, failed with an ``error``, or a success."""
    if feedback is not None:
        return ToolResult(tool_call_id=id, tool_name=name, status="interrupted_by_human", feedback=feedback)
    if error is not None:
        return ToolResult(tool_call_id=id, tool_name=name, status="error", reason=error)
    return ToolResult(tool_call_id=id, tool_name=name, status="success", outputs=outputs)


def with_source(
    draft: EntryDraft, source: Mapping[str, Any], created_at: datetime | None = None
) -> EntryDraft:
    """The draft with its place in the file added to ``source``."""
    merged = {**source, **draft.metadata.get("source", {})}
    return EntryDraft(draft.body, created_at or draft.created_at, {**draft.metadata, "source": merged})


class SourceCall(NamedTuple):
    """A tool call in a transcript. Any field may have any type."""

    id: Any
    name: Any
    arguments: Any


@dataclass(frozen=True, slots=True)
class _OpenCall:
    output: int
    source_id: str
    id: str
    name: str


class CallMatcher:
    """Gives the tool calls of one session their ids, and finds the tool call of a result.

    If an id is missing or occurs twice in an output, the tool call gets the id ``<session>-<n>-<k>``: the
    k-th call of the session's n-th output. An id may occur again in a later output.
    """

    def __init__(self, session: str) -> None:
        self._session = session[:MAX_SESSION_ID]  # a longer one is refused, but after its first output
        self._outputs = 0
        self._open: list[_OpenCall] = []

    def add_output(self, calls: Iterable[SourceCall]) -> tuple[tuple[ToolCall, ...], dict[str, str]]:
        """Adds the next output's tool calls. Returns them, and the source's ids of those with a new id."""
        with shared_value_limit():
            return self._add_calls(calls)

    def _add_calls(self, calls: Iterable[SourceCall]) -> tuple[tuple[ToolCall, ...], dict[str, str]]:
        self._outputs += 1
        used_ids: set[str] = set()
        tool_calls: list[ToolCall] = []
        renamed: dict[str, str] = {}
        for number, (source_id, name, arguments) in enumerate(calls, start=1):
            own_id = source_id if isinstance(source_id, str) else ""
            id = own_id or f"{self._session}-{self._outputs}-{number}"
            if id in used_ids:
                id = f"{self._session}-{self._outputs}-{number}"
            while id in used_ids:
                id += "-"
            used_ids.add(id)
            if own_id and id != own_id:
                renamed[id] = own_id
            tool_name = name if isinstance(name, str) else ""
            tool_calls.append(ToolCall(id=id, name=tool_name, arguments=arguments_of(arguments)))
            self._open.append(_OpenCall(self._outputs, own_id, id, tool_name))
        del self._open[:-_MAX_OPEN_CALLS]
        return tuple(tool_calls), renamed

    def match_result(self, source_id: Any, name: Any = None) -> tuple[str | None, str | None]:
        """The id and tool name of a result's tool call: the newest open one with this source id.

        A result without an id belongs to the first open call of the newest output, with its name if it has
        one. If there is no such call, the result keeps its own id and name.
        """
        call_id = source_id if isinstance(source_id, str) else ""
        tool_name = name if isinstance(name, str) and name else None
        candidates = [
            tool_call
            for tool_call in self._open
            if (tool_call.source_id == call_id if call_id else tool_name in (None, tool_call.name))
        ]
        if not candidates:
            return call_id or None, tool_name
        tool_call = max(candidates, key=lambda tool_call: tool_call.output)
        self._open.remove(tool_call)
        return tool_call.id, tool_call.name or tool_name

    def replace_ids(self, source_ids: Sequence[Any]) -> None:
        """Replaces the source ids of the newest output's calls, because clients may send others."""
        newest = [index for index, tool_call in enumerate(self._open) if tool_call.output == self._outputs]
        if len(newest) == len(source_ids):
            for index, id in zip(newest, source_ids, strict=True):
                self._open[index] = replace(self._open[index], source_id=id if isinstance(id, str) else "")

    def match_open(self) -> list[tuple[str, str]]:
        """Closes the newest output's open tool calls, which share one result. Returns their ids and names."""
        newest = [tool_call for tool_call in self._open if tool_call.output == self._outputs]
        self._open = [tool_call for tool_call in self._open if tool_call.output != self._outputs]
        return [(tool_call.id, tool_call.name) for tool_call in newest]

    @property
    def has_open(self) -> bool:
        """Whether the newest output has a tool call without a result."""
        return any(tool_call.output == self._outputs for tool_call in self._open)
