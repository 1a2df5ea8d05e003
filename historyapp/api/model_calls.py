"""Calling a model: a fresh context goes out, the answer streams back and into the log."""

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import Annotated, Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Router
from pydantic import BeforeValidator, Field

from historyapp.api.answers import REPLAYED
from historyapp.api.auth import ApiRequest
from historyapp.api.calls import fingerprint, given_key, keeps_its_key
from historyapp.api.context_schemas import CONTEXT_EXAMPLE, Asked, ModelName
from historyapp.api.fields import MOST_POSITIONS, Line, Position, SessionId, integral
from historyapp.api.ledger import usage_json
from historyapp.api.problems import problem_response, raises
from historyapp.api.reading import find_session
from historyapp.api.schemas import shown
from historyapp.core.errors import Conflict
from historyapp.core.json import dump_json
from historyapp.core.text import Text
from historyapp.llm.deltas import ModelOutputDelta, RestartedDelta, SilentDelta, StartedDelta, UsageDelta
from historyapp.services.idempotency import StoredResponse, earlier, once
from historyapp.services.model_calls import ModelCall, ModelCallRequest, RecordedCompletion
from historyapp.services.prices import price_list
from historyapp.wire.problems import ModelCallFailed

router = Router(tags=["calls"])

_EVENTS = """event: delta
data: {"kind":"text","text":"The last line is dropped."}

event: appended
data: {"position":4,"number":2,"head":4,"snapshot":"%s"}

""" % CONTEXT_EXAMPLE["snapshot"]  # noqa: UP031 braces are JSON here
OutputTokens = Annotated[int, Field(ge=1, le=MOST_POSITIONS), BeforeValidator(integral)]
SILENCE = ": the model is silent\n\n"
"""A comment, which clients pass over. A server notices that nobody listens only when it says something."""
PATIENCE = 5
"""Silences, of five seconds each or between attempts, before the response begins without a word."""
_STREAM = {"text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS}}


class CallIn(Asked):
    model_config = shown({"model": "claude-sonnet-4-5", "policy": "live", "max_tokens": 8000})

    model: ModelName | None = Field(default=None, description="Without it the session's `model`.")
    provider: Line | None = Field(
        default=None,
        max_length=100,
        description="`openai`, `openai_responses` or `anthropic`; null: told by the model's name.",
    )
    max_output_tokens: OutputTokens | None = Field(
        default=None, description="Null: as much as the provider allows."
    )
    options: dict[Text, Any] = Field(
        default_factory=dict, description="Further fields of the provider's request: `temperature` …"
    )
    expected_position: Position | None = Field(
        default=None, description="The head that you saw; 409 when it is another by now."
    )

    def call(self) -> ModelCallRequest:
        return ModelCallRequest(
            context=self.wish(self.model),
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
@raises(Conflict, ModelCallFailed)
@keeps_its_key
def post_call(request: ApiRequest, session_id: SessionId, wish: CallIn) -> HttpResponseBase:
    """Server-sent events: a `delta` for each piece of the answer, then `appended`, or `error` with a problem.

    What goes wrong before the answer begins is a problem document, for the first seconds. A comment is sent
    every five seconds of silence. Closing the connection cancels the call.
    """
    key = given_key(request)
    if key is not None and (first := earlier(request.auth.project, key, fingerprint(request))):
        return _stream(iter([_event("appended", first.body)]), replayed=True)
    return _stream(_Telling(request, ModelCall(find_session(request, session_id), wish.call())))


class _Telling:
    """The events of one call. Made when the answer has begun, so that errors before it are still problems."""

    def __init__(self, request: ApiRequest, call: ModelCall) -> None:
        self._request = request
        self._appended = ""
        self._deltas = call.deltas(self._keep)
        self._held = _begun(self._deltas)
        self._events = self._told()

    def __iter__(self) -> Iterator[str]:
        return self._events

    def close(self) -> None:
        """Cancels the call, if it still goes on."""
        self._events.close()
        self._deltas.close()

    def _told(self) -> Generator[str]:
        with closing(self._deltas):
            try:
                for delta in chain(self._held, self._deltas):
                    yield SILENCE if isinstance(delta, SilentDelta) else _event("delta", _json(delta))
            except Exception as error:  # noqa: BLE001 the status has been sent: whatever it is goes into the stream
                yield _event("error", problem_response(self._request, error).content.decode())
                return
        yield _event("appended", self._appended)

    def _keep(self, recorded: RecordedCompletion) -> None:
        """Runs within the append's transaction, so that answer and key are kept together or not at all."""
        self._appended = dump_json(answered_json(recorded))
        key = given_key(self._request)
        if key is not None:
            answer = StoredResponse(200, self._appended)
            once(self._request.auth.project, key, fingerprint(self._request), lambda: answer)


def _begun(deltas: Iterator[ModelOutputDelta]) -> list[ModelOutputDelta]:
    """The first deltas, up to the first one that says something, or as long as patience lasts."""
    held = list[ModelOutputDelta]()
    for delta in deltas:
        held.append(delta)
        silences = sum(isinstance(each, SilentDelta) for each in held)
        if silences >= PATIENCE or not isinstance(
            delta, (SilentDelta, StartedDelta, UsageDelta, RestartedDelta)
        ):
            break
    return held


def _json(delta: ModelOutputDelta) -> str:
    return dump_json(delta.model_dump(exclude={"message"}))


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


def _stream(events: Any, *, replayed: bool = False) -> HttpResponseBase:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **(REPLAYED if replayed else {})}
    return StreamingHttpResponse(events, content_type="text/event-stream", headers=headers)


def answered_json(recorded: RecordedCompletion) -> dict[str, Any]:
    """Data of the event `appended`."""
    completion, appended = recorded.completion, recorded.appended
    return {
        "position": appended.head,
        "number": appended.session.steps,
        "head": appended.head,
        "snapshot": str(recorded.snapshot.pk),
        "provider": completion.started.provider,
        "model": completion.started.model,
        "finish_reason": completion.finished.reason,
        "latency": round(recorded.latency, 3),
        "usage": usage_json(completion.tokens) if completion.usage else None,
        "money": "unknown" if recorded.cost is None else recorded.cost / 1_000_000,
        "prices_as_of": price_list().as_of,
        "output": completion.output.model_dump(exclude={"kind", "raw_message", "reasoning"}),
    }
