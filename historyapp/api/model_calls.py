"""Calls a model: sends it a new context, and streams the response to the client and into the log."""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import Annotated, Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Router
from pydantic import BeforeValidator, Field

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.context_requests import ContextBody, ModelName
from historyapp.api.fields import MAX_POSITIONS, Line, Position, SessionId, integral, json_limit, money
from historyapp.api.idempotency import fingerprint, handles_own_key
from historyapp.api.ledger import usage_fields
from historyapp.api.problems import problem_response, raises
from historyapp.api.responses import REPLAYED, json_value
from historyapp.core.errors import Conflict
from historyapp.core.json import dump_json
from historyapp.core.text import Text
from historyapp.llm.deltas import ModelOutputDelta, RestartedDelta, SilentDelta, StartedDelta, UsageDelta
from historyapp.services.idempotency import StoredResponse, find_stored_response
from historyapp.services.leaving_clients import has_client_left
from historyapp.services.model_calls import (
    ModelCall,
    ModelCallRequest,
    RecordedCompletion,
    room_for_context,
)
from historyapp.services.prices import price_list
from historyapp.services.running_requests import RunningRequest
from historyapp.services.spending import Spender
from historyapp.wire import examples
from historyapp.wire.base import with_example
from historyapp.wire.ledger import UsageOut
from historyapp.wire.model_calls import OutputOut, RecordedResponseOut
from historyapp.wire.problems import CapReached, ModelCallFailed, ModelNotAllowed, SpendForbidden

router = Router(tags=["calls"])

