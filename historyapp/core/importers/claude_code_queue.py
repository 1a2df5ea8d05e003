"""Prompts that were typed while Claude Code was busy, from its ``queue-operation`` records.

``enqueue`` has the text. ``dequeue`` starts a turn with it, and the prompt follows as a ``user`` record.
``remove`` adds it to the running turn. Newer versions then write it again as an attachment, older versions do
not. So a removed prompt waits for its own record until the next output of the model.
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
_MAX_IMPORTED = 50
_REPEATED = "a queued prompt that has its own record"


@dataclass(slots=True)
class QueuedPrompt:
    """A prompt in the queue."""

    line: int
    record: dict[str, Any]
    text: str
    is_task: bool
    """Whether it is a notification of a background task. Claude Code puts these into the same queue."""
    taken_at: datetime | None = None
    """When a running turn took it."""


class PromptQueue:
    """The queue of one file's main conversation."""

    def __init__(self) -> None:
        self._queued: deque[QueuedPrompt] = deque()
        self._taken: deque[QueuedPrompt] = deque()
        self._imported: deque[str] = deque(maxlen=_MAX_IMPORTED)

    def add(self, line: int, record: dict[str, Any]) -> Iterator[Skipped]:
        """Applies a ``queue-operation``. Prompts that it removes without a turn are skipped."""
        operation, content = text(record.get("operation")), record.get("content")
        prompt_text = text_of(content) if isinstance(content, (str, list)) else ""
        if operation == "enqueue" and prompt_text.strip():
            is_task = False
            if prompt_text.startswith("{"):
                with suppress(ValueError):
                    is_task = "task_id" in parse_embedded(prompt_text)
            self._queued.append(QueuedPrompt(line, record, prompt_text, is_task))
            if len(self._queued) > _MAX_QUEUED:
                yield _unsent(self._queued.popleft())
            return
        yield Skipped(line, f"queue operation {operation[:40]}", damaged=False)
        prompt = self._next(prompt_text) if operation in ("dequeue", "remove") else None
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

    def _next(self, prompt_text: str) -> QueuedPrompt | None:
        """Removes and returns an operation's prompt: the one with its text, or else the first, tasks last."""
        queued = self._queued
        same = (prompt for prompt in queued if prompt.text == prompt_text)
        typed = (prompt for prompt in queued if not prompt.is_task)
        next_prompt = next(same if prompt_text else typed, None)
        if next_prompt is None and queued and not prompt_text:
            next_prompt = queued[0]
        if next_prompt is not None:
            queued.remove(next_prompt)
        return next_prompt

    def claim(self, prompt_text: str) -> Skipped | None:
        """Removes the waiting prompt with this text, because its own record was found."""
        prompt = next((prompt for prompt in self._taken if prompt.text == prompt_text), None)
        if prompt is None:
            return None
        self._taken.remove(prompt)
        return Skipped(prompt.line, _REPEATED, damaged=False)

    def take_imported(self, prompt_text: str) -> bool:
        """Removes an imported prompt with this text. Returns whether there was one."""
        if prompt_text not in self._imported:
            return False
        self._imported.remove(prompt_text)
        return True

    def due(self, at: datetime | None) -> Iterator[QueuedPrompt]:
        """Yields the prompts that the running turn took before ``at``, or all if that is unknown."""
        while self._taken:
            taken_at = self._taken[0].taken_at
            if at is not None and taken_at is not None and at < taken_at:
                return
            prompt = self._taken.popleft()
            self._imported.append(prompt.text)
            yield prompt

    def skip_unsent(self) -> Iterator[Skipped]:
        """Skips the prompts that were never sent."""
        while self._queued:
            yield _unsent(self._queued.popleft())

    @property
    def has_waiting(self) -> bool:
        """Whether a prompt was removed and waits for its own record."""
        return bool(self._taken)


def _unsent(prompt: QueuedPrompt) -> Skipped:
    reason = "a background task in the queue" if prompt.is_task else "a queued prompt that was not sent"
    return Skipped(prompt.line, reason, damaged=False)
