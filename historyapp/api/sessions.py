"""Making, finding, naming and archiving sessions."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from historyapp.api.answers import reply, reply_unless_known
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.cursors import FOREIGN_CURSOR, Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.fields import (
    GivenId,
    Line,
    Metadata,
    Name,
    RequestBody,
    SessionId,
    Tag,
    Title,
    integral,
    iso,
)
from historyapp.api.problems import raises
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Page, shown
from historyapp.core.errors import Conflict
from historyapp.core.policies import POLICIES
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.sessions import SessionQuerySet
from historyapp.services.sessions import change_session, create_session
from historyapp.wire import examples
from historyapp.wire.problems import NotValid

router = Router(tags=["sessions"])

_LIST = "sessions"
_BIG_COLUMNS = ("closed_spans", "fork_spans", "tail", "settings", "metadata")


class SettingsIn(SessionSettings):
    """Session settings. Those that are left out keep their value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    policy: str = Field(default="budgeted", json_schema_extra={"enum": list(POLICIES)})

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: integral(value) for name, value in values.items()}

    @field_validator("policy")
    @classmethod
    def _is_registered(cls, policy: str) -> str:
        if policy not in POLICIES:
            raise ValueError(f"must be one of {', '.join(POLICIES)}")
        return policy


class SessionIn(RequestBody):
    model_config = shown({"title": "Fix the parser", "agent": "fixer", "tags": ["parser"]})

    id: GivenId | None = Field(default=None, description="Null: Playhead makes one.")
    title: Title = ""
    agent: Name = ""
    model: Name = ""
    tags: list[Tag] = Field(default_factory=list, max_length=50)
    settings: SettingsIn | None = None
    metadata: Metadata = Field(default_factory=dict)


class SessionPatch(RequestBody):
    """Only what is given changes."""

    model_config = shown({"title": "Fix the parser for good", "status": "finished"})

    title: Title = ""
    agent: Name = ""
    model: Name = ""
    status: Literal["live", "finished", "archived"] = "live"
    tags: list[Tag] = Field(default_factory=list, max_length=50)
    settings: SettingsIn = Field(default_factory=SettingsIn)
    metadata: Metadata = Field(default_factory=dict)


class SessionItem(BaseModel):
    """A session as lists show it. Counters are of the live history."""

    model_config = shown(examples.SESSION_ITEM)

    id: UUID
    title: str
    agent: str
    model: str
    status: Literal["live", "finished", "archived"]
    tags: list[str]
    head: int = Field(description="Position of the newest entry.")
    steps: int
    errors: int
    tokens: int
    cost: float = Field(description="In US dollars, as its source reported it.")
    forked_from: UUID | None
    fork_position: int = Field(description="Up to where the parent's entries are shared; 0 without a parent.")
    spawned_by: UUID | None = Field(description="The session whose agent started this one.")
    created_at: datetime
    last_entry_at: datetime


class SessionOut(SessionItem):
    model_config = shown(
        {
            **examples.SESSION_ITEM,
            "settings": SessionSettings().model_dump(),
            "metadata": {},
            "instruction": None,
            "notebook": None,
        }
    )

    settings: SessionSettings
    metadata: dict[str, Any]
    instruction: str | None = Field(description="The current system instruction.")
    notebook: str | None = Field(description="The current memory notebook.")


class SessionPage(Page[SessionItem]):
    model_config = shown({"items": [examples.SESSION_ITEM], "next": None})


class SessionFilter(BaseModel):
    q: Annotated[Line, Field(max_length=200)] = Field(
        default="", description="Words that title, agent or tags contain, all of them."
    )
    agent: Name | None = None
    tag: list[Tag] = Field(default_factory=list, max_length=20, description="May be given several times.")
    status: Literal["live", "finished", "archived", "all"] | None = Field(
        default=None, description="Without it: all but archived ones."
    )
    errors: Literal["true", "false"] | None = Field(default=None, description="With or without failed steps.")
    limit: Limit = 50
    cursor: Cursor | None = None


@router.post("/sessions", response={201: SessionOut}, summary="Make a session")
@raises(Conflict)
def make_session(request: ApiRequest, session: SessionIn) -> HttpResponse:
    made = create_session(
        request.auth.project,
        id=session.id,
        names={"title": session.title, "agent": session.agent, "model": session.model},
        tags=session.tags,
        settings=session.settings,
        metadata=session.metadata,
    )
    return reply(session_json(History(made)), 201)