_EVENTS = """event: delta
data: {"kind":"text","text":"The last line is dropped."}

event: appended
data: {"position":4,"number":2,"head":4,"snapshot":"%s"}

""" % examples.CONTEXT["snapshot"]  # noqa: UP031 braces are JSON here
MAX_OPTIONS_SIZE = 1_000_000
"""Characters of the options as compact JSON in ASCII. They stay in memory until the call ends."""
Options = Annotated[
    dict[Text, Any],
    json_limit(MAX_OPTIONS_SIZE, "have more than {limit} characters as JSON. Send fewer or shorter options"),
]
OutputTokens = Annotated[int, Field(ge=1, le=MAX_POSITIONS), BeforeValidator(integral)]
SILENCE = ": the model is silent\n\n"
"""A comment, which clients ignore. A server notices a closed connection only when it sends."""
MAX_WAIT = 25.0
MAX_WITHOUT_CONTENT = 100
"""After this many seconds, or this many deltas, the response starts without content, so that a closed
connection is noticed.
"""
_NO_CONTENT = (SilentDelta, StartedDelta, UsageDelta, RestartedDelta)
_UNBUFFERED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_STREAM = {"text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS}}


class ModelCallIn(ContextBody):
    model_config = with_example({"model": "claude-sonnet-4-5", "policy": "live", "max_tokens": 8000})

    model: ModelName | None = Field(default=None, description="Default: the session's `model`.")
    provider: Line | None = Field(
        default=None,
        max_length=100,
        description="`openai`, `openai_responses` or `anthropic`; null: chosen by the model's name.",
    )
    max_output_tokens: OutputTokens | None = Field(
        default=None, description="Null: as much as the provider allows."
    )
    options: Options = Field(
        default_factory=dict,
        description="More fields of the provider's request: `temperature` … At most "
        f"{MAX_OPTIONS_SIZE:,} characters as compact JSON in ASCII.",
    )
    expected_position: Position | None = Field(
        default=None, description="The head that you expect; 409 if it has changed."
    )

    def model_call_request(self) -> ModelCallRequest:
        return ModelCallRequest(
            context=self.options_for(self.model),
            provider=self.provider,
            max_output_tokens=self.max_output_tokens,
            options=self.options,
            expected_position=self.expected_position,
        )


@router.post(
    "/sessions/{session_id}/calls",
    summary="Call a model",
    openapi_extra={"responses": {200: {"content": _STREAM}}},
)
@raises(CapReached, Conflict, ModelCallFailed, ModelNotAllowed, SpendForbidden)
@handles_own_key
def post_call(request: ApiRequest, session_id: SessionId, body: ModelCallIn) -> HttpResponseBase:
    """Server-sent events: a `delta` for each piece of the response, then `appended` or `error`.

    An error before the model's response starts is returned as a problem document. A comment is sent every
    five seconds without a delta. Closing the connection cancels the model call.

    The key needs the scope `spend`.
    """
    running = None
    if (key := request.headers.get("Idempotency-Key")) is not None:
        project, digest = request.auth.project, fingerprint(request)
        if first := find_stored_response(project, key, digest):
            return StreamingHttpResponse(
                iter([_event("appended", first.body or "")]),
                content_type="text/event-stream",
                headers={**_UNBUFFERED, **REPLAYED},
            )
        running = RunningRequest(project, key, digest, session_id)
    Spender(request.auth).check("This request")
    with room_for_context(request.auth.project.pk, [body.options, body.tools, body.live_screen]):
        model_call = ModelCall(find_session(request, session_id), body.model_call_request(), request.auth.pk)
    events = ModelCallEvents(request, model_call, running)
    return StreamingHttpResponse(events, content_type="text/event-stream", headers=_UNBUFFERED)


class ModelCallEvents:
    """The server-sent events of a model call.

    The constructor waits until the model's response starts, so that an earlier error becomes a problem
    document.
    """

    def __init__(
        self, request: ApiRequest, model_call: ModelCall, running: RunningRequest | None = None
    ) -> None:
        """``running``: the request, if it has an ``Idempotency-Key``."""
        self._request, self._running = request, running
        self._appended = ""
        deltas = model_call.deltas(self._record)
        self._deltas = running.watch(deltas) if running else deltas
        self._first_deltas = _first(self._deltas)
        self._events = self._stream()

    def __iter__(self) -> Iterator[str]:
        return self._events

    def close(self) -> None:
        """Cancels the model call if it has not ended."""
        self._events.close()
        self._deltas.close()

    def _stream(self) -> Generator[str]:
        with closing(self._deltas):
            try:
                for delta in chain(self._first_deltas, self._deltas):
                    if isinstance(delta, SilentDelta):
                        yield SILENCE
                    else:
                        # Written as received: validating the model's text again would only take time.
                        yield _event("delta", dump_json(delta.model_dump(exclude={"message"})))
            except Exception as error:  # noqa: BLE001 the status is sent already, so the stream has the error
                yield _event("error", problem_response(self._request, error).content.decode())
                return
        yield _event("appended", self._appended)

    def _record(self, recorded: RecordedCompletion) -> None:
        """Runs within the append's transaction, so that response and key are both stored, or neither is."""
        completion, head = recorded.completion, recorded.appended.head
        output = completion.output.model_dump(exclude={"kind", "raw_message", "reasoning"})
        content = RecordedResponseOut(
            position=head,
            number=recorded.appended.session.steps,
            head=head,
            snapshot=recorded.snapshot.pk,
            provider=completion.started.provider,
            model=completion.started.model,
            finish_reason=completion.finished.reason,
            latency=round(recorded.latency, 3),
            usage=UsageOut(**usage_fields(completion.tokens)) if completion.usage else None,
            money=money(recorded.cost),
            prices_as_of=price_list().as_of,
            output=OutputOut(**output),
        )
        self._appended = dump_json(json_value(content))
        if self._running is not None:
            session = recorded.appended.session.pk
            self._running.store(StoredResponse(200, self._appended, frozenset([session])))


def _first(deltas: Iterable[ModelOutputDelta]) -> list[ModelOutputDelta]:
    """The deltas up to the first content or to the limits, or until the client has left. Of each kind, only
    the newest is kept: a provider may send usage without end.
    """
    first, end = dict[str, ModelOutputDelta](), time.monotonic() + MAX_WAIT
    for number, delta in enumerate(deltas, start=1):
        first.pop(delta.kind, None)
        first[delta.kind] = delta
        is_late = number >= MAX_WITHOUT_CONTENT or time.monotonic() >= end
        if is_late or has_client_left.get()() or not isinstance(delta, _NO_CONTENT):
            break
    return list(first.values())


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
