"""Starts, reads, cancels and retries compressions, and estimates their cost."""

from functools import partial
from typing import Any, Literal, TypeVar
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from historyapp import enqueue
from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.compression_requests import (
    CompressionIn,
    EstimateFilter,
    RunId,
)
from historyapp.api.cursors import PageQuery, cut_page, decode_cursor
from historyapp.api.fields import AsOf, SessionId, money
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response, json_value, response_or_304
from historyapp.core.errors import Conflict
from historyapp.core.json import dump_json
from historyapp.models import CompressionItem, CompressionRun, Session
from historyapp.services.compression.request import RunRequest, estimate
from historyapp.services.compression.start import cancel_run, find_run, retry_run, runs_of, start_run
from historyapp.services.spending import Spender
from historyapp.wire.base import ResponseModel
from historyapp.wire.compressions import (
    EstimateOut,
    RunError,
    RunItem,
    RunOut,
    RunPage,
    StartedOut,
)
from historyapp.wire.problems import DiskLow, ModelNotAllowed, SpendForbidden

router = Router(tags=["compressions"])

_LIST = "compressions"
MAX_ERRORS = 100
"""The maximum number of failed items in the response for one run."""
RunModel = TypeVar("RunModel", bound=RunItem)


class RunFilter(PageQuery):
    trial: Literal["true", "false"] = Field(
        default="false", description="`true`: include the runs of comparisons."
    )


@router.post(
    "/sessions/{session_id}/compressions", response={202: StartedOut}, summary="Compress a session's steps"
)
@raises(Conflict, DiskLow, ModelNotAllowed, SpendForbidden)
def post_compression(request: ApiRequest, session_id: SessionId, body: CompressionIn) -> HttpResponse:
    """Starts a compression in the background, or joins the active one. `GET` it for its progress."""
    run_request = RunRequest(
        body.strategy, body.from_step, body.to_step, body.model, body.options, again=body.again
    )
    started = start_run(
        request.auth.project, session_id, run_request, actor=actor(request), spender=Spender(request.auth)
    )
    wake(started.run)
    return json_response(run_out(StartedOut, started.run, joined=started.joined), 202)


@router.get("/sessions/{session_id}/compressions", response=RunPage, summary="List compressions")
def list_compressions(
    request: ApiRequest, session_id: SessionId, filter: Query[RunFilter]
) -> HttpResponseBase:
    """Newest first. With `as_of`, only compressions that were requested up to that position."""
    session = find_session(request, session_id)
    runs = runs_of(session, filter.as_of)
    if filter.trial == "false":
        runs = runs.filter(trial=False)
    if filter.cursor is not None:
        (last_id,) = decode_cursor(_LIST, filter.cursor, UUID)
        runs = runs.filter(pk__lt=last_id)
    rows = list(runs.newest_first()[: filter.limit + 1])
    page, cursor = cut_page(_LIST, rows, filter.limit, lambda run: (run.pk,))
    response = RunPage(items=[run_out(RunItem, run) for run in page], next=cursor)
    return etag_by_content(request, session, response)


@router.get(
    "/sessions/{session_id}/compressions/estimate",
    response=EstimateOut,
    summary="Estimate a compression",
)
@raises(ModelNotAllowed)
def read_estimate(
    request: ApiRequest, session_id: SessionId, filter: Query[EstimateFilter]
) -> HttpResponseBase:
    """The maximum tokens and cost. Nothing is started."""
    session = find_session(request, session_id)
    run_estimate = estimate(session, filter.run_request(), filter.as_of)
    steps = {"from_step": run_estimate.first_step, "to_step": run_estimate.last_step}
    response = fill(EstimateOut, run_estimate, **steps, money=money(run_estimate.cost))
    return etag_by_content(request, session, response)


@router.get(
    "/sessions/{session_id}/compressions/{run_id}", response=RunOut, summary="Read a compression's progress"
)
def read_compression(
    request: ApiRequest, session_id: SessionId, run_id: RunId, as_of: AsOf = None
) -> HttpResponseBase:
    session = find_session(request, session_id)
    return etag_by_content(request, session, _run_with_errors(find_run(session, run_id, as_of)))


@router.delete(
    "/sessions/{session_id}/compressions/{run_id}", response={200: RunOut}, summary="Cancel a compression"
)
@raises(Conflict)
def cancel_compression(request: ApiRequest, session_id: SessionId, run_id: RunId) -> HttpResponse:
    """Running model calls finish, and their summaries are kept. No new calls start. 409 if it has ended."""
    run = find_run(find_session(request, session_id), run_id)
    return json_response(_run_with_errors(cancel_run(run, actor=actor(request))))


@router.post(
    "/sessions/{session_id}/compressions/{run_id}/retries",
    response={202: RunOut},
    summary="Retry a compression",
)
@raises(Conflict, DiskLow, ModelNotAllowed, SpendForbidden)
def post_retry(request: ApiRequest, session_id: SessionId, run_id: RunId) -> HttpResponse:
    """Repeats the items that failed, or resumes a cancelled compression. 409 if nothing is left to do."""
    run = find_run(find_session(request, session_id), run_id)
    run = retry_run(run, actor=actor(request), spender=Spender(request.auth))
    wake(run)
    return json_response(_run_with_errors(run), 202)


def run_out(model: type[RunModel], run: CompressionRun, **fields: Any) -> RunModel:
    """The run as a response, with the additional fields of the model."""
    prices = run.prices_as_of or None
    return fill(model, run, money=money(run.cost), prices_as_of=prices, **fields)


def _run_with_errors(run: CompressionRun) -> RunOut:
    failed = run.items.filter(state=CompressionItem.State.FAILED).order_by("number")[:MAX_ERRORS]
    errors = [
        RunError(from_step=item.first_step, to_step=item.last_step, error=item.error) for item in failed
    ]
    return run_out(RunOut, run, errors=errors)


def etag_by_content(request: ApiRequest, session: Session, response: ResponseModel) -> HttpResponseBase:
    """The response with an ETag of its content, because a run can change while its session does not."""
    content = json_value(response)
    return response_or_304(request, session, lambda: content, state=dump_json(content))


def wake(run: CompressionRun) -> None:
    """Wakes workers for the run once its transaction is committed."""
    if run.active:
        transaction.on_commit(partial(enqueue.wake, run.pk), robust=True)
