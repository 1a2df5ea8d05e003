"""Steps: lists with previews, and one with its bodies."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply_unless_known
from historyapp.api.auth import ApiRequest
from historyapp.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.fields import Line, Moment, QueryStep, SessionId, iso
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Page, shown
from historyapp.core import episodes as core
from historyapp.core.conversation import Status
from historyapp.core.entries import Thoughts, ToolCall, ToolResult
from historyapp.core.rendering import long_form, short_form
from historyapp.models import Episode, Session
from historyapp.models.history import History
from historyapp.models.step_filters import SearchCursor, StepFilter, StepSearch
from historyapp.wire import examples
from historyapp.wire.problems import NotValid

router = Router(tags=["episodes"])

_LIST, _FILTERED = "episodes", "filtered episodes"


class EpisodeFacts(BaseModel):
    number: int
    status: Status
    first_position: int
    last_position: int
    tokens: int
    started_at: datetime
    finished_at: datetime | None


class EpisodeItem(EpisodeFacts):
    """A step in a list: previews of up to 200 characters."""

    model_config = shown(examples.EPISODE_ITEM)

    tool_names: list[str]
    input_preview: str = Field(description="What was said to the agent since the step before.")
    thought_preview: str
    call_preview: str
    result_preview: str


class Action(BaseModel):
    name: str
    arguments: Any


class EpisodeOut(EpisodeFacts):
    """A step with its bodies."""

    model_config = shown(examples.EPISODE)

    thoughts: str | Thoughts | None
    action: Action | None = Field(description="The first one where there are several; null in an answer.")
    tool_calls: list[ToolCall]
    result: ToolResult | None = Field(description="Several results are shown as one.")
    summary: str | None
    formatted: str = Field(description="The long form.")
    short: str = Field(description="The short form: the call and its result in one sentence.")


class EpisodePage(Page[EpisodeItem | EpisodeOut]):
    model_config = shown({"items": [examples.EPISODE_ITEM], "next": None})


class EpisodeFilter(BaseModel):
    start: QueryStep | None = Field(
        default=None, alias="from", description="First step; negative numbers count from the end."
    )
    stop: QueryStep | None = Field(default=None, alias="to", description="Last step, included.")
    order: Literal["oldest", "newest"] = Field(default="oldest", description="Which come first.")
    status: Status | None = Field(default=None, description="Only steps that ended like this.")
    tool: Annotated[Line, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Only steps that called this tool, as `tool_names` has it."
    )
    since: Moment | None = Field(default=None, description="Only steps that started then or later.")
    until: Moment | None = Field(default=None, description="Only steps that started before.")
    full: Literal["true", "false"] = Field(default="false", description="`true`: items with their bodies.")
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.get("/sessions/{session_id}/episodes", response=EpisodePage, summary="List steps")
def list_episodes(request: ApiRequest, session_id: SessionId, filter: Query[EpisodeFilter]) -> HttpResponse:
    """With `status`, `tool`, `since` or `until` a page may hold fewer items than `limit`, or none, and still
    have a `next`: one request looks through a bounded number of steps, and the next one goes on there.
    """
    session = find_session(request, session_id)
    wanted = StepFilter(filter.status, filter.tool, filter.since, filter.until)
    if wanted:
        return reply_unless_known(request, session, lambda: _filtered(session, filter, wanted))
    return reply_unless_known(request, session, lambda: _page(session, filter))


def _page(session: Session, filter: EpisodeFilter) -> dict[str, Any]:
    as_of, number = filter.as_of, None
    if filter.cursor is not None:
        as_of, number = decode_cursor(_LIST, filter.cursor, int, int)
    history = History(session, as_of)
    wanted = _range(history, filter)
    if number is not None:
        if number not in wanted:
            raise NotValid("This cursor belongs to another from, to or order. Keep them for all pages.")
        wanted = wanted[wanted.index(number) :]
    page = wanted[: filter.limit]
    state = session.head if as_of is None else as_of
    more = encode_cursor(_LIST, state, wanted[len(page)]) if len(wanted) > len(page) else None
    return {"items": _items(history, page, full=filter.full == "true"), "next": more}


def _range(history: History, filter: EpisodeFilter) -> range:
    """The step numbers between the bounds, in the wanted order."""
    numbers = history.slice(filter.start, filter.stop)
    return numbers[::-1] if filter.order == "newest" else numbers


def _filtered(session: Session, filter: EpisodeFilter, wanted: StepFilter) -> dict[str, Any]:
    as_of, mark = filter.as_of, None
    if filter.cursor is not None:
        as_of, *place = decode_cursor(_FILTERED, filter.cursor, int, int, int, int)
        mark = SearchCursor(*place)
    history = History(session, as_of)
    found = StepSearch(history, wanted, _range(history, filter)).find(filter.limit, mark)
    state = session.head if as_of is None else as_of
    if filter.full == "true":
        items = [episode_json(row, episode) for row, episode in history.with_bodies(found.rows)]
    else:
        items = [episode_item(row) for row in found.rows]
    return {"items": items, "next": encode_cursor(_FILTERED, state, *found.more) if found.more else None}


def _items(history: History, page: range, *, full: bool) -> list[dict[str, Any]]:
    if not page:
        return []
    first, last = min(page), max(page)
    if full:
        items = [episode_json(row, episode) for row, episode in history.rows_and_episodes(first, last)]
    else:
        items = [episode_item(row) for row in history.rows(first, last)]
    return items if page.step > 0 else items[::-1]


@router.get("/sessions/{session_id}/episodes/{number}", response=EpisodeOut, summary="Read one step")
def read_episode(
    request: ApiRequest, session_id: SessionId, number: QueryStep, as_of: AsOf = None
) -> HttpResponse:
    """Negative numbers count from the end: -1 is the newest step."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _episode(History(session, as_of), number))


def _episode(history: History, number: int) -> dict[str, Any]:
    resolved = history.resolve(number)
    ((row, episode),) = history.rows_and_episodes(resolved, resolved)
    return episode_json(row, episode)


def _facts(row: Episode) -> dict[str, Any]:
    return {
        "number": row.number,
        "status": row.status,
        "first_position": row.first_position,
        "last_position": row.last_position,
        "tokens": row.tokens,
        "started_at": iso(row.started_at),
        "finished_at": iso(row.finished_at),
    }


def episode_item(row: Episode) -> dict[str, Any]:
    """The row as :class:`EpisodeItem`."""
    return {
        **_facts(row),
        "tool_names": row.tool_names,
        "input_preview": row.input_preview,
        "thought_preview": row.thought_preview,
        "call_preview": row.call_preview,
        "result_preview": row.result_preview,
    }


def episode_json(row: Episode, episode: core.Episode) -> dict[str, Any]:
    """The step as :class:`EpisodeOut`."""
    thoughts, result = episode.output.thoughts, episode.result
    return {
        **_facts(row),
        "thoughts": thoughts.model_dump() if isinstance(thoughts, Thoughts) else thoughts,
        "action": core.action_of(episode),
        "tool_calls": [call.model_dump() for call in episode.output.tool_calls],
        "result": _result(result) if result else None,
        "summary": episode.summary,
        "formatted": long_form(episode),
        "short": short_form(episode),
    }


def _result(result: ToolResult) -> dict[str, Any]:
    fields = result.model_dump(exclude_none=True)
    return {**fields, "outputs": result.outputs} if result.status == "success" else fields
