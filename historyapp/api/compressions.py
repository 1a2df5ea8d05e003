"""Compression: starting runs, watching, cancelling and retrying them; estimates and comparisons."""

from functools import partial
from typing import Any, Literal
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply, reply_unless_known
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.compression_schemas import (
    ComparisonId,
    ComparisonIn,
    ComparisonOut,
    CompressionIn,
    EstimateFilter,
    EstimateOut,
    RunId,
    RunOut,
    RunPage,
    StartedOut,
    comparison_json,
    error_json,
    estimate_json,
    run_json,
)
from historyapp.api.cursors import Cursor, Limit, decode_id, encode_cursor
from historyapp.api.fields import SessionId
from historyapp.api.problems import raises
from historyapp.api.reading import AsOf, find_session
from historyapp.core.errors import Conflict
from historyapp.core.json import dump_json
from historyapp.models import CompressionRun, Session
from historyapp.services.compression.start import (
    cancel_run,
    estimate,
    failed_items,
    find_comparison,
    find_run,
    retry_run,
    runs_of,
    start_comparison,
    start_run,
)

router = Router(tags=["compressions"])

_LIST = "compressions"


class RunFilter(BaseModel):
    trial: Literal["true", "false"] = Field(
        default="false", description="`true`: the sides of comparisons too."
    )
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.post(
    "/sessions/{session_id}/compressions", response={202: StartedOut}, summary="Compress a session's steps"
)
@raises(Conflict)
def post_compression(request: ApiRequest, session_id: SessionId, wish: CompressionIn) -> HttpResponse:
    """Starts a run in the background, or joins the one that is under way. Its address tells how far it is."""
    started = start_run(request.auth.project, session_id, wish.wish(), actor=actor(request))
    _wake(started.run)
    return reply({**run_json(started.run), "joined": started.joined}, 202)


@router.get("/sessions/{session_id}/compressions", response=RunPage, summary="List compressions")
def list_compressions(request: ApiRequest, session_id: SessionId, filter: Query[RunFilter]) -> HttpResponse:
    """The newest first. With `as_of` those that had been asked for by then."""
    session = find_session(request, session_id)
    return _reply_while_the_same(request, session, _page(session, filter))


def _page(session: Session, filter: RunFilter) -> dict[str, Any]:
    runs = runs_of(session, filter.as_of)
    if filter.trial == "false":
        runs = runs.filter(trial=False)
    if filter.cursor is not None:
        runs = runs.filter(pk__lt=decode_id(_LIST, filter.cursor))
    found = list(runs.newest_first()[: filter.limit + 1])
    page = found[: filter.limit]
    cursor = encode_cursor(_LIST, str(page[-1].pk)) if len(found) > len(page) else None
    return {"items": [run_json(run) for run in page], "next": cursor}


@router.get(
    "/sessions/{session_id}/compressions/estimate",
    response=EstimateOut,
    summary="What a compression would cost",
)
def read_estimate(request: ApiRequest, session_id: SessionId, filter: Query[EstimateFilter]) -> HttpResponse:
    """Tokens and money at most, before anything is started."""
    session = find_session(request, session_id)
    return _reply_while_the_same(
        request, session, estimate_json(estimate(session, filter.wish(), filter.as_of))
    )


@router.get(
    "/sessions/{session_id}/compressions/{run_id}", response=RunOut, summary="Read a compression's progress"
)
def read_compression(
    request: ApiRequest, session_id: SessionId, run_id: RunId, as_of: AsOf = None
) -> HttpResponse:
    session = find_session(request, session_id)
    return _reply_while_the_same(request, session, _run(find_run(session, run_id, as_of)))


@router.delete(
    "/sessions/{session_id}/compressions/{run_id}", response={200: RunOut}, summary="Cancel a compression"
)
@raises(Conflict)
def cancel_compression(request: ApiRequest, session_id: SessionId, run_id: RunId) -> HttpResponse:
    """What is under way is finished and kept: it is paid for. Nothing is begun after that. 409 once ended."""
    run = find_run(find_session(request, session_id), run_id)
    return reply(_run(cancel_run(run, actor=actor(request))))


@router.post(
    "/sessions/{session_id}/compressions/{run_id}/retries",
    response={202: RunOut},
    summary="Retry what failed",
)
@raises(Conflict)
def post_retry(request: ApiRequest, session_id: SessionId, run_id: RunId) -> HttpResponse:
    """Takes up what failed, or what a cancelled run had left. 409 when nothing is left."""
    run = retry_run(find_run(find_session(request, session_id), run_id), actor=actor(request))
    _wake(run)
    return reply(_run(run), 202)


@router.post(
    "/sessions/{session_id}/comparisons", response={202: ComparisonOut}, summary="Compare two strategies"
)
@raises(Conflict)
def post_comparison(request: ApiRequest, session_id: SessionId, wish: ComparisonIn) -> HttpResponse:
    """Both summarise the same steps, 50 at most. Nothing of it stands for the steps."""
    runs = start_comparison(request.auth.project, session_id, wish.wishes(), actor=actor(request))
    for run in runs:
        _wake(run)
    return reply(comparison_json(runs), 202)


@router.get(
    "/sessions/{session_id}/comparisons/{comparison_id}", response=ComparisonOut, summary="Read a comparison"
)
def read_comparison(
    request: ApiRequest, session_id: SessionId, comparison_id: ComparisonId, as_of: AsOf = None
) -> HttpResponse:
    session = find_session(request, session_id)
    return _reply_while_the_same(
        request, session, comparison_json(find_comparison(session, comparison_id, as_of))
    )


def _run(run: CompressionRun) -> dict[str, Any]:
    return {**run_json(run), "errors": [error_json(item) for item in failed_items(run)]}


def _reply_while_the_same(request: ApiRequest, session: Session, data: dict[str, Any]) -> HttpResponse:
    """A run goes on while its session stays as it is: the tag is that of the whole answer."""
    return reply_unless_known(request, session, lambda: data, besides=dump_json(data))


def _wake(run: CompressionRun) -> None:
    """Calls workers to the run once it is stored."""
    if run.active:
        transaction.on_commit(partial(_call_workers, run.pk), robust=True)


def _call_workers(run: UUID) -> None:
    from historyapp import tasks  # Celery is loaded by the first compression, not by the server's start

    tasks.wake(run)
