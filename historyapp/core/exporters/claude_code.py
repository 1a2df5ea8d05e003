"""A session as a session file of Claude Code, which ``claude --resume ID`` continues.

One JSON object a line, each with the ``uuid`` of the line before it as its ``parentUuid``. Claude Code reads
the lines after the newest ``compact_boundary``, and has its own system prompt, so instructions are left out.
Checked with Claude Code 2.1.197.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from historyapp.core.conversation import InputMessage
from historyapp.core.dates import utc_text
from historyapp.core.entries import (
    COMPACTION,
    Entry,
    MemoryNotebook,
    ModelOutput,
    SystemInstruction,
    ToolResults,
    text_of,
)
from historyapp.core.episodes import conversation_parts
from historyapp.core.exporters.base import ExportSession
from historyapp.core.formats.anthropic_messages import ANTHROPIC_MESSAGES, NO_BEGINNING
from historyapp.core.formats.calls import CallIds
from historyapp.core.json import dump_json, text
from historyapp.core.run_places import folder_of
from historyapp.core.text import clean
from historyapp.core.usage import cache_lifetime_of, usage_of
from historyapp.core.windows import CAVEATS, CLEARED

_NOTES = (*CAVEATS, "<command-name>", "<local-command-stdout></local-command-stdout>")
"""The beginnings of commands that Claude Code runs itself, and of its notes about them without any output."""
_VERSION = "2.1.14"
"""Written if the session's metadata have no version of Claude Code."""


def claude_code_id(session_id: str, head: int) -> str:
    """The id that Claude Code knows the exported session by.

    It is never the id of an imported session, whose own file an export must not replace.

    Args:
        head: the session's newest position in the export.
    """
    return str(uuid5(NAMESPACE_URL, f"playhead:{session_id}@{head}"))


class _ClaudeCodeExporter:
    name = "claude_code"
    title = "Claude Code session"
    media_type = "application/x-ndjson"
    suffix = ".claude-code.jsonl"
    live_only = True
    can_hide_inputs = False
    whole_steps = True

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        entries = _Entries(session.entries)
        lines = _Lines(session)
        ids = CallIds(ANTHROPIC_MESSAGES.longest_id)
        has_text = False  # ``/clear`` begins a file: then nothing is cut off
        for part in conversation_parts(entries):
            entry = entries.take(part.position)
            written = ANTHROPIC_MESSAGES.write(part)
            call_ids = [ids.of(part.position, id) for id in written.calls]
            input = part if isinstance(part, InputMessage) else None
            answered = None if input else entries.last_results(part.position)
            is_summary = input is not None and input.channel == COMPACTION
            command = text_of(input.content) if input and input.channel == "command" else ""
            is_clear = CLEARED in command
            if written.items and (is_summary or (is_clear and has_text)):
                yield lines.boundary(entry, "compacted" if is_summary else "cleared")
                has_text = False
            has_text = has_text or not (is_clear or command.startswith(_NOTES))
            for item in ANTHROPIC_MESSAGES.identified(written, call_ids):
                if lines.is_first and item["role"] == "assistant":
                    yield lines.user(entry, [{"type": "text", "text": NO_BEGINNING}])
                if item["role"] == "assistant":
                    yield lines.assistant(entry, item["content"])
                else:
                    at = (answered or entry).created_at
                    yield lines.user(entry, item["content"], is_summary=is_summary, at=at)


class _Entries:
    """The entries without instructions. Keeps those that are not written yet."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = entries
        self._kept: dict[int, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            if not isinstance(entry.body, (SystemInstruction, MemoryNotebook)):
                self._kept[entry.position] = entry
                yield entry

    def take(self, position: int) -> Entry:
        """The entry at a position; forgets those before it."""
        while (first := next(iter(self._kept))) < position:
            del self._kept[first]
        return self._kept[position]

    def last_results(self, position: int) -> Entry | None:
        """The newest entry with results of the output at a position, or None."""
        newest = None
        for entry in self._kept.values():
            if entry.position > position and isinstance(entry.body, ModelOutput):
                break
            if isinstance(entry.body, ToolResults):
                newest = entry
        return newest


class _Lines:
    """Writes the lines of one session."""

    def __init__(self, session: ExportSession) -> None:
        self._session = session
        self._id = claude_code_id(session.id, session.head)
        self._facts = {
            "isSidechain": False,
            "userType": "external",
            "cwd": clean(folder_of(session.metadata)),
            "sessionId": self._id,
            "version": clean(text(session.metadata.get("version"))) or _VERSION,
            "gitBranch": "",
        }
        self._count = 0
        self._newest: str | None = None

    @property
    def is_first(self) -> bool:
        return self._count == 0

    def user(
        self,
        entry: Entry,
        content: list[dict[str, Any]],
        *,
        is_summary: bool = False,
        at: datetime | None = None,
    ) -> str:
        """The line of an input or of results.

        Args:
            at: its time, if it is not that of the entry: results come after their output.
        """
        facts = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True} if is_summary else {}
        message = {"role": "user", "content": content}
        return self._line("user", at or entry.created_at, message=message, **facts)

    def assistant(self, entry: Entry, content: list[dict[str, Any]]) -> str:
        usage = usage_of(entry.metadata)
        tokens: dict[str, Any] = {
            "input_tokens": usage.uncached,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
        }
        if lifetime := cache_lifetime_of(entry.metadata):
            name = "ephemeral_5m_input_tokens" if lifetime == 300 else "ephemeral_1h_input_tokens"
            tokens["cache_creation"] = {name: usage.cache_write}
        message = {
            "id": f"msg_{uuid5(NAMESPACE_URL, f'{self._id}/{entry.position}').hex}",
            "type": "message",
            "role": "assistant",
            "model": clean(text(entry.metadata.get("model")) or self._session.model),
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": tokens,
        }
        return self._line("assistant", entry.created_at, message=message)

    def boundary(self, entry: Entry, change: str) -> str:
        """The line after which the context of the model begins."""
        facts = {"logicalParentUuid": self._newest, "isMeta": False, "level": "info"}
        self._newest = None
        return self._line(
            "system",
            entry.created_at,
            subtype="compact_boundary",
            content=f"Conversation {change}",
            compactMetadata={"trigger": "manual", "preTokens": 0},
            **facts,
        )

    def _line(self, kind: str, at: datetime, **fields: Any) -> str:
        self._count += 1
        uuid = str(uuid5(NAMESPACE_URL, f"{self._id}#{self._count}"))
        line = {
            "parentUuid": self._newest,
            **self._facts,
            "type": kind,
            **fields,
            "uuid": uuid,
            "timestamp": utc_text(at),
        }
        self._newest = uuid
        return dump_json(line) + "\n"


CLAUDE_CODE = _ClaudeCodeExporter()
