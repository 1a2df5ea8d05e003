"""The session of one Codex file, read from its lines.

The first ``session_meta`` describes the session. Others belong to the history that a resumed, forked or
started session copied. ``response_item`` lines are what the model saw. ``event_msg`` lines repeat it for the
user interface: only their usage, failures, interruptions and rollbacks are read, unless the file has no
items.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from historyapp.core.entries import Body, DebugLog, ModelInput, SystemInstruction, ToolResults, text_of
from historyapp.core.importers.base import Operation, Skipped
from historyapp.core.importers.codex_items import (
    RESULT_ITEMS,
    add_item,
    channel_of,
    failure_in,
    hosted_output,
    hosted_result,
    is_hosted_call,
    parts_of,
    result_of,
)
from historyapp.core.importers.codex_lines import RolloutLine, as_item, recording_of, unwrap
from historyapp.core.importers.messages import title_of
from historyapp.core.importers.recording import OutputParts, Recording
from historyapp.core.importers.records import present_fields
from historyapp.core.json import dump_json, listing, mapping, text
from historyapp.core.person_inputs import TURN_ABORTED
from historyapp.core.text import preview

_MAX_WAITING = 500
_MAX_MIRRORED = 1000
_MAX_FAILURES = 1000
_MAX_DEVELOPER_MESSAGES = 50
_MAX_TURN = 1e12
"""Milliseconds."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_REQUEST = re.compile(r"^(?:## My request for Codex:| {0,9}<input>)\s*(.+)", re.DOTALL | re.MULTILINE)
"""The mark before a task: an editor, or a thread that delegates the task, writes its context first."""
_MIRRORS = ("user_message", "agent_message", "agent_reasoning")
_TOOL_ENDS = ("exec_command_end", "patch_apply_end", "mcp_tool_call_end")
_TURN_ENDS = ("task_complete", "turn_complete")
_LOGGED = {
    TURN_ABORTED: TURN_ABORTED,
    "error": "error",
    "stream_error": "error",
    "warning": "warning",
    "entered_review_mode": "review_mode",
    "exited_review_mode": "review_mode",
    "collab_agent_spawn_end": "sub_agent",
}
"""The events that become log entries, with their categories."""


@dataclass(slots=True)
class _Output:
    """The items of one response."""

    first: RolloutLine
    model: str
    items: list[RolloutLine] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    """Of its ``token_count``: the usage and the model's window."""
    has_final_usage: bool = False
    """The next item belongs to the next response."""
    has_results: bool = False


class CodexSession:
    """Reads the lines of one file in order.

    Lines in an open response wait until the next response starts, so that late usage is added to its output.
    Older versions write the usage before the response, newer ones after it.
    """

    def __init__(self, name: str) -> None:
        ids = _UUID.findall(name)
        self._recording = Recording(ids[-1] if ids else PurePath(name).stem, agent="codex")
        self._has_meta = False
        self._base = ""
        self._instructions: RolloutLine | None = None
        """A first line of 2025 with instructions, until a message repeats them or a prompt follows."""
        self._first_instructions = ""
        self._developer: list[tuple[int, str]] = []
        """The newest live developer messages before the first output, each with its position."""
        self._has_output = False
        self._model = ""
        self._provider = "openai"
        self._output: _Output | None = None
        self._waiting: list[RolloutLine] = []
        self._usage: tuple[int, dict[str, Any]] | None = None
        """The usage and the window of a response that has not started, with their line."""
        self._total_usage: Any = None
        self._usage_comes_first = False
        self._failures: dict[str, str] = {}
        self._live = 0
        """The newest live position."""
        self._prompts: list[int] = []
        """For each live prompt, the newest live position before it, for rollbacks."""
        self._mirrored: list[RolloutLine] | None = []
        """Events that repeat items. They are the conversation if the file has no items."""

    def add(self, number: int, record: dict[str, Any]) -> Iterator[Operation]:
        """The operations of a line."""
        line = unwrap(number, record)
        if isinstance(line, Skipped):
            yield line
        elif line.kind == "response_item":
            for mirrored in self._mirrored or ():  # items repeat them
                yield Skipped(mirrored.number, f"event of type {mirrored.payload['type']}", damaged=False)
            self._mirrored = None
            yield from self._add_item(line)
        elif line.kind == "event_msg":
            yield from self._add_event(line)
        elif line.kind == "session_meta":
            yield from self._add_meta(line)
        elif line.kind == "turn_context":
            self._model = text(line.payload.get("model")) or self._model
            self._recording.model = self._recording.model or self._model
            yield Skipped(number, "settings of a turn", damaged=False)
        elif line.kind == "compacted":
            yield from self._complete()
            yield from self._yield_compaction(line)
        else:
            yield Skipped(number, f"record of type {preview(line.kind, 40)}", damaged=False)

    def close(self) -> Iterator[Operation]:
        """The remaining operations at the end of the file."""
        self._recording.provisional = bool(self._mirrored or self._output or self._instructions)
        yield from self._yield_mirrored()
        yield from self._yield_unrepeated()
        yield from self._complete()
        yield from self._drop_usage()
        yield from self._recording.release_held()

    def _add_meta(self, line: RolloutLine) -> Iterator[Operation]:
        meta = line.payload
        if self._has_meta:
            yield Skipped(line.number, "session_meta of a copied history", damaged=False)
        elif self._recording.is_empty:
            self._recording = recording_of(meta, self._recording)
        self._has_meta = True
        self._provider = text(meta.get("model_provider")) or self._provider
        instruction = mapping(meta.get("base_instructions")).get("text", meta.get("base_instructions"))
        if isinstance(instruction, str) and instruction not in ("", self._base):
            self._base = instruction
            yield from self._complete()
            yield from self._yield_instruction(line)
        own = text(meta.get("instructions"))
        if own.strip() and own not in (self._base, self._first_instructions):
            self._instructions = line

    def _yield_unrepeated(self) -> Iterator[Operation]:
        """Yields the instructions of the first line, if no message before a prompt repeated them."""
        line, self._instructions = self._instructions, None
        if line is not None:
            self._first_instructions = text(line.payload["instructions"])
            yield from self._yield_instruction(line)

    def _yield_instruction(self, line: RolloutLine) -> Iterator[Operation]:
        """Yields the instruction: the base instructions, then the developer messages before the first output.

        Codex repeats some of them. Each is at the position of its last copy.
        """
        latest = dict.fromkeys(message for _, message in reversed(self._developer))
        texts = [text for text in (self._base, self._first_instructions, *reversed(latest)) if text]
        yield from self._append(SystemInstruction(text="\n\n".join(texts)), line)

    def _add_item(self, line: RolloutLine) -> Iterator[Operation]:
        kind = text(line.payload.get("type"))
        is_output = kind == "message" and line.payload.get("role") == "assistant"
        if is_output or kind == "reasoning" or kind.endswith("_call"):
            output = self._output
            if output and (output.has_final_usage or output.has_results or self._usage):
                yield from self._complete()
            if self._output is None:
                yield from self._yield_unrepeated()
                info = self._usage[1] if self._usage else {}
                self._output, self._usage = _Output(line, self._model, info=info), None
                yield from self._recording.release_held()
            self._output.items.append(line)
        elif kind in RESULT_ITEMS:
            if self._output:
                self._output.has_results = True
            yield from self._defer(line)
        elif kind in ("message", "agent_message"):
            yield from self._complete()
            yield from self._yield_message(line)
        else:
            yield Skipped(line.number, f"item of type {preview(kind, 40)}", damaged=False)

    def _defer(self, line: RolloutLine) -> Iterator[Operation]:
        """Yields a line after the open output."""
        if self._output and len(self._waiting) < _MAX_WAITING:
            self._waiting.append(line)
            return
        yield from self._complete()
        yield from self._yield_waiting(line)

    def _complete(self) -> Iterator[Operation]:
        """Yields the open output, then the lines that waited for it."""
        if self._output is None:
            return
        output, self._output = self._output, None
        waiting, self._waiting = self._waiting, []
        yield from self._yield_output(output)
        for line in waiting:
            yield from self._yield_waiting(line)

    def _yield_output(self, output: _Output) -> Iterator[Operation]:
        self._has_output = True
        parts, calls, source = OutputParts(), self._recording.calls, output.first.source()
        for item in output.items:
            add_item(parts, item.payload)
        body = parts.body(calls, source)
        if hosted := sum(
            is_hosted_call(item.payload) and not hosted_output(item.payload) for item in output.items
        ):
            source["hosted"] = hosted
        if (window := output.info.get("model_context_window")) is not None:
            source["window"] = window
        facts = {"source": source, "provider": self._provider}
        if output.model:
            facts["model"] = output.model
        if output.info:
            facts |= {"usage": output.info["last_token_usage"], "usage_convention": "openai"}
        yield from self._append(body, output.items[-1], facts)  # Codex writes each item when it is complete
        for item in output.items:
            if result := hosted_result(item.payload, calls):
                yield from self._append(ToolResults(results=(result,)), item)

    def _yield_waiting(self, line: RolloutLine) -> Iterator[Operation]:
        """Yields a result or a logged event."""
        if line.kind == "response_item":
            failure = self._failures.pop(text(line.payload.get("call_id")), None)
            result, facts = result_of(line.payload, self._recording.calls, failure)
            yield from self._append(ToolResults(results=(result,)), line, {"source": line.source(), **facts})
        else:
            yield from self._log(_LOGGED[line.payload["type"]], line.payload, line)

    def _log(self, category: str, event: dict[str, Any], line: RolloutLine) -> Iterator[Operation]:
        message = text(event.get("message")) or text(event.get("reason")) or dump_json(event)
        yield from self._append(DebugLog(category=category, message=message), line)

    def _yield_message(self, line: RolloutLine) -> Iterator[Operation]:
        parts, role = parts_of(line.payload), text(line.payload.get("role"))
        message = text_of(parts)
        if not message.strip() and all("text" in part for part in parts):
            yield Skipped(line.number, "message without content", damaged=False)
            return
        if self._instructions and text(self._instructions.payload["instructions"]).strip() in message:
            self._instructions = None
        is_instruction = role in ("developer", "system")
        if is_instruction and not self._has_output:
            self._developer.append((self._recording.position + 1, message))
            del self._developer[:-_MAX_DEVELOPER_MESSAGES]
            yield from self._yield_instruction(line)
            return
        channel = "agent" if line.payload.get("type") == "agent_message" else channel_of(message)
        if is_instruction:  # a later instruction does not replace the first one
            channel = role
        if channel == "user":
            yield from self._yield_unrepeated()
            self._prompts.append(self._live)
            request = _REQUEST.search(message)
            title = self._recording.title or title_of(request[1] if request else message)
            self._recording.title = title
        is_plain = len(parts) == 1 and "text" in parts[0]
        yield from self._append(ModelInput(channel=channel, content=message if is_plain else parts), line)

    def _yield_compaction(self, line: RolloutLine) -> Iterator[Operation]:
        summary = text(line.payload.get("message"))
        history = listing(line.payload.get("replacement_history"))
        message = f"{len(history)} items replaced the history in the context."
        facts = {"source": line.source()} | present_fields(replacement_history=history)
        yield from self._append(DebugLog(category="compaction", message=message), line, facts)
        if summary.strip():
            yield from self._append(ModelInput(channel="compaction", content=summary), line)

    def _add_event(self, line: RolloutLine) -> Iterator[Operation]:
        event = line.payload
        kind = text(event.get("type"))
        if kind in _MIRRORS and self._mirrored is not None:
            self._mirrored.append(line)
            if len(self._mirrored) >= _MAX_MIRRORED:
                yield from self._yield_mirrored()
        elif kind in _LOGGED:
            yield from self._defer(line)
        elif kind == "token_count":
            yield from self._add_usage(line.number, mapping(event.get("info")))
        elif kind in _TURN_ENDS:
            yield from self._complete()
            yield from self._yield_turn_end(line)
        elif kind == "thread_rolled_back":
            yield from self._complete()
            yield from self._roll_back(line.number, event.get("num_turns"))
        else:
            if kind in _TOOL_ENDS:
                self._note_failure(event)
            if kind == "thread_name_updated":
                self._recording.title = preview(text(event.get("thread_name")), 80) or self._recording.title
            yield Skipped(line.number, f"event of type {preview(kind, 40)}", damaged=False)

    def _note_failure(self, event: dict[str, Any]) -> None:
        """Keeps the failure that the end of a tool call reports, for the result of the call."""
        failure = failure_in(event)
        if failure is None:
            return
        self._failures[text(event.get("call_id"))] = failure
        if len(self._failures) > _MAX_FAILURES:
            del self._failures[next(iter(self._failures))]

    def _add_usage(self, number: int, info: dict[str, Any]) -> Iterator[Operation]:
        """Adds the usage to the open response, or to the next one if the usage comes first."""
        usage, total = mapping(info.get("last_token_usage")), info.get("total_token_usage")
        if not usage or total == self._total_usage:
            yield Skipped(number, "token_count without new usage", damaged=False)
            return
        self._total_usage = total
        output = self._output
        if output and not output.info and not (output.has_results and self._usage_comes_first):
            output.info, output.has_final_usage = info, True
            self._usage_comes_first = False
        else:
            yield from self._drop_usage()
            self._usage, self._usage_comes_first = (number, info), True

    def _drop_usage(self) -> Iterator[Operation]:
        if self._usage:
            yield Skipped(self._usage[0], "usage of a response that is not in the file", damaged=False)
        self._usage = None

    def _yield_turn_end(self, line: RolloutLine) -> Iterator[Operation]:
        duration = line.payload.get("duration_ms")
        if error := line.payload.get("error"):
            yield from self._log("error", mapping(error), line)
        elif isinstance(duration, (int, float)) and 0 < duration < _MAX_TURN:
            log = DebugLog(category="turn_duration", message=f"The turn took {duration / 1000:.1f} s.")
            yield from self._append(log, line)
        else:
            yield Skipped(line.number, "end of a turn", damaged=False)

    def _roll_back(self, number: int, turns: Any) -> Iterator[Operation]:
        """Rewinds to before the newest turns, as Codex does."""
        if not isinstance(turns, int) or turns < 1 or not self._prompts:
            yield Skipped(number, "rollback of no turn", damaged=False)
            return
        self._live = self._prompts[max(0, len(self._prompts) - turns)]
        del self._prompts[-turns:]
        self._developer = [(at, message) for at, message in self._developer if at <= self._live]
        yield from self._recording.rewind(self._live, "rolled back in Codex")

    def _yield_mirrored(self) -> Iterator[Operation]:
        """Yields the events as items."""
        mirrored, self._mirrored = self._mirrored or [], []
        for line in mirrored:
            yield from self._add_item(as_item(line))

    def _append(
        self, body: Body, line: RolloutLine, metadata: dict[str, Any] | None = None
    ) -> Iterator[Operation]:
        yield from self._recording.append(body, line.time, metadata or {"source": line.source()})
        self._live = self._recording.position