@router.get("/sessions", response=SessionPage, summary="List sessions, the newest first")
def list_sessions(request: ApiRequest, filter: Query[SessionFilter]) -> HttpResponse:
    found = Session.objects.filter(project=request.auth.project).search(filter.q).tagged(filter.tag)
    if filter.agent is not None:
        found = found.filter(agent=filter.agent)
    if filter.status is None:
        found = found.exclude(status=Session.Status.ARCHIVED)
    elif filter.status != "all":
        found = found.filter(status=filter.status)
    if filter.errors is not None:
        found = found.filter(errors__gt=0) if filter.errors == "true" else found.filter(errors=0)
    if filter.cursor is not None:
        found = _after(found, filter.cursor)
    rows = list(found.defer(*_BIG_COLUMNS).newest_first()[: filter.limit + 1])
    page = rows[: filter.limit]
    more = len(rows) > len(page)
    cursor = encode_cursor(_LIST, page[-1].last_entry_at.isoformat(), str(page[-1].pk)) if more else None
    return reply({"items": [session_item(row) for row in page], "next": cursor})


def _after(found: SessionQuerySet, cursor: str) -> SessionQuerySet:
    moment, id = decode_cursor(_LIST, cursor, str, str)
    try:
        last, last_id = datetime.fromisoformat(moment), UUID(id)
    except ValueError as error:
        raise NotValid(FOREIGN_CURSOR) from error
    return found.filter(Q(last_entry_at__lt=last) | Q(pk__lt=last_id), last_entry_at__lte=last)


@router.get("/sessions/{session_id}", response=SessionOut, summary="Read a session")
def read_session(request: ApiRequest, session_id: SessionId, as_of: AsOf = None) -> HttpResponse:
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: session_json(History(session, as_of)))


@router.patch("/sessions/{session_id}", response=SessionOut, summary="Rename, tag, set or archive a session")
@raises(Conflict)
def patch_session(request: ApiRequest, session_id: SessionId, changes: SessionPatch) -> HttpResponse:
    given = {name: getattr(changes, name) for name in changes.model_fields_set}
    if "settings" in given:
        given["settings"] = changes.settings.model_dump(exclude_unset=True)
    session = change_session(request.auth.project, session_id, given, actor=actor(request))
    return reply(session_json(History(session)))


@router.delete("/sessions/{session_id}", response={204: None}, summary="Archive a session")
def archive_session(request: ApiRequest, session_id: SessionId) -> HttpResponse:
    """Nothing is deleted: the session stays readable and can be set to live again."""
    change_session(request.auth.project, session_id, {"status": "archived"}, actor=actor(request))
    return HttpResponse(status=204)


def session_item(session: Session) -> dict[str, Any]:
    """The row as :class:`SessionItem`."""
    return {
        "id": str(session.pk),
        "title": session.title,
        "agent": session.agent,
        "model": session.model,
        "status": session.status,
        "tags": session.tags,
        "head": session.head,
        "steps": session.steps,
        "errors": session.errors,
        "tokens": session.tokens,
        "cost": session.cost / 1_000_000,
        "forked_from": _id(session.forked_from_id),
        "fork_position": session.fork_position,
        "spawned_by": _id(session.spawned_by_id),
        "created_at": iso(session.created_at),
        "last_entry_at": iso(session.last_entry_at),
    }


def session_json(history: History) -> dict[str, Any]:
    """The session as :class:`SessionOut`, its head and counters as of the history's position."""
    session, totals = history.session, history.tail.totals
    return {
        **session_item(session),
        "head": session.head if history.as_of is None else history.as_of,
        "steps": totals.steps,
        "errors": totals.errors,
        "tokens": totals.tokens,
        "cost": totals.cost / 1_000_000,
        "last_entry_at": iso(history.last_entry_at),
        "settings": load_settings(session.settings).model_dump(),
        "metadata": session.metadata,
        "instruction": history.instruction,
        "notebook": history.notebook,
    }


def _id(id: UUID | None) -> str | None:
    return str(id) if id else None
