"""Creates, lists, changes and archives sessions."""

from datetime import timedelta
from typing import Annotated, Any, Literal, NamedTuple

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.cursors import decode_cursor, encode_cursor
from historyapp.api.fields import (
    AsOf,
    IdField,
    Line,
    Name,
    RequestBody,
    SessionId,
    SessionMetadata,
    StepNumber,
    Tag,
    Title,
    integral,
)
from historyapp.api.idempotency import concerns_sessions
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response, response_or_304
from historyapp.api.session_queries import SessionFilter, SessionListQuery, facets_out
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_of, tokens_of
from historyapp.core.session_metadata import MAX_TAGS
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.usage import MICRO
from historyapp.models import Session
from historyapp.models.annotations import (
    MAX_NOTE,
    MAX_SCORE,
    MAX_SCORE_NAME,
    annotation_of,
)
from historyapp.models.history import History
from historyapp.models.session_filters import facet_counts
from historyapp.models.session_lists import Order, page_of
from historyapp.models.stored_totals import stored_totals
from historyapp.services.fork_pauses import fork_pauses
from historyapp.services.list_columns import RunSpan, run_span
from historyapp.services.prices import price_list
from historyapp.services.retention import erase
from historyapp.services.sessions import StartingToolCall, change_session, create_session
from historyapp.services.spending import Spender
from historyapp.wire.base import with_example
from historyapp.wire.problems import SearchTooSlow, SpendForbidden
from historyapp.wire.sessions import (
    ErasedOut,
    SessionFacets,
    SessionItem,
    SessionOut,
    SessionPage,
    SettingsOut,
)

router = Router(tags=["sessions"])

_LIST = "sessions"
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]
Note = Annotated[Line, Field(max_length=MAX_NOTE)]
Score = Annotated[float, Field(ge=-MAX_SCORE, le=MAX_SCORE, allow_inf_nan=False)]
ScoreName = Annotated[Line, Field(max_length=MAX_SCORE_NAME)]
_UNLISTED = ("closed_spans", "fork_spans", "tail", "settings")


