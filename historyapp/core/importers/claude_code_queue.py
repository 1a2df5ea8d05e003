"""Prompts that were typed while Claude Code was busy, as far as its ``queue-operation`` records tell of them.

``enqueue`` holds the text. ``dequeue`` begins a turn with it: the prompt follows as a ``user`` record.
``remove`` hands it to the turn that is under way. Newer versions write it again as an attachment; for older
ones the queue is its only record. So a removed prompt waits for its own record, until the model goes on.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from historyapp.core.entries import DebugLog, ModelInput, text_of
from historyapp.core.importers.base import Skipped
from historyapp.core.importers.claude_code_records import channel_of
from historyapp.core.importers.messages import moment
from historyapp.core.json import parse_embedded, text

_MOST_QUEUED = 500
_MOST_TOLD = 50
_SLASH_COMMAND = re.compile(r"/[\w:.-]+(\s|$)")


@dataclass(slots=True)
class QueuedPrompt:
    """A prompt in the queue."""

    line: int
    record: dict[str, Any]
    text: str
    is_task: bool
    """Whether it only tells of a background task. Claude Code keeps these in the same queue."""
    taken_at: datetime | None = None
    """When a running turn took it."""

    def body(self) -> ModelInput | DebugLog:
        """A slash command in the middle of a turn is carried out at once: the model does not see it."""
        if _SLASH_COMMAND.match(self.text):
            return DebugLog(category="command", message=self.text)
        return ModelInput(channel=channel_of(self.record, self.text), content=self.record["content"])


class PromptQueue:
    """The queue of one file's main conversation."""

    def __init__(self) -> None:
        self._queued: deque[QueuedPrompt] = deque()
        self._taken: deque[QueuedPrompt] = deque()
        self._told: deque[str] = deque(maxlen=_MOST_TOLD)

    def add(self, line: int, record: dict[str, Any]) -> Iterator[Skipped]:
        """Follows one ``queue-operation``. A prompt that is given up with it is named as skipped."""
        operation, content = text(record.get("operation")), record.get("content")
        said = text_of(content) if isinstance(content, (str, list)) else ""
        if operation == "enqueue" and said.strip():
            self._queued.append(QueuedPrompt(line, record, said, _is_task(said)))
            if len(self._queued) > _MOST_QUEUED:
                yield _unsent(self._queued.popleft())
            return
        yield Skipped(line, f"queue operation {operation[:40]}", damaged=False)
        prompt = self._next(said) if operation in ("dequeue", "remove") else None
        if prompt is None:
            return
        if operation == "dequeue":
            yield _repeated(prompt)
        elif prompt.is_task:
            yield Skipped(prompt.line, "a background task in the queue", damaged=False)
        else:
            prompt.taken_at = moment(record.get("timestamp"))
            self._taken.append(prompt)
            if len(self._taken) > _MOST_QUEUED:
                yield _unsent(self._taken.popleft())

    def _next(self, said: str) -> QueuedPrompt | None:
        """The prompt that an operation means: the one it names, else the first; tasks come last."""
        queued = self._queued
        named = (prompt for prompt in queued if prompt.text == said)
        typed = (prompt for prompt in queued if not prompt.is_task)
        found = next(named if said else typed, None) or (None if said or not queued else queued[0])
        if found is not None:
            queued.remove(found)
        return found

    def claim(self, said: str) -> Skipped | None:
        """A record has these words: a prompt that waits for its own record has it now."""
        prompt = next((prompt for prompt in self._taken if prompt.text == said), None)
        if prompt is None:
            return None
        self._taken.remove(prompt)
        return _repeated(prompt)

    def has_told(self, said: str) -> bool:
        """Whether a prompt with these words was told from the queue; true once for each."""
        if said not in self._told:
            return False
        self._told.remove(said)
        return True

    def due(self, at: datetime | None) -> Iterator[QueuedPrompt]:
        """The prompts that the running turn took before ``at``; all of them where that is not known."""
        while self._taken:
            taken_at = self._taken[0].taken_at
            if at is not None and taken_at is not None and at < taken_at:
                return
            prompt = self._taken.popleft()
            self._told.append(prompt.text)
            yield prompt

    def rest(self) -> Iterator[Skipped]:
        """What was never sent."""
        while self._queued:
            yield _unsent(self._queued.popleft())

    @property
    def waits(self) -> bool:
        """Whether a running turn took a prompt that was not told yet."""
        return bool(self._taken)


def _is_task(said: str) -> bool:
    if not said.startswith("{"):
        return False
    try:
        return "task_id" in parse_embedded(said)
    except ValueError:
        return False


def _repeated(prompt: QueuedPrompt) -> Skipped:
    return Skipped(prompt.line, "a queued prompt, which has a record of its own", damaged=False)


def _unsent(prompt: QueuedPrompt) -> Skipped:
    what = "a background task in the queue" if prompt.is_task else "a queued prompt that was not sent"
    return Skipped(prompt.line, what, damaged=False)
