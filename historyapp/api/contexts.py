"""The history as text, as messages, and as the context for the next model call."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, Field
from uuid_utils.compat import uuid7

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.context_requests import (
    FORMAT,
    MAX_TOKENS_DESCRIPTION,
    MODEL,
    POLICY,
    ContextIn,
    FormatName,
    ModelName,
    PolicyName,
    context_json,
)
from historyapp.api.fields import AsOf, QueryPosition, QueryStep, SessionId
from historyapp.api.idempotency import earlier_response, handles_own_key, once_per_key
from historyapp.api.problems import raises
from historyapp.api.responses import json_response, response_or_304
from historyapp.core.errors import Conflict, Invalid
from historyapp.core.messages import episodic_messages
from historyapp.core.progress import compile_progress
from historyapp.core.rendering import as_list, as_paragraphs
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.sliding_history import sliding_history
from historyapp.core.tokens import count_tokens
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.services.contexts import RequestedContext, model_of
from historyapp.services.corrections import correction_of
from historyapp.services.disk_space import check_disk_space
from historyapp.services.snapshots import record_snapshot, serve_context
from historyapp.services.spending import Spender
from historyapp.services.token_counts import count_by_provider
from historyapp.wire.contexts import ContextOut, MessagesOut, TextOut
from historyapp.wire.problems import DiskLow, ModelCallFailed, ModelNotAllowed, SpendForbidden

router = Router(tags=["contexts"])

MAX_STEPS = 10_000
"""The maximum number of steps in one text, which is built in memory."""
DEFAULT_BUDGET = 1024
"""The token budget of `/messages` and compiled progress if neither the request nor the session sets one."""
_STYLES: dict[str, Callable[[Any], str]] = {"list": as_list, "paragraph": as_paragraphs}


class ProgressFilter(BaseModel):
    style: Literal["list", "paragraph", "compiled"] = "list"
    start: QueryStep | None = Field(
        default=None,
        alias="from",
        description="First step, for `list` and `paragraph`; negative numbers count from the end.",
    )
    stop: QueryStep | None = Field(default=None, alias="to", description="Last step, included.")
    max_tokens: QueryPosition | None = Field(
        default=None, description="Budget of `compiled` in tokens. Default: the session's setting."
    )
    as_of: AsOf = None


@router.get("/sessions/{session_id}/progress", response=TextOut, summary="The history as text")
def read_progress(
    request: ApiRequest, session_id: SessionId, filter: Query[ProgressFilter]
) -> HttpResponseBase:
    """`list`: a line for each step; `paragraph`: long forms; `compiled`: summaries within a token budget."""
    session = find_session(request, session_id)

    def make_content() -> TextOut:
        history = History(session, filter.as_of)
        if filter.style == "compiled":
            if filter.start is not None or filter.stop is not None:
                raise Invalid("The style compiled selects the steps itself. Remove from and to.")
            settings = _settings(session, filter.max_tokens)
            return TextOut(text=compile_progress(history, settings, count_tokens))
        if filter.max_tokens is not None:
            raise Invalid(f"The style {filter.style} has no budget. Remove max_tokens.")
        steps = history.slice(filter.start, filter.stop)
        if len(steps) > MAX_STEPS:
            detail = (
                f"The text would have {len(steps):,} steps; at most {MAX_STEPS:,} are possible. "
                "Narrow the range with from and to."
            )
            raise Invalid(detail, steps=history.steps)
        episodes = history.episodes(steps.start, steps.stop - 1) if steps else []
        return TextOut(text=_STYLES[filter.style](episodes))

    return response_or_304(request, session, make_content)


@router.get("/sessions/{session_id}/history", response=TextOut, summary="Summaries, then the newest steps")
def read_history(request: ApiRequest, session_id: SessionId, as_of: AsOf = None) -> HttpResponseBase:
    """The sliding-window history: summaries of older steps, then the newest `window_size` in detail.

    An older step without a summary is shown in one line.
    """
    session = find_session(request, session_id)
    window = load_settings(session.settings).window_size
    return response_or_304(
        request, session, lambda: TextOut(text=sliding_history(History(session, as_of), window))
    )


@router.get("/sessions/{session_id}/messages", response=MessagesOut, summary="The history as messages")
def read_messages(
    request: ApiRequest, session_id: SessionId, max_tokens: QueryPosition | None = None, as_of: AsOf = None
) -> HttpResponseBase:
    """The context that the policy `episodic` chooses, independent of any provider's format."""
    session = find_session(request, session_id)

    def make_content() -> dict[str, Any]:
        context = episodic_messages(History(session, as_of), _settings(session, max_tokens), count_tokens)
        messages = []
        for message in context.messages:  # each only with the fields of its role
            fields: dict[str, Any] = {"role": message.role, "content": message.content}
            if message.tool_calls is not None:
                fields["tool_calls"] = message.tool_calls
            if message.role == "tool":
                fields |= {"tool_call_id": message.tool_call_id, "is_error": message.is_error}
            messages.append(fields)
        return {"messages": messages, "manifest": context.manifest.model_dump()}

    return response_or_304(request, session, make_content)


