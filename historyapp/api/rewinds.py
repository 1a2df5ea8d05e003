"""Going back: rewinds, what they cut off, and undoing them."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply, reply_unless_known
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.fields import PathPosition, Position, SessionId, StepNumber, iso
from historyapp.api.problems import raises
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Expecting, Page, Range, ranges, shown
from historyapp.core.errors import Conflict
from historyapp.core.lineage import Lineage
from historyapp.core.text import Text
from historyapp.models import Entry, Session
from historyapp.models.takes import rewinds
from historyapp.services.rewinds import RewindResult, Target, rewind, undo_rewind
from historyapp.wire import examples

router = Router(tags=["rewinds"])

_LIST = "rewinds"


class RewindIn(Expecting):
    """One of `episodes`, `to_step` and `to_position`, or none: then only the step in flight goes."""

    model_config = shown({"to_step": 3, "reason": "the edit broke other tests"})

    episodes: StepNumber | None = Field(
        default=None, description="Drop the step in flight, then this many finished ones."
    )
    to_step: StepNumber | None = Field(
        default=None,
        description="Go on from where this step ended; 0: from before step 1; negative: from the end.",
    )
    to_position: Position | None = Field(
        default=None, description="Go on from this position, which may lie in a take."
    )
    reason: Text = ""


_ONLY_IN_FLIGHT = RewindIn()


class RewindOut(BaseModel):
    """What a rewind did."""

    model_config = shown(examples.REWIND)

    position: int = Field(description="Of the rewind's own entry, by which it can be undone.")
    to_position: int
    cut_off: list[Range]
    steps_cut: int
    head: int


class TakeOut(BaseModel):
    """A rewind and what it cut off, which stays readable with `as_of` one less than its position."""

    model_config = shown(examples.TAKE)

    position: int
    to_position: int
    reason: str | None
    actor: str | None
    created_at: datetime
    cut_off: list[Range]


class RewindPage(Page[TakeOut]):
    model_config = shown({"items": [examples.TAKE], "next": None})


class RewindFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.post("/sessions/{session_id}/rewinds", response={201: RewindOut}, summary="Rewind")
@raises(Conflict)
def post_rewind(
    request: ApiRequest, session_id: SessionId, target: RewindIn = _ONLY_IN_FLIGHT
) -> HttpResponse:
    """Nothing is deleted: what is cut off stays as a take."""
    done = rewind(
        request.auth.project,
        session_id,
        Target(target.episodes, target.to_step, target.to_position),
        reason=target.reason,
        actor=actor(request),
        expected_position=target.expected_position,
    )
    return _rewound(done)


@router.post(
    "/sessions/{session_id}/rewinds/{position}/undo", response={201: RewindOut}, summary="Undo a rewind"
)
@raises(Conflict)
def post_undo(request: ApiRequest, session_id: SessionId, position: PathPosition) -> HttpResponse:
    """By another rewind, to what was live before that one."""
    return _rewound(undo_rewind(request.auth.project, session_id, position, actor=actor(request)))


@router.get("/sessions/{session_id}/rewinds", response=RewindPage, summary="List rewinds")
def list_rewinds(request: ApiRequest, session_id: SessionId, filter: Query[RewindFilter]) -> HttpResponse:
    """The newest first, each with what it cut off."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _page(session, filter))


def _page(session: Session, filter: RewindFilter) -> dict[str, Any]:
    session.lineage(filter.as_of)  # refuses a position beyond the head
    up_to = filter.as_of
    if filter.cursor is not None:
        (up_to,) = decode_cursor(_LIST, filter.cursor, int)
    found = rewinds(session, up_to, filter.limit + 1)[::-1]
    page = found[: filter.limit]
    more = len(found) > len(page)
    cursor = encode_cursor(_LIST, page[-1][0].position - 1) if more else None
    return {"items": [take_json(entry, before) for entry, before in page], "next": cursor}


def take_json(entry: Entry, before: Lineage) -> dict[str, Any]:
    """A rewind as :class:`TakeOut`, given the lineage that it cut."""
    return {
        "position": entry.position,
        "to_position": entry.body["to_position"],
        "reason": entry.body.get("reason"),
        "actor": entry.body.get("actor"),
        "created_at": iso(entry.created_at),
        "cut_off": ranges(before.without(Lineage.of(entry.body["spans"]))),
    }


def _rewound(done: RewindResult) -> HttpResponse:
    return reply(
        {
            "position": done.position,
            "to_position": done.to_position,
            "cut_off": ranges(done.cut_off),
            "steps_cut": done.steps_cut,
            "head": done.session.head,
        },
        201,
    )
