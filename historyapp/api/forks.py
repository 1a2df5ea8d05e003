"""Forks: a new session that begins with another's history."""

from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor
from historyapp.api.fields import GivenId, Position, RequestBody, SessionId, StepNumber, Title
from historyapp.api.problems import raises
from historyapp.api.responses import reply
from historyapp.api.sessions import session_out
from historyapp.core.errors import Conflict
from historyapp.models.history import History
from historyapp.services.rewinds import fork
from historyapp.wire.base import shown
from historyapp.wire.sessions import SessionOut

router = Router(tags=["forks"])


class ForkIn(RequestBody):
    """`at_step` or `at_position`, or neither: then the whole history is shared."""

    model_config = shown({"at_step": 3, "title": "Fix the parser, the other way"})

    at_step: StepNumber | None = Field(
        default=None,
        description="Share up to the end of this step; 0: nothing; negative: counted from the end.",
    )
    at_position: Position | None = Field(default=None, description="Share up to this position.")
    title: Title = ""
    id: GivenId | None = Field(default=None, description="Null: Playhead makes one.")


_ANYWHERE = ForkIn()


@router.post("/sessions/{session_id}/forks", response={201: SessionOut}, summary="Fork a session")
@raises(Conflict)
def post_fork(request: ApiRequest, session_id: SessionId, point: ForkIn = _ANYWHERE) -> HttpResponse:
    """Copies nothing: the new session points at the entries that it shares."""
    child = fork(
        request.auth.project,
        session_id,
        at_step=point.at_step,
        at_position=point.at_position,
        title=point.title,
        actor=actor(request),
        fork_id=point.id,
    )
    return reply(session_out(History(child)), 201)
