"""Claude Code session files: ``~/.claude/projects/<folder>/<session>.jsonl`` and those of its sub-agents.

One file is one session, even if it contains two session ids: a resumed session begins with the history of the
earlier session, and hooks still write the earlier id. Each sub-agent is another session. Its lines are in the
same file (``isSidechain``), in a file ``agent-<id>.jsonl``, or only copied into progress records. The system
prompt is not in these files.
"""

import io
import re
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from historyapp.core.entries import text_of
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Head, Operation, Skipped, Source
from historyapp.core.importers.claude_code_index import RecordIndex
from historyapp.core.importers.claude_code_queue import PromptQueue
from historyapp.core.importers.claude_code_records import blocks_of, current_form, missing_fields
from historyapp.core.importers.claude_code_session import FORMAT, ClaudeCodeSession
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.recording import Recording
from historyapp.core.importers.records import (
    LineCounter,
    SourceRecord,
    present_fields,
    read_document,
    read_lines,
    records,
)
from historyapp.core.json import mapping, text
from historyapp.core.text import preview
from historyapp.core.windows import HOOK_CLEARED

_EDGE = 64 * 1024
_MESSAGES = ("user", "assistant", "tool_use", "tool_result")
_RECORDS = (*_MESSAGES, "system", "progress", "attachment")
_RESUMED = "SessionStart:resume"
"""The hook that runs when Claude Code continues a session in a new process."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LINKS = ("type", "uuid", "parentUuid", "isSidechain", "agentId", "sessionId", "gitBranch", "cwd", "version")
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_LOGLINES = re.compile(rb'(?<!\\)"loglines"\s*:\s*\[')


class ClaudeCode:
    """Reads Claude Code session files, and their export as one document with ``loglines``."""

    name = FORMAT
    title = "Claude Code session"

    def recognises(self, head: Head) -> bool:
        if "loglines" in mapping(head.document):
            return True
        for line in head.lines:
            kind = line.get("type")
            if kind in (*_RECORDS, "queue-operation") and ("sessionId" in line or "parentUuid" in line):
                return True
            if "loglines" in line or (kind == "summary" and "leafUuid" in line):
                return True
            if kind == "file-history-snapshot" and "snapshot" in line:
                return True
        return False

    def read(self, source: Source) -> Iterator[Operation]:
        return require_entries(_operations(source), source, self.title)


def _operations(source: Source) -> Iterator[Operation]:
    source.stream.seek(0)
    counter = LineCounter()
    if _LOGLINES.search(source.stream.read(_EDGE)):
        document = mapping(read_document(source))
        if not isinstance(document.get("loglines"), list):
            raise UnreadableTranscript(f"{source.name}: its loglines are not a list")
        lines: Iterable[SourceRecord | Skipped] = list(records(document["loglines"]))
        file = _SessionFile(source, lines)
    else:
        file = _SessionFile(source, _edges(source.stream))
        lines = read_lines(source.stream, counter=counter)
    try:
        for line in lines:
            yield from (line,) if isinstance(line, Skipped) else file.add(line.number, line.data)
        yield from file.close()
        yield from counter.end()
    finally:
        file.release()


def _edges(stream: BinaryIO) -> list[SourceRecord | Skipped]:
    """The first and last lines of the file. Titles are at its end, and the session starts with its title."""
    size = stream.seek(0, io.SEEK_END)
    if size <= 2 * _EDGE:
        return list(read_lines(stream))
    stream.seek(0)
    first = stream.read(_EDGE)
    stream.seek(size - _EDGE)
    stream.readline()
    return [*read_lines(io.BytesIO(first)), *read_lines(io.BytesIO(stream.read(_EDGE)))]


class _SessionFile:
    """Passes each record of a file to its conversation."""

    def __init__(self, source: Source, edges: Iterable[SourceRecord | Skipped]) -> None:
        edge_records = [line.data for line in edges if isinstance(line, SourceRecord)]
        stem = PurePath(source.name).stem
        self._folder = source.folder
        # The newest id, because the file of a resumed session begins with lines of the earlier session.
        ids = (id for record in reversed(edge_records) if (id := text(record.get("sessionId"))))
        self._session = stem if _UUID.fullmatch(stem) else next(ids, stem)
        self._title = _title(edge_records)
        self._main: ClaudeCodeSession | None = None
        self._queue = PromptQueue()
        self._agents: dict[str, ClaudeCodeSession] = {}
        self._threads: dict[ClaudeCodeSession, int] = {}
        """The conversations of sub-agents without an id, and their numbers."""
        self._numbered: list[ClaudeCodeSession] = []
        self._newest_thread = 0
        self._thread_of = RecordIndex()
        self._copies: dict[str, ClaudeCodeSession] = {}

    def add(self, line: int, record: dict[str, Any]) -> Iterator[Operation]:
        kind = record.get("type")
        hook = mapping(record.get("data") or record.get("attachment"))
        if self._main and hook.get("hookName") == _RESUMED:
            self._main.is_resumed = True
        if not isinstance(kind, str):
            yield Skipped(line, "record without a type")
        elif kind in _MESSAGES:
            record = current_form(record)
            if fault := missing_fields(record):
                yield Skipped(line, fault)
            else:
                yield from self._dispatch(line, record)
        elif kind in ("system", "attachment"):
            yield from self._dispatch(line, record)
        elif kind == "progress":
            yield from self._add_progress(line, record)
        elif kind == "queue-operation":
            yield from self._queue.add(line, record)
        else:
            yield Skipped(line, f"record of type {preview(kind, 40)}", damaged=False)

    def close(self) -> Iterator[Operation]:
        """The remaining operations at the end of the file, the main session first."""
        for conversation in self._conversations():
            yield from conversation.close()
        yield from self._queue.skip_unsent()

    def release(self) -> None:
        """Removes the temporary databases."""
        self._thread_of.close()
        for conversation in self._conversations():
            conversation.positions.close()

    def _conversations(self) -> Iterator[ClaudeCodeSession]:
        return filter(None, (self._main, *self._agents.values(), *self._copies.values()))

    def _dispatch(self, line: int, record: dict[str, Any]) -> Iterator[Operation]:
        if not record.get("isSidechain"):
            self._main = self._main or ClaudeCodeSession(self._recording(self._session, record), self._queue)
            yield from self._main.add(line, record)
            return
        agent = text(record.get("agentId"))
        conversation = self._agents.get(agent) if agent else self._thread(record)
        if conversation is None:
            name = f"agent-{agent}" if agent else f"sidechain-{text(record.get('uuid')) or line}"
            starts = self._main is not None and record["type"] == "user"
            tool_call_id = (
                self._main.tasks.get(text_of(blocks_of(record)), "") if self._main and starts else ""
            )
            conversation = yield from self._start_agent(name, record, tool_call_id)
            conversation.recording.partial_copy = f"{self._session}/progress-{agent}" if agent else None
            self._agents[agent or name] = conversation
        if not agent:
            number = self._threads.setdefault(conversation, len(self._threads))
            if number == len(self._numbered):
                self._numbered.append(conversation)
            self._newest_thread = self._thread_of[text(record.get("uuid"))] = number
        yield from conversation.add(line, record)

    def _thread(self, record: dict[str, Any]) -> ClaudeCodeSession | None:
        """The sub-agent of a line without an agent id: the one of its parent, or None for a new one."""
        parent = record.get("parentUuid")
        if not isinstance(parent, str) or (self._main and parent in self._main.positions):
            return None
        number = self._thread_of.get(parent)
        return self._numbered[self._newest_thread if number is None else number] if self._numbered else None

    def _start_agent(
        self, name: str, record: dict[str, Any], tool_call_id: str
    ) -> Generator[Operation, None, ClaudeCodeSession]:
        """Starts a sub-agent's session, after the session of the agent that started it."""
        if self._main:
            yield from self._main.recording.release_held()
        recording = self._recording(f"{self._session}/{name}", record)
        recording.spawned_by = self._session
        recording.metadata |= present_fields(agent_id=record.get("agentId"), tool_call_id=tool_call_id)
        return ClaudeCodeSession(recording)

    def _recording(self, session: str, record: dict[str, Any]) -> Recording:
        branch = text(record.get("gitBranch"))
        return Recording(
            session,
            agent="claude-code",
            title=self._title if session == self._session else "",
            tags=(branch,) if branch else (),
            metadata=present_fields(cwd=record.get("cwd"), version=record.get("version")),
        )

    def _add_progress(self, line: int, record: dict[str, Any]) -> Iterator[Operation]:
        """Skips progress records, unless nothing else records the event."""
        data = mapping(record.get("data"))
        if data.get("hookName") == "SessionStart:clear":
            cleared = {**record, "type": "system", "subtype": "clear", "content": HOOK_CLEARED}
            yield from self._dispatch(line, cleared)
            return
        # The conversation needs the record, because others may name it as their parent.
        yield from self._dispatch(line, {key: record.get(key) for key in _LINKS})
        agent = text(data.get("agentId"))
        copied = {**record, **mapping(data.get("message")), "agentId": agent}
        if data.get("type") != "agent_progress" or copied["type"] not in _MESSAGES or missing_fields(copied):
            yield Skipped(line, f"progress ({preview(text(data.get('type')), 40)})", damaged=False)
        elif agent in self._agents or self._has_file(agent):
            yield Skipped(line, f"copy of a record of the sub-agent {preview(agent, 40)}", damaged=False)
        else:
            # Copies of a sub-agent's records are incomplete. If its file is imported later, it replaces them.
            if agent not in self._copies:
                tool_call_id = text(copied.get("parentToolUseID"))
                self._copies[agent] = yield from self._start_agent(f"progress-{agent}", copied, tool_call_id)
                self._copies[agent].recording.whole_copy = f"{self._session}/agent-{agent}"
            yield from self._copies[agent].add(line, {**copied, "parentUuid": None})

    def _has_file(self, agent: str) -> bool:
        """Whether the sub-agent has its own file, in this folder or below it."""
        if not self._folder or not _FILE_NAME.fullmatch(agent):
            return False
        folder, name = Path(self._folder), f"agent-{agent}.jsonl"
        is_below = (
            _FILE_NAME.fullmatch(self._session) and (folder / self._session / "subagents" / name).is_file()
        )
        return bool(is_below) or (folder / name).is_file()


def _title(edge_records: list[dict[str, Any]]) -> str:
    """The title by the user or the model, or else the summary, if it summarises this file."""
    uuids = {text(record.get("uuid")) for record in edge_records}
    titles = {
        text(record.get("type")): text(
            record.get("customTitle") or record.get("aiTitle") or record.get("summary")
        )
        for record in edge_records
        if record.get("type") != "summary" or text(record.get("leafUuid")) in uuids
    }
    given_titles = (titles.get(kind, "") for kind in ("custom-title", "ai-title", "summary"))
    return preview(next(filter(None, given_titles), ""), 80)


CLAUDE_CODE = ClaudeCode()
