"""Calls a model through the server."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from historyapp.client.api_call import ApiCall, Id, Stream, path_of
from historyapp.client.endpoints.contexts import RequestOptions
from historyapp.client.errors import error_of
from historyapp.wire.model_calls import DeltaOut, RecordedResponseOut
from historyapp.wire.problems import ServerFailed, ServerUnavailable

SILENCE = 600.0
"""Seconds that a model may think before it responds."""


class ModelCallOptions(RequestOptions, total=False):
    """Omitted fields use the session's settings and model."""

    provider: str
    """``openai``, ``openai_responses`` or ``anthropic``; by default chosen by the model's name."""
    max_output_tokens: int
    options: Mapping[str, Any]
    """More fields of the provider's request: ``temperature`` …"""
    expected_position: int
    """The head that you expect."""


@dataclass(slots=True)
class EventDecoder:
    """Reads the events of one model call: deltas, then ``appended``."""

    buffer: bytes = b""
    appended: bool = False

    def feed(self, chunk: bytes | None) -> Iterable[DeltaOut | RecordedResponseOut]:
        """The events that this chunk completes. None is the end of the stream.

        Raises:
            PlayheadError: the error of the event ``error``, when the model call failed.
            ServerUnavailable: when the stream ended before the response was recorded.
        """
        if chunk is None and not self.appended:
            raise ServerUnavailable("The stream ended before the response was recorded.")
        *blocks, self.buffer = (self.buffer + (chunk or b"")).split(b"\n\n")
        for block in blocks:
            lines = [line.partition(b": ") for line in block.split(b"\n")]
            fields = {name: value for name, _, value in lines}
            data = fields.get(b"data", b"null")
            try:
                match fields.get(b"event", b""):
                    case b"delta":
                        yield DeltaOut.model_validate(json.loads(data))
                    case b"appended":
                        self.appended = True
                        yield RecordedResponseOut.model_validate(json.loads(data))
                    case b"error":
                        raise error_of({"status": 500, **json.loads(data)})
            except (ValueError, TypeError, RecursionError) as error:
                raise ServerFailed(f"An event of the stream cannot be read: {error}") from error


def call_model(
    session_id: Id, *, idempotency_key: str | None = None, **options: Unpack[ModelCallOptions]
) -> Stream[DeltaOut | RecordedResponseOut]:
    """Lets the server send a new context to a model and record the response.

    Yields deltas, then a ``RecordedResponse``.

    If you end the iteration early, the model call is cancelled and nothing is recorded. A model call that has
    started is not retried, because models cost money. With an ``idempotency_key`` you can retry it yourself:
    if the response was recorded and only its end was lost, you get the ``RecordedResponse`` at once.

    Args:
        options: see :class:`historyapp.client.ModelCallOptions`.

    Raises:
        ModelCallFailed: when the provider returns no usable response.
        Conflict: while an action is in flight, or when the head has changed.
    """
    api_call = ApiCall(
        "POST",
        path_of("sessions", session_id, "calls"),
        lambda _: None,
        body=dict(options),
        idempotency_key=idempotency_key,
        repeatable=False,
        silence=SILENCE,
    )
    return Stream(api_call, lambda: EventDecoder().feed)
