"""Calling a model through the server."""

from collections.abc import Mapping
from typing import Any, Unpack

from historyapp.client.call_answers import Answered, CallEvents, Delta
from historyapp.client.calls.contexts import Wish
from historyapp.client.calls.making import Id, at
from historyapp.client.description import Call, Stream, nothing

SILENCE = 600.0
"""Seconds that a model may think before it says something."""


class CallWish(Wish, total=False):
    """What is left out is as the session's settings and its model have it."""

    provider: str
    """``openai``, ``openai_responses`` or ``anthropic``; without it told by the model's name."""
    max_output_tokens: int
    options: Mapping[str, Any]
    """Further fields of the provider's request: ``temperature`` …"""
    expected_position: int
    """The head that you saw."""


def call_model(
    session_id: Id, *, idempotency_key: str | None = None, **wish: Unpack[CallWish]
) -> Stream[Delta | Answered]:
    """The server sends a model a fresh context and records its answer: first deltas, then ``Answered``.

    Breaking off the iteration cancels the call, and the history stays as it was. A call that has begun is not
    made again by itself, because models cost money. With an ``idempotency_key`` you can do so: when the
    answer was recorded and only its end got lost, the same call gives ``Answered`` at once.

    Args:
        wish: see :class:`historyapp.client.CallWish`.

    Raises:
        ModelCallFailed: when the provider gives no answer.
        Conflict: while an action is in flight, or when the head is another.
    """
    call = Call(
        "POST",
        at("sessions", session_id, "calls"),
        nothing,
        body=dict(wish),
        idempotency_key=idempotency_key,
        repeatable=False,
        silence=SILENCE,
    )
    return Stream(call, CallEvents)