class SettingsIn(SessionSettings):
    """Session settings. Omitted settings keep their values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    llm_name: Name = SessionSettings().llm_name
    spacy_language_model: Name = SessionSettings().spacy_language_model
    policy: str = Field(default="budgeted", json_schema_extra={"enum": list(POLICIES)})
    format: str | None = Field(default=None, json_schema_extra={"enum": [*FORMATS, None]})

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

    @field_validator("format")
    @classmethod
    def _is_known(cls, format: str | None) -> str | None:
        if format is not None and format not in FORMATS:
            raise ValueError(f"must be null or one of {', '.join(FORMATS)}")
        return format


class SessionIn(RequestBody):
    model_config = with_example({"title": "Fix the parser", "agent": "fixer", "tags": ["parser"]})

    id: IdField | None = Field(default=None, description="Null: Playhead generates one.")
    title: Title = ""
    agent: Name = ""
    model: Name = ""
    tags: Tags = Field(default_factory=list)
    settings: SettingsIn | None = None
    metadata: SessionMetadata = Field(default_factory=dict)
    spawned_by: IdField | None = Field(
        default=None, description="The session of this project whose agent starts this one, a sub-agent."
    )
    spawned_step: StepNumber | None = Field(
        default=None,
        description="The step of that session whose tool call starts this one; -1 is the newest. Null: not "
        "known.",
    )


class ExpectedValues(RequestBody):
    """Only the given values are compared."""

    tags: Tags = Field(default_factory=list, description="In any order.")
    note: Note = ""
    score: Score | None = None
    score_name: ScoreName = ""


class SessionPatch(RequestBody):
    """Only the given fields change."""

    model_config = with_example({"title": "Fix the parser for good", "status": "finished"})

    title: Title = ""
    agent: Name = ""
    model: Name = ""
    status: Literal["live", "finished", "archived"] = "live"
    tags: Tags = Field(default_factory=list, description="Replaces all tags.")
    add_tags: Tags = Field(default_factory=list, description="The session keeps its other tags.")
    remove_tags: Tags = Field(
        default_factory=list, description="Tags that the session does not have are ignored."
    )
    note: Note = Field(default="", description="A note on the whole session. Empty removes it.")
    score: Score | None = Field(default=None, description="Null removes it.")
    score_name: ScoreName = Field(default="", description="What the score measures.")
    expected: ExpectedValues = Field(
        default_factory=lambda: ExpectedValues(),
        description="The values as you read them. If one has changed since, the response is 409 and "
        "nothing is changed.",
    )
    settings: SettingsIn = Field(default_factory=SettingsIn)
    metadata: SessionMetadata = Field(default_factory=dict)


@router.post("/sessions", response={201: SessionOut}, summary="Create a session")
@raises(Conflict, SpendForbidden)
def make_session(request: ApiRequest, session: SessionIn) -> HttpResponse:
    created = create_session(
        request.auth.project,
        id=session.id,
        names={"title": session.title, "agent": session.agent, "model": session.model},
        tags=session.tags,
        settings=session.settings,
        metadata=session.metadata,
        starter=_starter(request, session),
        spender=Spender(request.auth),
    )
    concerns_sessions(request, [created.pk])
    return json_response(session_out(History(created)), 201)


def _starter(request: ApiRequest, session: SessionIn) -> StartingToolCall | None:
    """The position of the tool call that started a sub-agent.

    Raises:
        Invalid: when there is no such session or step.
    """
    if session.spawned_by is None:
        if session.spawned_step is not None:
            raise Invalid("spawned_step needs spawned_by, the session that has the step.")
        return None
    try:
        parent = find_session(request, session.spawned_by)
        if session.spawned_step is None:
            return StartingToolCall(parent)
        history = History(parent)
        return StartingToolCall(parent, history.row(history.resolve(session.spawned_step)).first_position)
    except NotFound as error:
        raise Invalid(f"spawned_by, spawned_step: {error.detail}") from error


@router.get("/sessions", response=SessionPage, summary="List sessions")
@raises(Invalid, SearchTooSlow)
def list_sessions(request: ApiRequest, filter: Query[SessionListQuery]) -> HttpResponse:
    project, criteria = request.auth.project, filter.criteria()
    sessions = criteria.apply(filter.sessions(project)).select_related("annotation").defer(*_UNLISTED)
    page = page_of(
        sessions,
        Order.parse(filter.sort),
        f"{project.pk} {filter.id} {criteria}",
        cursor=decode_cursor(_LIST, filter.cursor, str)[0] if filter.cursor else "",
        limit=filter.limit,
    )
    cursor = encode_cursor(_LIST, page.cursor) if page.cursor else None
    totals = stored_totals([row.pk for row in page.sessions])
    items = [_session_item(row, totals[row.pk]) for row in page.sessions if row.pk in totals]
    return json_response(SessionPage(items=items, next=cursor))


@router.get("/facets", response=SessionFacets, summary="Count sessions by facet")
@raises(Invalid, SearchTooSlow)
def count_sessions(request: ApiRequest, filter: Query[SessionFilter]) -> HttpResponse:
    """How many sessions match, and how many would match with another value of each facet.

    Another tag narrows the list. Another agent, model, repository or folder widens it, and another status
    replaces the current one: their counts ignore the parameter of the same facet.
    """
    return json_response(facets_out(facet_counts(filter.sessions(request.auth.project), filter.criteria())))


@router.get("/sessions/{session_id}", response=SessionOut, summary="Read a session")
def read_session(request: ApiRequest, session_id: SessionId, as_of: AsOf = None) -> HttpResponseBase:
    session = find_session(request, session_id, with_metadata=True)
    return response_or_304(request, session, lambda: session_out(History(session, as_of)))


@router.patch("/sessions/{session_id}", response=SessionOut, summary="Change a session")
@raises(Conflict, SpendForbidden)
def patch_session(request: ApiRequest, session_id: SessionId, changes: SessionPatch) -> HttpResponse:
    """Several clients can tag a session at the same time: `add_tags` and `remove_tags` keep other tags."""
    fields = {name: getattr(changes, name) for name in changes.model_fields_set - {"expected"}}
    if "settings" in fields:
        fields["settings"] = changes.settings.model_dump(exclude_unset=True)
    session = change_session(
        request.auth.project,
        session_id,
        fields,
        expected=changes.expected.model_dump(exclude_unset=True),
        actor=actor(request),
        spender=Spender(request.auth),
    )
    return json_response(session_out(History(session)))


class ArchiveQuery(BaseModel):
    """Query parameters of ``DELETE /sessions/{id}``."""

    erase: Literal["true", "false"] = Field(
        default="false", description="Delete an archived session for good, with all its data."
    )


@router.delete(
    "/sessions/{session_id}", response={200: ErasedOut, 204: None}, summary="Archive or erase a session"
)
@raises(Conflict)
def archive_session(request: ApiRequest, session_id: SessionId, query: Query[ArchiveQuery]) -> HttpResponse:
    """Archives the session: it stays readable and can be set to live again.

    With `erase=true`, an archived session is deleted for good, and the response counts what was deleted. 409
    while it is not archived or has forks.
    """
    if query.erase == "true":
        session = find_session(request, session_id)
        steps, erased = session.steps, erase(session, actor=actor(request))
        return json_response(ErasedOut(session=session_id, entries=erased.entries, steps=steps))
    change_session(request.auth.project, session_id, {"status": "archived"}, actor=actor(request))
    return HttpResponse(status=204)


class CurrentTexts(NamedTuple):
    """The texts of a history that are part of its session's response."""

    instruction: str | None
    notebook: str | None

    @classmethod
    def of(cls, history: History) -> "CurrentTexts":
        return cls(history.instruction, history.notebook)


