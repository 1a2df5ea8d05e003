"""Gemini CLI sessions (``~/.gemini/tmp/*/chats/session-*``): one JSON document, or JSON lines.

A message of the model contains its tool calls with their results. In JSON lines a message is written again,
in full, when it changes. ``$rewindTo`` removes messages. ``$set`` changes facts of the session or replaces
the history that the model sees.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from historyapp.core.content import plain_text
from historyapp.core.entries import (
    DebugLog,
    EntryDraft,
    ModelInput,
    ModelOutput,
    ToolResult,
    ToolResults,
)
from historyapp.core.importers.base import (
    Append,
    Head,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
    Source,
)
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.gemini_parts import calls_of, content_of, diffs_of, result_of, thoughts_of
from historyapp.core.importers.messages import (
    CallMatcher,
    moment,
    session_of,
    title_of,
    usage_facts,
    with_source,
)
from historyapp.core.importers.records import (
    LineCounter,
    SourceRecord,
    head_of,
    present_fields,
    read_lines,
    records,
)
from historyapp.core.json import listing, mapping, text
from historyapp.core.recorded_diffs import RECORDED_DIFFS

_MAX_MESSAGES = 100_000
"""The maximum number of messages to which later records can refer. The newest are kept."""
_MAX_REMOVED = 10_000
"""The maximum number of removed messages, the newest, that the log entry of a replaced history lists."""


class _GeminiCli:
    name = "gemini_cli"
    title = "Gemini CLI session"

    def recognises(self, head: Head) -> bool:
        return _names_project(mapping(head.document)) or any(map(_names_project, head.lines[:5]))

    def read(self, source: Source) -> Iterator[Operation]:
        head = head_of(source)
        document = mapping(head.document)
        messages = listing(document.get("messages"))
        first_messages = messages or [*head.lines]
        facts: Mapping[str, Any] = document
        if not facts:
            facts = next((line for line in head.lines if _names_project(line)), facts)
        run = _GeminiRun(_start(facts, first_messages, source), "index" if messages else "line")
        counter = LineCounter()
        items = records(messages) if messages else read_lines(source.stream, counter=counter)
        yield from require_entries(run.read(items), source, self.title)
        yield from counter.end()


GEMINI_CLI = _GeminiCli()


def _names_project(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str)


def _start(facts: Mapping[str, Any], messages: list[Any], source: Source) -> SessionStart:
    """The start of the file's only session.

    Args:
        messages: the first messages or all.
    """
    first = [mapping(message) for message in messages]
    task = next((content_of(m.get("content")) for m in first if m.get("type") == "user"), "")
    is_subagent = facts.get("kind") == "subagent"
    folder = source.folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return SessionStart(
        text(facts.get("sessionId")) or session_of(source),
        title=title_of(text(facts.get("summary")) or plain_text(task)),
        agent="Gemini CLI",
        model=next((text(m.get("model")) for m in first if m.get("model")), ""),
        spawned_by=folder if is_subagent and folder not in ("", "chats") else None,
        metadata=present_fields(
            project_hash=facts.get("projectHash"),
            kind=facts.get("kind"),
            directories=facts.get("directories"),
        ),
    )


class _GeminiRun:
    """Reads the records of one session, in order."""

    def __init__(self, start: SessionStart, number_field: str) -> None:
        self._start = start
        self._number_field = number_field
        """``line`` or ``index``."""
        self._calls = CallMatcher(start.session)
        self._position = 0
        """The position of the newest entry."""
        self._known: dict[str, int] = {}
        """For each live message of the user or model, the position before its first entry."""
        self._newest: SourceRecord | None = None
        """The newest message. It may be written again."""

    def read(self, items: Iterator[SourceRecord | Skipped]) -> Iterator[Operation]:
        for record in items:
            match record:
                case Skipped():
                    yield record
                case SourceRecord(data={"$rewindTo": str(message)}):
                    yield from self._finish()
                    yield from self._rewind(message)
                case SourceRecord(data={"$set": dict(facts)}):
                    yield from self._change(record.number, facts)
                case SourceRecord(data={"type": str()}):
                    if not self._newest or _id_of(record) != _id_of(self._newest) or not _id_of(record):
                        yield from self._finish()
                    self._newest = record
                case _ if _names_project(record.data):
                    yield from self._change(record.number, record.data)
                case _:
                    yield Skipped(record.number, "not a record of Gemini CLI")
        for operation in self._finish():  # a longer file may write the newest message again
            yield operation._replace(provisional=True) if isinstance(operation, Append) else operation

    def _finish(self) -> Iterator[Operation]:
        """Yields the entries of the newest message, because it is complete."""
        newest, self._newest = self._newest, None
        if newest is None:
            return
        if (id := _id_of(newest)) in self._known:
            yield Skipped(newest.number, "a repeated message", damaged=False)
            return
        before, drafts = self._position, list(self._drafts(newest.data))
        if not drafts:
            yield Skipped(newest.number, "a message without content", damaged=False)
        for draft in drafts:
            yield from self._append(draft, newest)
        if id and newest.data["type"] in ("user", "gemini"):
            self._known[id] = before
            for old in [*islice(self._known, max(0, len(self._known) - _MAX_MESSAGES))]:
                del self._known[old]

    def _append(self, draft: EntryDraft, record: SourceRecord) -> Iterator[Operation]:
        if not self._position:
            yield self._start
        self._position += 1
        source = {"format": GEMINI_CLI.name, self._number_field: record.number} | present_fields(
            id=_id_of(record)
        )
        created_at = draft.created_at or moment(record.data.get("timestamp"))
        yield Append(self._start.session, with_source(draft, source, created_at))

    def _rewind(self, message: str) -> Iterator[Operation]:
        """Rewinds to before a message, or to the beginning if it is unknown, as Gemini CLI does."""
        if not self._position:
            return
        target = self._known.get(message, 0)
        self._known = {id: before for id, before in self._known.items() if before < target}
        self._position += 1
        yield RewindTo(self._start.session, target)

    def _change(self, number: int, facts: Mapping[str, Any]) -> Iterator[Operation]:
        """Replaces the history, if the facts contain messages."""
        messages = [mapping(message) for message in listing(facts.get("messages"))]
        if not messages:  # the newest message may still be written again
            return
        yield from self._finish()
        kept = {text(message.get("id")) for message in messages}
        removed = [id for id in self._known if id not in kept]
        if removed:
            log = DebugLog(category="condensation", message=f"{len(removed)} messages left the context.")
            condensed = {"forgotten": removed[-_MAX_REMOVED:]}
            source = SourceRecord(number, {"id": f"$set-{number}"})
            yield from self._append(EntryDraft(log, metadata={"source": {"condensed": condensed}}), source)
            self._known = {id: before for id, before in self._known.items() if id in kept}
        for message in messages:
            if text(message.get("id")) in self._known:
                continue
            if message.get("type") == "user":  # the agent wrote it, because a user's message has a record
                message = {**message, "type": "meta"}
            elif not message.get("model"):
                yield Skipped(number, "a message without a model", damaged=False)
                continue
            self._newest = SourceRecord(number, message)
            yield from self._finish()

    def _drafts(self, message: Mapping[str, Any]) -> Iterator[EntryDraft]:
        content = content_of(message.get("content"))
        match message.get("type"):
            case "gemini":
                yield from self._turn(message, content)
            case "user" | "meta" as channel if content:
                yield EntryDraft(ModelInput(channel=channel, content=content))
            case "user" | "meta":
                return
            case str(category):
                yield EntryDraft(DebugLog(category=category, message=plain_text(content)))

    def _turn(self, message: Mapping[str, Any], content: Any) -> Iterator[EntryDraft]:
        """The output of a model, and the results of its tool calls."""
        source_calls = calls_of(message)
        calls, renamed = self._calls.add_output(source_calls)
        usage = mapping(message.get("tokens"))
        facts = usage_facts(usage, "gemini") if usage.get("total") else {}
        facts |= present_fields(model=message.get("model"))
        body = ModelOutput(thoughts=thoughts_of(message) or None, text=plain_text(content), tool_calls=calls)
        yield EntryDraft(body, metadata=facts | {"source": present_fields(call_ids=renamed)})
        results, times = list[tuple[ToolResult, Mapping[str, Any]]](), []
        for tool_call, raw in zip(calls, map(mapping, listing(message.get("toolCalls"))), strict=False):
            if result := result_of(tool_call, raw):
                results.append((result, raw))
                times.append(moment(raw.get("timestamp")))
        if results:
            at = max((time for time in times if time), default=None)
            diffs = diffs_of(results)
            metadata = {RECORDED_DIFFS: diffs} if diffs else {}
            yield EntryDraft(ToolResults(results=tuple([result for result, _ in results])), at, metadata)


def _id_of(record: SourceRecord) -> str:
    return text(record.data.get("id"))
