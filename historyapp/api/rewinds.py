"""Rewinds, the takes that they cut off, undoing a rewind, and forks."""

from typing import Annotated

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import (
    AppendRequest,
    IdField,
    PathPosition,
    Position,
    RequestBody,
    SessionId,
    StepNumber,
    Title,
)
from historyapp.api.idempotency import concerns_sessions, is_too_long_to_keep
from historyapp.api.problems import raises
from historyapp.api.responses import LongResponse, fill, json_response, response_or_304
from historyapp.api.sessions import CurrentTexts, session_out
from historyapp.core.errors import Conflict
from historyapp.core.text import Text
from historyapp.models.history import History
from historyapp.models.takes import rewinds
from historyapp.services.rewinds import (
    MAX_REASON,
    RewindResult,
    Target,
    fork,
    fork_position,
    rewind,
    undo_rewind,
)
from historyapp.wire.base import RangeOut, with_example
from historyapp.wire.problems import DiskLow
from historyapp.wire.rewinds import RewindOut, RewindPage, TakeOut
from historyapp.wire.sessions import SessionOut

router = Router(tags=["rewinds"])

_LIST = "rewinds"
MAX_RANGES = 1_000
"""The maximum number of ranges of one rewind in a response."""
MAX_PAGE_RANGES = 10_000
"""A page of rewinds ends after this many ranges."""


class RewindIn(AppendRequest):
    """Give one of `episodes`, `to_step`, `to_position`. Without them, only the step in flight is dropped."""

    model_config = with_example({"to_step": 3, "reason": "the edit broke other tests"})

    episodes: StepNumber | None = Field(
        default=None, description="Drop the step in flight, then this many finished steps."
    )
    to_step: StepNumber | None = Field(
        default=None,
        description="Continue after this step; 0: before step 1. Negative numbers count from the end.",
    )
    to_position: Position | None = Field(
        default=None, description="Continue after this position, which may be in a take."
    )
    reason: Annotated[Text, Field(max_length=MAX_REASON)] = ""


_ONLY_IN_FLIGHT = RewindIn()


@router.post("/sessions/{session_id}/rewinds", response={201: RewindOut}, summary="Rewind")
@raises(Conflict, DiskLow)
def post_rewind(
    request: ApiRequest, session_id: SessionId, target: RewindIn = _ONLY_IN_FLIGHT
) -> HttpResponse:
    """Nothing is deleted: the entries that are cut off stay as a take."""
    result = rewind(
        request.auth.project,
        session_id,
        Target(target.episodes, target.to_step, target.to_position),
        reason=target.reason,
        actor=actor(request),
        expected_position=target.expected_position,
    )
    return _rewind_response(result)


@router.post(
    "/sessions/{session_id}/rewinds/{position}/undo", response={201: RewindOut}, summary="Undo a rewind"
)
@raises(Conflict, DiskLow)
def post_undo(request: ApiRequest, session_id: SessionId, position: PathPosition) -> HttpResponse:
    """Appends another rewind, which restores the history as it was before this rewind."""
    result = undo_rewind(request.auth.project, session_id, position, actor=actor(request))
    return _rewind_response(result)


@router.get("/sessions/{session_id}/rewinds", response=RewindPage, summary="List rewinds")
def list_rewinds(request: ApiRequest, session_id: SessionId, filter: Query[PageQuery]) -> HttpResponseBase:
    """Rewinds, newest first, each with the take that it cut off. A page ends after 10,000 ranges."""
    session = find_session(request, session_id)

    def make_content() -> RewindPage:
        session.lineage(filter.as_of)  # refuses a position beyond the head
        up_to = filter.as_of
        if filter.cursor is not None:
            (up_to,) = decode_cursor(_LIST, filter.cursor, int)
        rows = rewinds(session, up_to, filter.limit + 1)[::-1]
        items, ranges = list[TakeOut](), 0
        for entry, before, after in rows[: filter.limit]:
            items.append(
                TakeOut(
                    position=entry.position,
                    to_position=entry.body["to_position"],
                    reason=entry.body.get("reason"),
                    actor=entry.body.get("actor"),
                    created_at=entry.created_at,
                    cut_off=RangeOut.all_of(before.branch_off(after, MAX_RANGES)),
                )
            )
            ranges += len(items[-1].cut_off)
            if ranges >= MAX_PAGE_RANGES:
                break
        cursor = encode_cursor(_LIST, items[-1].position - 1) if len(rows) > len(items) else None
        return RewindPage(items=items, next=cursor)

    return response_or_304(request, session, make_content)


def _rewind_response(result: RewindResult) -> HttpResponse:
    cut_off = RangeOut.all_of(result.cut_off(MAX_RANGES))
    return json_response(fill(RewindOut, result, cut_off=cut_off, head=result.session.head), 201)


class ForkIn(RequestBody):
    """Give `at_step` or `at_position`. Without either, the whole history is shared."""

    model_config = with_example({"at_step": 3, "title": "Fix the parser, the other way"})

    at_step: StepNumber | None = Field(
        default=None,
        description="Share up to the end of this step; 0: nothing. Negative numbers count from the end.",
    )
    at_position: Position | None = Field(default=None, description="Share up to this position.")
    title: Title = ""
    id: IdField | None = Field(default=None, description="Null: Playhead generates one.")


_WHOLE_HISTORY = ForkIn()


@router.post(
    "/sessions/{session_id}/forks", response={201: SessionOut}, summary="Fork a session", tags=["forks"]
)
@raises(Conflict, DiskLow)
def post_fork(
    request: ApiRequest, session_id: SessionId, point: ForkIn = _WHOLE_HISTORY
) -> HttpResponse | LongResponse:
    """Copies nothing: the new session refers to the entries that it shares."""
    parent = find_session(request, session_id)
    position = fork_position(parent, at_step=point.at_step, at_position=point.at_position)
    texts = CurrentTexts.of(History(parent, position))
    is_long = is_too_long_to_keep(*texts)
    child = fork(
        request.auth.project,
        session_id,
        at_position=position,
        title=point.title,
        actor=actor(request),
        fork_id=point.id,
    )
    concerns_sessions(request, [child.pk])
    if is_long:
        return LongResponse(201, lambda: session_out(History(child), texts))
    return json_response(session_out(History(child), texts), 201)
