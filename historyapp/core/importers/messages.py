"""What importers share: titles, times, results, sources, and tool calls paired with their results."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from historyapp.core.content import arguments_of
from historyapp.core.entries import EntryDraft, ToolCall, ToolResult, text_of
from historyapp.core.importers.base import Source
from historyapp.core.text import preview

_TITLE_LENGTH = 80
_MAX_OPEN_CALLS = 1000
_MILLISECONDS = 1e11
"""Seconds since 1970 do not get this large before the year 5138."""


def title_of(content: Any) -> str:
    """A session's title: the beginning of its task on one line, at most 80 characters."""
    return preview(text_of(content), _TITLE_LENGTH)


def session_of(source: Source) -> str:
    """The id of the only session in a file whose format has no ids: the file's name without its folder."""
    return re.split(r"[/\\]", source.name)[-1]


def moment(value: Any, zone: tzinfo | None = None) -> datetime | None:
    """A time in UTC from seconds or milliseconds since 1970 or from ISO 8601; None if it is unknown.

    A time without a zone is unknown too, unless ``zone`` says which one is meant.
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
    """Metadata for what a model call used, in the source's own words; nothing if it does not say."""
    return {"usage": usage, "usage_convention": convention} if isinstance(usage, dict) and usage else {}


def tool_result(
    id: str | None,
    name: str | None,
    outputs: Any = None,
    *,
    error: str | None = None,
    feedback: str | None = None,
) -> ToolResult:
    """A result: interrupted by a person who gave ``feedback``, failed with an ``error``, or a success."""
    if feedback is not None:
        return ToolResult(tool_call_id=id, tool_name=name, status="interrupted_by_human", feedback=feedback)
    if error is not None:
        return ToolResult(tool_call_id=id, tool_name=name, status="error", reason=error)
    return ToolResult(tool_call_id=id, tool_name=name, status="success", outputs=outputs)


def with_source(
    draft: EntryDraft, source: Mapping[str, Any], created_at: datetime | None = None
) -> EntryDraft:
    """The draft with its place in the file as ``source``, beside what it already says of its source."""
    merged = {**source, **draft.metadata.get("source", {})}
    return EntryDraft(draft.body, created_at or draft.created_at, {**draft.metadata, "source": merged})


class SourceCall(NamedTuple):
    """A tool call as a transcript has it. Any field may have any type."""

    id: Any
    name: Any
    arguments: Any


@dataclass(frozen=True, slots=True)
class _OpenCall:
    output: int
    source_id: str
    id: str
    name: str


class Calls:
    """The tool calls of one session: gives each its id and finds the one that a result answers.

    Ids of the source may be missing, or come twice in one output; such calls get ``<session>-<n>-<k>``, the
    k-th call of the session's n-th output. Ids that come again in a later output stay as they are.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._outputs = 0
        self._open: list[_OpenCall] = []

    def begin(self, calls: Iterable[SourceCall]) -> tuple[tuple[ToolCall, ...], dict[str, str]]:
        """The calls of the next output, and the source's ids of those that got another one."""
        self._outputs += 1
        used_ids: set[str] = set()
        begun: list[ToolCall] = []
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
            called = name if isinstance(name, str) else ""
            begun.append(ToolCall(id=id, name=called, arguments=arguments_of(arguments)))
            self._open.append(_OpenCall(self._outputs, own_id, id, called))
        del self._open[:-_MAX_OPEN_CALLS]
        return tuple(begun), renamed

    def answer(self, source_id: Any, name: Any = None) -> tuple[str | None, str | None]:
        """The id and tool name of the call that a result answers: the newest open one with that source id.

        A result without an id answers the first open call of the newest output (of that name, if it has one).
        A result whose call is unknown keeps what the source says of it.
        """
        call_id = source_id if isinstance(source_id, str) else ""
        called = name if isinstance(name, str) and name else None
        fitting = [
            call
            for call in self._open
            if (call.source_id == call_id if call_id else called in (None, call.name))
        ]
        if not fitting:
            return call_id or None, called
        call = max(fitting, key=lambda call: call.output)
        self._open.remove(call)
        return call.id, call.name or called

    def relabel(self, source_ids: Sequence[Any]) -> None:
        """The newest output's calls are known by these ids from now on; clients may give them their own."""
        newest = [index for index, call in enumerate(self._open) if call.output == self._outputs]
        if len(newest) == len(source_ids):
            for index, id in zip(newest, source_ids, strict=True):
                self._open[index] = replace(self._open[index], source_id=id if isinstance(id, str) else "")

    def answer_rest(self) -> list[tuple[str, str]]:
        """Ids and names of the newest output's calls that were still open; one thing answers them all."""
        rest = [call for call in self._open if call.output == self._outputs]
        self._open = [call for call in self._open if call.output != self._outputs]
        return [(call.id, call.name) for call in rest]

    @property
    def open(self) -> bool:
        """Whether the newest output has a call that nothing has answered yet."""
        return any(call.output == self._outputs for call in self._open)
