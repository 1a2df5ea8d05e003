"""Actions on many sessions at once, and exports of many sessions as one file."""

from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Router
from pydantic import Field

from historyapp import enqueue
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.compression_requests import MODEL, STRATEGY, StrategyName
from historyapp.api.context_requests import ModelName
from historyapp.api.fields import UUID_SCHEMA, IdField, RequestBody, Tag, id_of, money
from historyapp.api.idempotency import concerns_sessions, earlier_response, handles_own_key, once_per_key
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.api.transfers import ExportFormat
from historyapp.core.errors import Conflict, NotFound
from historyapp.core.usage import MICRO
from historyapp.models import BulkAction
from historyapp.models.bulk_actions import MAX_SESSIONS
from historyapp.services.bulk.progress import BulkProgress, progress_of
from historyapp.services.bulk.start import (
    BulkRequest,
    cancel_bulk_action,
    check_cost,
    estimate_compressions,
    find_bulk_action,
    start_bulk_action,
)
from historyapp.services.bulk.zip_exports import export_zip
from historyapp.services.spending import Spender
from historyapp.wire.base import with_example
from historyapp.wire.bulk_actions import BulkActionOut, BulkEstimateOut, BulkItemOut, RefusedOut

router = Router(tags=["bulk"])

_MAX_COST = 1_000_000
_ZIP = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}
BulkId = Annotated[UUID, id_of("bulk action"), UUID_SCHEMA]
SessionIds = Annotated[list[IdField], Field(min_length=1, max_length=MAX_SESSIONS)]
MaxCost = Annotated[float, Field(ge=0, le=_MAX_COST, allow_inf_nan=False)]


class CompressionChoice(RequestBody):
    """The options of a compression."""

    sessions: SessionIds
    strategy: StrategyName | None = Field(default=None, description=STRATEGY)
    model: ModelName | None = Field(default=None, description=MODEL)


class BulkEstimateIn(CompressionChoice):
    model_config = with_example(
        {"sessions": ["0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"], "strategy": "simple_extract"}
    )


class BulkActionIn(CompressionChoice):
    model_config = with_example(
        {"action": "add_tag", "tag": "to read", "sessions": ["0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"]}
    )

    action: Literal["add_tag", "remove_tag", "archive", "unarchive", "compress"]
    tag: Tag | None = Field(default=None, description="The tag to add or remove.")
    max_cost: MaxCost | Literal["unknown"] | None = Field(
        default=None,
        description="Required if the compressions call a provider's model: the highest estimate in US "
        "dollars that you accept. `unknown` also accepts models without a known price.",
    )


class ExportsIn(RequestBody):
    model_config = with_example({"sessions": ["0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"], "format": "markdown"})

    sessions: SessionIds
    format: ExportFormat = "playhead_jsonl"


@router.post("/bulk-actions", response={202: BulkActionOut}, summary="Change many sessions")
@raises(Conflict)
@handles_own_key
def post_bulk_action(request: ApiRequest, body: BulkActionIn) -> HttpResponseBase:
    """A worker changes one session after another. `GET` the action for the outcome of each session. A
    compression that calls a provider's model needs `max_cost`: otherwise the response is 409 with the
    estimate.
    """
    if stored := earlier_response(request):
        return stored
    bulk_request, spender = _bulk_request(body, body.action, body.tag or ""), Spender(request.auth)
    bulk_estimate = None
    if body.action == "compress":  # outside the idempotency transaction, because it reads every session
        accepts_unknown = body.max_cost == "unknown"
        accepted = None if body.max_cost is None or accepts_unknown else round(float(body.max_cost) * MICRO)
        bulk_estimate = estimate_compressions(request.auth.project, bulk_request, spender)
        check_cost(bulk_estimate, accepted, accepts_unknown=accepts_unknown)

    def start() -> HttpResponse:
        action = start_bulk_action(
            request.auth.project,
            bulk_request,
            actor=actor(request),
            spender=spender,
            accepted=bulk_estimate,
        )
        concerns_sessions(request, body.sessions)
        transaction.on_commit(partial(enqueue.wake_bulk_action, action.pk), robust=True)
        return json_response(_bulk_action_out(progress_of(action)), 202)

    return once_per_key(request, start)


@router.post("/bulk-actions/estimate", response=BulkEstimateOut, summary="Estimate compressing many sessions")
@raises(Conflict)
@handles_own_key
def post_bulk_estimate(request: ApiRequest, body: BulkEstimateIn) -> HttpResponse:
    """The maximum tokens and cost. Nothing is started.

    An `Idempotency-Key` has no effect, because nothing is stored.
    """
    earlier_response(request)  # refuses a key that is malformed or was used for another request
    bulk_request = _bulk_request(body, BulkAction.Kind.COMPRESS)
    bulk_estimate = estimate_compressions(request.auth.project, bulk_request, Spender(request.auth))
    refused = [fill(RefusedOut, refusal) for refusal in bulk_estimate.refused]
    return json_response(
        fill(BulkEstimateOut, bulk_estimate, money=money(bulk_estimate.cost), refused=refused)
    )


@router.get("/bulk-actions/{bulk_id}", response=BulkActionOut, summary="Read a bulk action")
@raises(NotFound)
def read_bulk_action(request: ApiRequest, bulk_id: BulkId) -> HttpResponse:
    return json_response(_bulk_action_out(progress_of(find_bulk_action(request.auth.project, bulk_id))))


@router.delete("/bulk-actions/{bulk_id}", response={200: BulkActionOut}, summary="Cancel a bulk action")
@raises(Conflict, NotFound)
def delete_bulk_action(request: ApiRequest, bulk_id: BulkId) -> HttpResponse:
    """Completed changes are kept. Compressions that the action started are cancelled. 409 if it has ended."""
    action = find_bulk_action(request.auth.project, bulk_id)
    return json_response(_bulk_action_out(progress_of(cancel_bulk_action(action, actor=actor(request)))))


@router.post(
    "/exports", summary="Export many sessions", openapi_extra={"responses": {200: {"content": _ZIP}}}
)
@handles_own_key
def post_exports(request: ApiRequest, body: ExportsIn) -> StreamingHttpResponse:
    """One zip file, sent while it is created. Its `index.json` names the file of each session. In
    `playhead_jsonl`, forks of the same session are one file.

    An `Idempotency-Key` has no effect, because nothing is stored.
    """
    earlier_response(request)  # refuses a key that is malformed or was used for another request
    export = export_zip(request.auth.project, body.sessions, body.format, actor=actor(request))
    headers = {"Content-Disposition": f'attachment; filename="{export.name}"'}
    return StreamingHttpResponse(export.chunks, content_type="application/zip", headers=headers)


def _bulk_request(body: CompressionChoice, kind: str, tag: str = "") -> BulkRequest:
    return BulkRequest(kind, body.sessions, tag, body.strategy or "", body.model or "")


def _bulk_action_out(progress: BulkProgress) -> BulkActionOut:
    action, counts = progress.action, progress.counts
    items = [fill(BulkItemOut, item, compression=item.run) for item in progress.items]
    fields: dict[str, Any] = {name: counts[name] for name in _STATES}
    state = progress.state
    return fill(
        BulkActionOut, action, action=action.kind, total=progress.total, items=items, state=state, **fields
    )


_STATES = ("done", "unchanged", "failed", "waiting", "under_way", "cancelled")
