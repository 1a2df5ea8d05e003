"""What comes back while the server calls a model: server-sent events, typed."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from historyapp.client.answers import Action, Answer, ToolCall
from historyapp.client.errors import ServerFailed, ServerUnavailable, error_of
from historyapp.client.ledger_answers import Usage
from historyapp.core.text import Text


class Delta(Answer):
    """A piece of the answer. ``restarted`` means: forget the pieces before this one."""

    kind: str
    """``started``, ``text``, ``thought``, ``tool_call``, ``usage``, ``finished`` or ``restarted``."""
    text: Text = ""
    """Of ``text`` and ``thought``."""
    index: int | None = None
    """Of ``tool_call``: which call of the answer."""
    id: Text | None = None
    name: Text | None = None
    arguments: Text = ""
    """Of ``tool_call``: the next piece of its JSON text."""


class Output(Answer):
    thoughts: Text | dict[Text, Any] | None
    text: Text
    tool_calls: list[ToolCall]
    use_tool: Action | None


class Answered(Answer):
    """The whole answer, in the log."""

    kind: str = "appended"
    """Tells it from the pieces."""
    position: int
    number: int
    """The step's number in the live history."""
    head: int
    snapshot: UUID
    """Of the context that was sent."""
    provider: str
    model: str
    finish_reason: str
    latency: float
    """Seconds from the request to the end of the answer."""
    usage: Usage | None
    money: float | str
    """US dollars; ``unknown`` where the model's price is."""
    prices_as_of: str = ""
    """The date of the price list."""
    output: Output


class CallEvents:
    """Reads the events of one call: deltas, and ``appended`` as the last one."""

    def __init__(self) -> None:
        self._rest = b""
        self._appended = False

    def feed(self, chunk: bytes) -> Iterable[Delta | Answered]:
        """The events that are complete now.

        Raises:
            PlayheadError: when the call failed, as the event ``error`` has it.
        """
        *blocks, self._rest = (self._rest + chunk).split(b"\n\n")
        for block in blocks:
            lines = [line.partition(b": ") for line in block.split(b"\n")]
            fields = {name: value for name, _, value in lines}
            yield from self._event(fields.get(b"event", b""), fields.get(b"data", b"null"))

    def finish(self) -> None:
        """Raises:
        ServerUnavailable: when the stream ended before the answer was in the log.
        """
        if not self._appended:
            raise ServerUnavailable({"detail": "The stream ended before the answer was in the log."})

    def _event(self, name: bytes, data: bytes) -> Iterable[Delta | Answered]:
        try:
            match name:
                case b"delta":
                    yield Delta.model_validate(json.loads(data))
                case b"appended":
                    self._appended = True
                    yield Answered.model_validate(json.loads(data))
                case b"error":
                    raise error_of({"status": 500, **json.loads(data)})
        except (ValueError, TypeError, RecursionError) as error:
            raise ServerFailed({"detail": f"The stream holds an event that is none: {error}"}) from error