def session_out(history: History, texts: CurrentTexts | None = None) -> SessionOut:
    """The session, with its head and counters as of the history's position.

    Args:
        texts: the texts of the history, if they have been read already.
    """
    session, totals = history.session, history.tail.totals
    tokens, money = tokens_of(totals), money_of(totals, session.model, price_list())
    span = run_span(session, history.lineage)
    texts = texts or CurrentTexts.of(history)
    return fill(
        SessionOut,
        session,
        forked_from=session.forked_from_id,
        spawned_by=session.spawned_by_id,
        head=session.head if history.as_of is None else history.as_of,
        steps=totals.steps,
        errors=totals.errors,
        tokens=totals.tokens,
        cost=totals.cost / MICRO,
        shown_tokens=tokens.shown,
        token_source=tokens.source,
        shown_cost=money.micros / MICRO,
        cost_is_minimum=money.is_minimum,
        last_entry_at=history.last_entry_at,
        first_entry_at=span.first if span else None,
        duration=_seconds(history, span, totals.idle),
        settings=fill(SettingsOut, load_settings(session.settings)),
        instruction=texts.instruction,
        notebook=texts.notebook,
        **_annotation_fields(session),
    )


def _seconds(history: History, span: RunSpan | None, idle: int) -> float | None:
    """How long the run took, without the pauses before forks and ``idle`` milliseconds; None if unknown."""
    pauses = fork_pauses(history) if span else None
    if span is None or pauses is None:
        return None
    idle -= span.idle_before
    return max(0, span.milliseconds - pauses // timedelta(milliseconds=1) - idle) / 1000


def _session_item(session: Session, totals: Totals) -> SessionItem:
    tokens, money = tokens_of(totals), money_of(totals, session.model, price_list())
    return fill(
        SessionItem,
        session,
        forked_from=session.forked_from_id,
        spawned_by=session.spawned_by_id,
        cost=session.cost / MICRO,
        shown_tokens=tokens.shown,
        token_source=tokens.source,
        shown_cost=money.micros / MICRO,
        cost_is_minimum=money.is_minimum,
        duration=session.duration / 1000 if session.duration else None,
        **_annotation_fields(session),
    )


def _annotation_fields(session: Session) -> dict[str, Any]:
    annotation = annotation_of(session)
    names = ("note", "noted_by", "noted_at", "score", "score_name", "scored_by", "scored_at")
    return {name: getattr(annotation, name) for name in names}
