"""What the loopback responds with: a model's response, or one of the failures of providers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal


@dataclass(frozen=True)
class Call:
    """One tool call; ``arguments`` is the JSON text, or another text that a model wrote instead."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Answer:
    """A model's response, independent of the provider."""

    text: str = ""
    thoughts: str = ""
    opaque: str = ""
    """The signature of the thoughts, or the encrypted reasoning."""
    redacted: str = ""
    """Anthropic: a block of thinking that nobody may read."""
    calls: tuple[Call, ...] = ()
    refusal: str = ""
    reason: str = ""
    """The finish reason in the provider's word, where it is not the usual one."""
    cached: int = 0
    """Input tokens that came from the provider's cache."""
    sizes: tuple[int, ...] = (16,)
    """Characters in each piece of the stream, over and over."""
    pause: float = 0
    """Seconds before each event."""

    def pieces(self, text: str) -> Iterator[str]:
        start = 0
        for size in cycle(self.sizes):
            if start >= len(text):
                return
            yield text[start : start + size]
            start += size


@dataclass(frozen=True)
class Refusal:
    """An error instead of a response, in the provider's shape."""

    status: int
    message: str = "The server had an error while processing your request."
    type: str = "api_error"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Any bytes, with status 200 unless another is named."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """A stream that fails ``after`` a number of events. ``how`` is the fault.

    ``cut``: the connection ends. ``end``: the stream ends as if it were complete. ``garbage``: half a JSON
    object. ``error``: the provider reports one in the stream. ``hang``: nothing more. ``ping``: only pings.
    """

    how: Literal["cut", "end", "garbage", "error", "hang", "ping"]
    after: int = 0
    answer: Answer = Answer(text="This sentence will not be finished, whatever happens.")
    error: Refusal = Refusal(529, "Overloaded", "overloaded_error")


Step = Answer | Refusal | Raw | Broken
