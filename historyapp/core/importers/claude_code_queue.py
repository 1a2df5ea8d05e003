"""Prompts that were typed while Claude Code was busy, from its ``queue-operation`` records.

``enqueue`` holds the text. ``dequeue`` begins a turn with it: the prompt follows as a ``user`` record.
``remove`` hands it to the turn that is under way. Newer versions write it again as an attachment; for older
ones the queue is its only record. So a removed prompt waits for its own record, until the model goes on.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from historyapp.core.entries import text_of
from historyapp.core.importers.base import Skipped
from historyapp.core.importers.messages import moment
from historyapp.core.json import parse_embedded, text

_MAX_QUEUED = 500
_MAX_GIVEN = 50
_REPEATED = "a queued prompt, which has a record of its own"


@dataclass(slots=True)
class QueuedPrompt:
    """A prompt in the queue."""

    line: int
    record: dict[str, Any]
    text: str
    is_task: bool
    """Whether it is a notice of a background task. Claude Code keeps these in the same queue."""
    taken_at: datetime | None = None
    """When a running turn took it."""


class PromptQueue:
    """The queue of one file's main conversation."""

    def __init__(self) -> None:
        self._queued: deque[QueuedPrompt] = deque()
        self._taken: deque[QueuedPrompt] = deque()
        self._given: deque[str] = deque(maxlen=_MAX_GIVEN)

    def add(self, line: int, record: dict[str, Any]) -> Iterator[Skipped]:
        """Follows one ``queue-operation``. A prompt that it discards is skipped."""
        operation, content = text(record.get("operation")), record.get("content")
        words = text_of(content) if isinstance(content, (str, list)) else ""
        if operation == "enqueue" and words.strip():
            is_task = False
            if words.startswith("{"):
                with suppress(ValueError):
                    is_task = "task_id" in parse_embedded(words)
            self._queued.append(QueuedPrompt(line, record, words, is_task))
            if len(self._queued) > _MAX_QUEUED:
                yield _unsent(self._queued.popleft())
            return
        yield Skipped(line, f"queue operation {operation[:40]}", damaged=False)
        prompt = self._next(words) if operation in ("dequeue", "remove") else None
        if prompt is None:
            return
        if operation == "dequeue":
            yield Skipped(prompt.line, _REPEATED, damaged=False)
        elif prompt.is_task:
            yield Skipped(prompt.line, "a background task in the queue", damaged=False)
        else:
            prompt.taken_at = moment(record.get("timestamp"))
            self._taken.append(prompt)
            if len(self._taken) > _MAX_QUEUED:
                yield _unsent(self._taken.popleft())

    def _next(self, words: str) -> QueuedPrompt | None:
        """The prompt that an operation means: the one it names, otherwise the first; tasks come last."""
        queued = self._queued
        named = (prompt for prompt in queued if prompt.text == words)
        typed = (prompt for prompt in queued if not prompt.is_task)
        next_prompt = next(named if words else typed, None) or (None if words or not queued else queued[0])
        if next_prompt is not None:
            queued.remove(next_prompt)
        return next_prompt

    def claim(self, words: str) -> Skipped | None:
        """Takes out the prompt that waited for its own record, which has these words."""
        prompt = next((prompt for prompt in self._taken if prompt.text == words), None)
        if prompt is None:
            return None
        self._taken.remove(prompt)
        return Skipped(prompt.line, _REPEATED, damaged=False)

    def take_queued(self, words: str) -> bool:
        """Whether a prompt with these words was taken from the queue. Each is reported once."""
        if words not in self._given:
            return False
        self._given.remove(words)
        return True

    def due(self, at: datetime | None) -> Iterator[QueuedPrompt]:
        """The prompts that the running turn took before ``at``; all of them where that is not known."""
        while self._taken:
            taken_at = self._taken[0].taken_at
            if at is not None and taken_at is not None and at < taken_at:
                return
            prompt = self._taken.popleft()
            self._given.append(prompt.text)
            yield prompt

    def rest(self) -> Iterator[Skipped]:
        """What was never sent."""
        while self._queued:
            yield _unsent(self._queued.popleft())

    @property
    def waits(self) -> bool:
        """Whether a running turn took a prompt that was not given out yet."""
        return bool(self._taken)


def _unsent(prompt: QueuedPrompt) -> Skipped:
    what = "a background task in the queue" if prompt.is_task else "a queued prompt that was not sent"
    return Skipped(prompt.line, what, damaged=False)
