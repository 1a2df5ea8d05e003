"""The ``state.json`` of an episodic agent (AutoGPT): ``history`` with ``episodes`` and a ``cursor``.

An episode is an action with its result and, if it was compressed, a summary. The cursor is the number of
finished episodes; the next one is in flight if it has no result. The file has no times and no ids.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from historyapp.core.entries import (
    Body,
    EntryDraft,
    ErrorDetails,
    ModelInput,
    ModelOutput,
    Thoughts,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.importers.base import (
    AddSummary,
    Append,
    Head,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
    Source,
)
from historyapp.core.importers.chat_messages import source_calls
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.messages import CallMatcher, SourceCall, session_of, title_of, tool_result
from historyapp.core.importers.records import SourceRecord, present_fields, read_document, records
from historyapp.core.json import dump_json, listing, mapping, text


class _StateJson:
    name = "state_json"
    title = "episodic state.json"

    def recognises(self, head: Head) -> bool:
        history = _history(mapping(head.document))
        episodes = listing(history.get("episodes"))
        return "cursor" in history and all("action" in mapping(episode) for episode in episodes[:5])

    def read(self, source: Source) -> Iterator[Operation]:
        document = mapping(read_document(source))
        # Every agent's file has the same name.
        folder = source.folder.replace("\\", "/").rstrip("/").split("/")[-1]
        name = f"{folder}/{session_of(source)}" if folder else session_of(source)
        session = text(document.get("agent_id")) or name
        yield from require_entries(_State(document, session).operations(), source, self.title)


STATE_JSON = _StateJson()


def _history(document: dict[str, Any]) -> dict[str, Any]:
    """The object with the episodes, which may be the whole document."""
    return mapping(document.get("history")) or (document if "episodes" in document else {})


class _State:
    """Reads the episodes of a file and counts positions as the log does."""

    def __init__(self, document: dict[str, Any], session: str) -> None:
        self._document = document
        self._history = _history(document)
        self._session = session
        self._calls = CallMatcher(session)
        self._position = 0

    def operations(self) -> Iterator[Operation]:
        yield self._start()
        if task := text(self._document.get("task")):
            yield self._append(ModelInput(content=task), {})
        done = self._position
        cursor = self._history.get("cursor")
        for record in records(listing(self._history.get("episodes"))):
            if isinstance(record, Skipped):
                yield record
                continue
            yield from self._episode(record)
            in_flight = record.data.get("result") is None
            if not isinstance(cursor, int) or record.number <= cursor + in_flight:
                done = self._position
        if done < self._position:
            yield RewindTo(self._session, done, "the cursor stands before these episodes")
        for feedback in listing(self._history.get("pending_user_feedback")):
            if text(feedback):
                # The agent removes it from the file once the model has read it.
                yield self._append(ModelInput(content=feedback), {})._replace(provisional=True)

    def _start(self) -> SessionStart:
        profile = mapping(self._document.get("ai_profile"))
        return SessionStart(
            self._session,
            title=title_of(self._document.get("task")),
            agent=text(profile.get("ai_name")),
            metadata=present_fields(
                agent_id=self._document.get("agent_id"),
                ai_profile=profile,
                directives=self._document.get("directives"),
                cursor=self._history.get("cursor"),
            ),
        )

    def _episode(self, record: SourceRecord) -> Iterator[Operation]:
        action, result = mapping(record.data.get("action")), record.data.get("result")
        source = {"index": record.number}
        if not action:
            yield Skipped(record.number, "an episode without an action")
            return
        first = self._position + 1
        yield self._append(self._output(action), source)
        if isinstance(result, dict):
            tool = text(mapping(action.get("use_tool")).get("name"))
            yield self._append(ToolResults(results=(_result(result, tool),)), source)
        elif result is not None:
            yield Skipped(record.number, "a result that is not a JSON object")
        summary = record.data.get("summary")
        if isinstance(summary, str):
            yield AddSummary(
                self._session, first, self._position, summary, "episode_summary", made_at=self._position
            )

    def _output(self, action: dict[str, Any]) -> ModelOutput:
        raw = mapping(action.get("raw_message"))
        tool = mapping(action.get("use_tool"))
        raw_calls = [mapping(tool_call) for tool_call in listing(action.get("use_tools"))]
        proposed = source_calls(raw)
        if not proposed and len(raw_calls) > 1:
            proposed = [
                SourceCall(None, tool_call.get("name"), tool_call.get("arguments")) for tool_call in raw_calls
            ]
        calls, _ = self._calls.add_output(proposed)
        tool = tool or (raw_calls[0] if raw_calls else {})
        use_tool = UseTool(name=text(tool.get("name")), arguments=mapping(tool.get("arguments")))
        thoughts = action.get("thoughts")
        if isinstance(thoughts, dict):
            names = ("summary", "text", "speak")
            summary = next((value for name in names if (value := text(thoughts.get(name)))), "")
            thoughts = Thoughts.model_validate({**thoughts, "summary": summary})
        else:
            thoughts = text(thoughts) or None
        return ModelOutput(
            thoughts=thoughts,
            text=text(raw.get("content")),
            tool_calls=calls,
            use_tool=use_tool if tool else None,
            raw_message=raw or None,
        )

    def _append(self, body: Body, source: dict[str, Any]) -> Append:
        self._position += 1
        draft = EntryDraft(body, metadata={"source": {"format": STATE_JSON.name, **source}})
        return Append(self._session, draft)


def _result(result: dict[str, Any], tool: str) -> ToolResult:
    """The result of the whole action, which may have several tool calls."""
    match result.get("status"):
        case "success":
            return tool_result(None, tool, result.get("outputs"))
        case "error":
            failed = tool_result(None, tool, error=text(result.get("reason")))
            return failed.model_copy(update={"error": _error(result.get("error"))})
        case "interrupted_by_human":
            return tool_result(None, tool, feedback=text(result.get("feedback")))
        case _:
            return tool_result(None, tool, result)


def _error(error: Any) -> ErrorDetails | None:
    if not isinstance(error, dict):
        return None
    try:
        return ErrorDetails.model_validate(error)
    except ValidationError:
        message = text(error.get("message")) or text(error.get("repr"))
        return ErrorDetails(
            message=message, exception_type=text(error.get("exception_type")), repr=dump_json(error)
        )
