"""The limits of a response: of its events, of their JSON values, and of its content."""

from typing import Any

from historyapp.core.json_counts import MANY_DIGITS, counts_of, holds_many_digits, holds_more_values
from historyapp.llm.deltas import (
    FinishedDelta,
    ModelOutputDelta,
    StartedDelta,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
)

MAX_EVENTS = 200_000
"""The maximum number of events in one response. A model writes at most 128,000 tokens."""
MAX_EVENT_VALUES = 200_000
"""JSON values in one event. Parsing one stops all other threads. All arguments of a tool call are one value.
"""
SMALL_VALUES = 100
"""JSON values in an event of a text, of a tool call or of reasoning, with usage."""
MAX_LARGE_VALUES = 200_000
"""JSON values in all events beyond :data:`SMALL_VALUES` of each. Readers keep many of them until the response
ends, and a value with its name takes 100 bytes or more.
"""
MAX_RESPONSE_CONTAINERS = 1_000_000
"""Lists and objects in one response, without those that no reader uses. Each event of a text has two to four.
"""
SMALL_CONTAINERS = 10
"""Lists and objects in an event of a text, of a tool call or of reasoning, with usage."""
MAX_LARGE_CONTAINERS = 250_000
"""Lists and objects in all events beyond :data:`SMALL_CONTAINERS` of each. An object takes 200 bytes."""
MAX_TEXT, SHORT_TEXT, TEXT_OF_TOKEN = 4_000_000, 1_000_000, 100
"""Characters of the text, the reasoning and the arguments of tool calls of one response. With a low output
limit there are fewer: ``TEXT_OF_TOKEN`` for each token, but at least ``SHORT_TEXT``. Most tokens have three
to five characters."""
MAX_NAMES = 1_000
"""Characters of the response's id and the name of its model."""
MAX_TOOL_CALLS = 1_000
"""Tool calls in one response, as in one entry."""
MAX_MESSAGE = 1 << 25
"""Characters of the whole response as JSON in ASCII."""

Event = dict[str, Any]


class TooMuch(Exception):
    """A response exceeds the limit that the message names."""


class MemoryInUse(TooMuch):
    """A response finds no memory because of others, which the message names."""


class EventCount:
    """Counts the events of one response and their values."""

    def __init__(self) -> None:
        self._events = self._containers = self._large_containers = self._large_values = 0

    def add(self, data: str) -> None:
        """Counts an event before it is parsed.

        Raises:
            TooMuch: if there are too many, or it has too many values or digits.
        """
        self._events += 1
        if self._events > MAX_EVENTS:
            raise TooMuch(f"{MAX_EVENTS:,} events")
        if holds_more_values(data, MAX_EVENT_VALUES):
            raise TooMuch(f"{MAX_EVENT_VALUES:,} values in one event")
        if holds_many_digits(data):
            raise TooMuch(f"{MANY_DIGITS:,} digits in the long numbers of one event")

    def add_kept(self, event: Event) -> None:
        """Counts the values of an event that readers may keep.

        Raises:
            TooMuch: if the response has too many.
        """
        values, containers = counts_of(event)
        self._containers += containers
        self._large_containers += max(0, containers - SMALL_CONTAINERS)
        self._large_values += max(0, values - SMALL_VALUES)
        if self._containers > MAX_RESPONSE_CONTAINERS:
            raise TooMuch(f"{MAX_RESPONSE_CONTAINERS:,} lists and objects")
        if self._large_containers > MAX_LARGE_CONTAINERS:
            raise TooMuch(f"{MAX_LARGE_CONTAINERS:,} lists and objects in large events")
        if self._large_values > MAX_LARGE_VALUES:
            raise TooMuch(f"{MAX_LARGE_VALUES:,} values in large events")


class ContentCount:
    """Counts what the deltas of one response contain: it is joined, written, counted and stored at its end.

    Args:
        max_output_tokens: the output limit of the model call.
    """

    def __init__(self, max_output_tokens: int | None) -> None:
        limit = MAX_TEXT if max_output_tokens is None else TEXT_OF_TOKEN * max_output_tokens
        self._max_text = min(MAX_TEXT, max(SHORT_TEXT, limit))
        self._text = 0

    def add(self, delta: ModelOutputDelta) -> None:
        """Counts a delta.

        Raises:
            TooMuch: if the response has too much text, too many tool calls or too long names.
        """
        match delta:
            case TextDelta(text=text) | ThoughtDelta(text=text) | FinishedDelta(provider_reason=text):
                self._text += len(text)
            case ToolCallDelta():
                self._text += len(delta.id or "") + len(delta.name or "") + len(delta.arguments)
                if delta.index >= MAX_TOOL_CALLS:
                    raise TooMuch(f"{MAX_TOOL_CALLS:,} tool calls")
            case StartedDelta(id=id, model=model) if len(id) + len(model) > MAX_NAMES:
                raise TooMuch(f"{MAX_NAMES:,} characters in the names of the response and its model")
        if self._text > self._max_text:
            raise TooMuch(f"{self._max_text:,} characters")
