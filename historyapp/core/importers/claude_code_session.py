"""One session of a Claude Code file. Messages span several lines, and branches become rewinds."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from historyapp.core.entries import Body, DebugLog, ModelInput, ToolResults, text_of
from historyapp.core.importers.base import Operation, Skipped
from historyapp.core.importers.claude_code_branches import OTHER, OUTPUT, PROMPT, RESULTS, Branches
from historyapp.core.importers.claude_code_index import NOWHERE, RecordIndex
from historyapp.core.importers.claude_code_queue import PromptQueue
from historyapp.core.importers.claude_code_records import (
    attachment_of,
    blocks_of,
    channel_of,
    diffs_of,
    ends_turn,
    input_of,
    parts_of,
    results_of,
    starts_new_context,
    system_log,
)
from historyapp.core.importers.messages import moment, title_of
from historyapp.core.importers.recording import Recording
from historyapp.core.json import mapping, text
from historyapp.core.microcompaction import clearable_tokens
from historyapp.core.person_inputs import typed_command
from historyapp.core.text import preview

FORMAT = "claude_code"
_MAX_WAITING = 500
_MESSAGES_REMEMBERED = 100
_MAX_TASKS = 50
_AGENT_TOOLS = ("Task", "Agent")
_UUID_LENGTH = 36
_SLASH_COMMAND = re.compile(r"/[\w:.-]+(\s|$)")
_Blocks = list[dict[str, Any]]


@dataclass(slots=True)
class _Message:
    """An API message: several lines with the same id, one block each. Later lines have newer usage."""

    id: str
    line: int
    first: dict[str, Any]
    is_continued: bool
    """Whether an earlier part was already yielded, with the usage."""
    ended: dict[str, Any] = field(default_factory=dict)
    """The newest record before the first one that waits. The model wrote until then."""
    blocks: _Blocks = field(default_factory=list)
    uuids: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    stop_reason: Any = None

    def add(self, record: dict[str, Any], blocks: _Blocks) -> None:
        message = record["message"]
        if blocks[: len(self.blocks)] == self.blocks:  # some versions repeat the earlier blocks
            blocks = blocks[len(self.blocks) :]
        self.blocks += [
            block for block in blocks if block.get("type") != "tool_use" or block not in self.blocks
        ]
        self.usage = mapping(message.get("usage")) or self.usage
        self.stop_reason = message.get("stop_reason") or self.stop_reason
        if uuid := text(record.get("uuid")):
            self.uuids.append(uuid)

    def metadata(self) -> dict[str, Any]:
        message = self.first["message"]
        facts = {
            "source": source_of(self.line, self.first),
            "provider": "anthropic",
            "model": message.get("model"),
            "stop_reason": self.stop_reason,
            "request_id": self.first.get("requestId"),
        }
        if self.is_continued:
            facts["continues"] = self.id
        elif self.usage:
            facts |= {"usage": self.usage, "usage_convention": "anthropic"}
        return {name: value for name, value in facts.items() if value}


def command_line(prompt: ModelInput) -> str:
    """A title with the name and the arguments of a command."""
    return preview(typed_command(text_of(prompt.content)), 80)


def source_of(line: int, record: dict[str, Any]) -> dict[str, Any]:
    """The source of an entry, for its metadata."""
    source: dict[str, Any] = {"format": FORMAT, "line": line}
    if uuid := text(record.get("uuid")):
        source["uuid"] = uuid
    if id := mapping(record.get("message")).get("id"):
        source["id"] = id
    return source


class ClaudeCodeSession:
    """Reads the records of one session in file order.

    Records that come before a message is complete wait for it, so that an output comes before its results. A
    record that continues from an earlier point of the conversation rewinds the session.
    """

    def __init__(self, recording: Recording, queue: PromptQueue | None = None) -> None:
        self.recording = recording
        self._queue = PromptQueue() if queue is None else queue
        self.tasks: dict[str, str] = {}
        """The prompts of the newest sub-agents, and the ids of the tool calls that started them."""
        self._branches = Branches()
        self.positions = RecordIndex()
        """The positions of the conversation's records."""
        self._message: _Message | None = None
        self._waiting: list[tuple[int, dict[str, Any], _Blocks]] = []
        self._yielded_ids: deque[str] = deque(maxlen=_MESSAGES_REMEMBERED)
        self.is_resumed = False
        """Whether a new process continues the session with the next input."""
        self._root: int | None = None
        self._has_links = False

    def add(self, line: int, record: dict[str, Any]) -> Iterator[Operation]:
        """The operations of a record."""
        uuid = text(record.get("uuid"))
        if len(uuid) == _UUID_LENGTH and uuid in self.positions:
            yield Skipped(line, f"repeats the record {uuid}", damaged=False)
            return
        blocks = blocks_of(record)
        is_output = record["type"] == "assistant" and not record.get("isApiErrorMessage")
        if is_output and record["message"].get("model") != "<synthetic>":
            yield from self._add_to_message(line, record, blocks)
        elif self._message and len(self._waiting) < _MAX_WAITING and not ends_turn(record, blocks):
            self._waiting.append((line, record, blocks))
        else:
            yield from self._complete()
            yield from self._handle(line, record, blocks)
        if uuid and uuid not in self.positions:
            self.positions[uuid] = NOWHERE

    def close(self) -> Iterator[Operation]:
        """The remaining operations at the end of the file."""
        self.recording.provisional = self._message is not None
        yield from self._complete()
        self.recording.provisional = self.recording.provisional or self._queue.has_waiting
        yield from self._yield_queued(None)
        yield from self.recording.release_held()

    def _add_to_message(self, line: int, record: dict[str, Any], blocks: _Blocks) -> Iterator[Operation]:
        id = record["message"].get("id")
        if not isinstance(id, str) or not id:
            id = text(record.get("uuid")) or f"line {line}"
        if self._message is None or self._message.id != id:
            yield from self._complete()
            yield from self._yield_queued(record)
            yield from self._branch(record, by_user=False)
            self._message = _Message(id, line, record, is_continued=id in self._yielded_ids)
            model = record["message"].get("model")
            self.recording.model = self.recording.model or (model if isinstance(model, str) else "")
            yield from self.recording.release_held()
        self._message.add(record, blocks)
        if not self._waiting:
            self._message.ended = record
        for block in blocks:
            if block.get("type") == "tool_use" and block.get("name") in _AGENT_TOOLS:
                self.tasks[text(mapping(block.get("input")).get("prompt"))] = text(block.get("id"))
                if len(self.tasks) > _MAX_TASKS:
                    del self.tasks[next(iter(self.tasks))]

    def _complete(self) -> Iterator[Operation]:
        """Yields the open message, then the records that waited for it."""
        if self._message is None:
            return
        message, self._message = self._message, None
        waiting, self._waiting = self._waiting, []
        yield from self._yield_message(message)
        for line, record, blocks in waiting:
            yield from self._handle(line, record, blocks)

    def _yield_message(self, message: _Message) -> Iterator[Operation]:
        parts, others = parts_of(message.blocks)
        metadata = message.metadata() | ({"blocks": others} if others else {})
        calls = self.recording.calls
        body = parts.body(calls, metadata["source"])
        self._yielded_ids.append(message.id)
        yield from self._append(body, message.first, metadata, OUTPUT, message.ended)
        if results := results_of(message.blocks, message.first, calls):
            metadata = {"source": metadata["source"]}
            answers = ToolResults(results=results)
            yield from self._append(answers, message.first, metadata, RESULTS, message.ended)
        for uuid in message.uuids:
            self.positions[uuid] = self.recording.position

    def _handle(self, line: int, record: dict[str, Any], blocks: _Blocks) -> Iterator[Operation]:
        before = self.recording.position
        parent = self._parent_position(record)
        source = source_of(line, record)
        match record["type"]:
            case "user":
                yield from self._handle_user(record, blocks, source)
            case "system":
                yield from self._append(system_log(record), record, {"source": source})
            case "assistant":
                category = "api_error" if record.get("isApiErrorMessage") else "synthetic"
                log = DebugLog(category=category, message=text_of(blocks))
                yield from self._append(log, record, {"source": source})
            case "attachment" if body := attachment_of(record):
                yield from self._attach(body, record, source)
        if self.recording.position > before:
            return
        if record["type"] != "progress":
            yield Skipped(line, f"{record['type']} without content", damaged=False)
        if uuid := text(record.get("uuid")):
            self.positions[uuid] = before if parent is None else parent

    def _attach(
        self, body: ModelInput | DebugLog, record: dict[str, Any], source: dict[str, Any]
    ) -> Iterator[Operation]:
        if isinstance(body, ModelInput):
            if body.raw_input is None:
                if repeated := self._queue.claim(text_of(body.content)):
                    yield repeated
                elif self._queue.take_imported(text_of(body.content)):
                    return
            yield from self._branch(record, by_user=False)
        yield from self._append(body, record, {"source": source})

    def _yield_queued(self, record: dict[str, Any] | None) -> Iterator[Operation]:
        """Yields prompts that the running turn took from the queue before the record, or all at the end."""
        at = None if record is None else moment(record.get("timestamp"))
        for prompt in self._queue.due(at):
            source = source_of(prompt.line, prompt.record) | {"queued": True}
            channel = channel_of(prompt.record, prompt.text)
            body: Body = ModelInput(channel=channel, content=prompt.record["content"])
            if _SLASH_COMMAND.match(prompt.text):  # Claude Code runs it, and the model does not see it
                body = DebugLog(category="command", message=prompt.text)
            yield from self._append(body, prompt.record, {"source": source})

    def _handle_user(
        self, record: dict[str, Any], blocks: _Blocks, source: dict[str, Any]
    ) -> Iterator[Operation]:
        has_results = any(block.get("type") == "tool_result" for block in blocks)
        if has_results:
            yield from self._branch(record, by_user=False)
            results = results_of(blocks, record, self.recording.calls)
            agent = mapping(record.get("toolUseResult")).get("agentId")
            clearable = clearable_tokens(results, text(record.get("version")))
            source |= {} if clearable is None else {"clearable": clearable}
            facts = {"source": source, **diffs_of(results, record)}
            metadata = facts | ({"agent_id": agent} if agent else {})
            yield from self._append(ToolResults(results=results), record, metadata, RESULTS)
        body = input_of(record, blocks)
        if isinstance(body, ModelInput):
            recording = self.recording
            if body.channel == "user":
                recording.title = recording.title or title_of(body.content)
            elif body.channel == "command":
                recording.fallback_title = recording.fallback_title or command_line(body)
            if body.channel == "user" and self._queue.has_waiting:
                repeated = self._queue.claim(text_of(body.content))
                yield from (repeated,) if repeated else self._yield_queued(record)
            if not has_results:
                yield from self._branch(
                    record, body.channel in ("user", "command"), starts_new_context(record, body)
                )
            # Claude Code itself ran a command without an output, such as /exit. Continuing before it rewinds
            # nothing.
            kind = PROMPT if body.channel == "user" else OTHER
            yield from self._append(body, record, {"source": source}, kind)
        elif body:
            yield from self._append(body, record, {"source": source})

    def _append(
        self,
        body: Body,
        record: dict[str, Any],
        metadata: dict[str, Any],
        kind: int = OTHER,
        ended: dict[str, Any] | None = None,
    ) -> Iterator[Operation]:
        """Appends the entry of a record.

        Args:
            ended: the newest record of the entry, if it has several: the entry has its time.
        """
        parent = self._parent_position(record)
        has_sibling = parent is not None and kind in (OTHER, RESULTS) and not self._branches.is_end(parent)
        self._branches.append(kind)
        if self.is_resumed and isinstance(body, ModelInput):
            metadata["source"] = {**metadata["source"], "resumed": True}
            self.is_resumed = False
        at = moment((ended or record).get("timestamp")) or moment(record.get("timestamp"))
        yield from self.recording.append(body, at, metadata)
        # A sibling of an earlier record has the position of its parent, so that its children do not rewind.
        if uuid := text(record.get("uuid")):
            self.positions[uuid] = parent if has_sibling and parent is not None else self.recording.position

    def _parent_position(self, record: dict[str, Any]) -> int | None:
        """The position of the record's parent, or None if it is unknown."""
        parent = record.get("parentUuid")
        position = self.positions.get(parent) if isinstance(parent, str) else None
        return None if position == NOWHERE else position

    def _branch(self, record: dict[str, Any], by_user: bool, restart: bool = False) -> Iterator[Operation]:
        """Rewinds if the record does not follow the live entries.

        A user's input cuts off all live turns after its parent. Other records only return to their own
        branch, because results of parallel calls and late records may follow newer records.
        """
        position = self._parent_position(record)
        if position is not None:
            self._has_links = True
        elif by_user and record.get("parentUuid") is None:
            # Input without a parent restarts at the first such input, if the records have parents.
            if self._root is None or restart:
                self._root = self.recording.position
            elif self._has_links:
                position = self._root
        if position is None:
            return
        if not self._branches.is_live(position):
            yield from self.recording.rewind(self._branches.rewind(position), "went on with another branch")
        elif by_user and not self._branches.is_end(position):
            yield from self.recording.rewind(self._branches.rewind(position), "went back in Claude Code")