class ContextFilter(BaseModel):
    policy: PolicyName | None = Field(default=None, description=POLICY)
    format: FormatName | None = Field(default=None, description=FORMAT)
    model: ModelName | None = Field(default=None, description=MODEL)
    max_tokens: QueryPosition | None = Field(default=None, description=MAX_TOKENS_DESCRIPTION)
    as_of: AsOf = None


@router.get("/sessions/{session_id}/contexts", response=ContextOut, summary="Preview a context")
def read_context(
    request: ApiRequest, session_id: SessionId, filter: Query[ContextFilter]
) -> HttpResponseBase:
    """The context for the next model call; with `as_of`, the context at that position.

    Nothing is recorded.
    """
    session = find_session(request, session_id)
    options = RequestedContext(filter.policy, filter.format, filter.model, as_of=filter.as_of)
    if filter.max_tokens is not None:
        options = replace(options, max_tokens=filter.max_tokens)
    correction = correction_of(session.project_id, model_of(session, options))
    state = str(correction and correction.calls)
    return response_or_304(
        request, session, lambda: context_json(serve_context(session, options)), state=state
    )


@router.post(
    "/sessions/{session_id}/contexts", response={200: ContextOut, 201: ContextOut}, summary="Build a context"
)
@raises(Conflict, DiskLow, ModelCallFailed, ModelNotAllowed, SpendForbidden)
@handles_own_key
def post_context(request: ApiRequest, session_id: SessionId, body: ContextIn) -> HttpResponseBase:
    """The context for the next model call. 201: a snapshot of it was recorded. 200 with `record: false`."""
    if stored := earlier_response(request):
        return stored
    if body.record:
        check_disk_space("Send `record: false` to get the context without a snapshot.")
    served = serve_context(find_session(request, session_id), body.options_for(body.model, body.as_of))
    counted = None
    if body.count:
        Spender(request.auth).check("The count", "is made by the provider with the operator's key")
        counted = count_by_provider(request.auth.project, served.built)
    if not body.record:
        return json_response(context_json(served, counted=counted))

    id = uuid7()
    # Made before the transaction, because it may have many MB.
    response = json_response(context_json(served, counted=counted, snapshot=str(id)), 201)

    def record() -> HttpResponse:
        record_snapshot(served, counted=counted, id=id)
        return response

    return once_per_key(request, record)


def _settings(session: Session, max_tokens: int | None) -> SessionSettings:
    """The session's settings, with the request's budget, otherwise the session's, otherwise
    ``DEFAULT_BUDGET``.
    """
    settings = load_settings(session.settings)
    if max_tokens is None and settings.max_tokens == "window":
        max_tokens = DEFAULT_BUDGET
    return settings if max_tokens is None else settings.model_copy(update={"max_tokens": max_tokens})
