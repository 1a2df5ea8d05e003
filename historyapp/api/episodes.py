"""Lists steps with previews, and reads single steps with their bodies."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BeforeValidator, Field

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import MAX_POSITIONS, AsOf, Line, Moment, QueryStep, SessionId, whole_number
from historyapp.api.responses import AT_ONCE, Content, LargePage, fill_json, response_or_304
from historyapp.core import episodes as core
from historyapp.core.call_subjects import Kind
from historyapp.core.conversation import Status
from historyapp.core.entries import Thoughts
from historyapp.core.rendering import long_form, short_form
from historyapp.enqueue import name_index_state, request_text_index
from historyapp.models import Episode, Session
from historyapp.models.history import History
from historyapp.models.step_filters import SearchCursor, StepFilter, StepSearch
from historyapp.models.text_search import MAX_CHARACTERS, wanted_text
from historyapp.wire.episodes import EpisodeItem, EpisodeOut, EpisodePage
from historyapp.wire.problems import NotValid

router = Router(tags=["episodes"])

_LIST, _FILTERED = "episodes", "filtered episodes"


class EpisodeFilter(PageQuery):
    start: QueryStep | None = Field(
        default=None, alias="from", description="First step; negative numbers count from the end."
    )
    stop: QueryStep | None = Field(default=None, alias="to", description="Last step, included.")
    order: Literal["oldest", "newest"] = Field(
        default="oldest", description="Whether the oldest or the newest come first."
    )
    status: Status | Literal["likely_failed"] | None = Field(
        default=None, description="Only steps with this status, or with a `likely_failure`."
    )
    tool: Annotated[Line, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Only steps that called this tool. The name is as in `tool_names`."
    )
    since: Moment | None = Field(default=None, description="Only steps that started then or later.")
    until: Moment | None = Field(default=None, description="Only steps that started before.")
    noted: Literal["true", "false"] = Field(
        default="false", description="`true`: only steps with a bookmark or a note."
    )
    kind: Kind | None = Field(default=None, description="Only steps whose first tool call is of this kind.")
    turn: Annotated[int, Field(ge=1, le=MAX_POSITIONS), BeforeValidator(whole_number)] | None = Field(
        default=None, description="Only steps of this turn."
    )
    file: Annotated[Line, Field(min_length=1, max_length=MAX_CHARACTERS)] | None = Field(
        default=None,
        description="Only steps with a tool call that reads or changes this file, or prints a diff of it by "
        "git: its path, or the beginning or end of the path, ignoring case.",
    )
    edited: Literal["true", "false"] = Field(
        default="false", description="`true`, with `file`: only steps that edit, write or delete the file."
    )
    names: Literal["unseen", "gone"] | None = Field(
        default=None,
        description="`unseen`: only steps that name a file which appeared nowhere before. `gone`: only steps "
        "that use a name which had been compacted away. Covers the part of the session that is in the index "
        "of names.",
    )
    text: Annotated[Line, Field(min_length=1, max_length=MAX_CHARACTERS)] | None = Field(
        default=None,
        description="Only steps that contain this text, or whose inputs do; matched as in `GET …/find`.",
    )
    full: Literal["true", "false"] = Field(
        default="false",
        description="`true`: items with their bodies. A page ends after 8 MB of bodies, and with a filter "
        "after 10 items.",
    )

    @property
    def step_filter(self) -> StepFilter:
        """The filter of the requested steps."""
        columns = {"status", "tool", "since", "until", "kind", "file", "turn", "names"}
        values = self.model_dump(include=columns)
        text = None if self.text is None else wanted_text(self.text)
        if self.edited == "true" and self.file is None:
            raise NotValid("`edited` needs `file`: the file that the steps edit.")
        return StepFilter(**values, noted=self.noted == "true", edited=self.edited == "true", text=text)


@router.get("/sessions/{session_id}/episodes", response=EpisodePage, summary="List steps")
def list_episodes(
    request: ApiRequest, session_id: SessionId, filter: Query[EpisodeFilter]
) -> HttpResponseBase:
    """With a filter, for example `status`, a page may hold fewer items than `limit`, or none, and still
    have a `next`: one request searches a bounded number of steps, and the next one continues there.
    """
    session = find_session(request, session_id)
    step_filter = filter.step_filter
    if step_filter:
        state = name_index_state(History(session, filter.as_of)) if step_filter.names else ""
        return response_or_304(
            request, session, lambda: _filtered_page(session, filter, step_filter), state=state
        )
    return response_or_304(request, session, lambda: _unfiltered_page(session, filter))


def _unfiltered_page(session: Session, filter: EpisodeFilter) -> Content:
    as_of, number = filter.as_of, None
    if filter.cursor is not None:
        as_of, number = decode_cursor(_LIST, filter.cursor, int, int)
    history = History(session, as_of)
    numbers = _range(history, filter)
    if number is not None:
        if number not in numbers:
            raise NotValid(
                "This cursor belongs to another `from`, `to` or `order`. Send the same ones with each page."
            )
        numbers = numbers[numbers.index(number) :]
    page = numbers[: filter.limit]
    state = session.head if as_of is None else as_of
    rows = history.rows(min(page), max(page)) if page else []
    if page.step < 0:
        rows.reverse()
    if filter.full == "true":
        large = _large_page(history, rows)
        page = page[: len(large.items)]
    next_cursor = encode_cursor(_LIST, state, numbers[len(page)]) if len(numbers) > len(page) else None
    if filter.full == "true":
        return large.json(next_cursor)
    return {"items": [fill_json(EpisodeItem, row) for row in rows], "next": next_cursor}


def _large_page(history: History, rows: Sequence[Episode]) -> LargePage:
    """The steps with their bodies, until the page is full."""
    page = LargePage()
    for start in range(0, len(rows), AT_ONCE):
        for step in history.with_bodies(rows[start : start + AT_ONCE]):
            if page.is_full:
                return page
            page.add(_with_bodies(*step))
    return page


def _range(history: History, filter: EpisodeFilter) -> range:
    """The step numbers between the bounds, in the requested order."""
    numbers = history.slice(filter.start, filter.stop)
    return numbers[::-1] if filter.order == "newest" else numbers


def _filtered_page(session: Session, filter: EpisodeFilter, step_filter: StepFilter) -> dict[str, Any]:
    as_of, search_cursor = filter.as_of, None
    if filter.cursor is not None:
        as_of, *cursor_parts = decode_cursor(_FILTERED, filter.cursor, int, int, int, int)
        search_cursor = SearchCursor(*cursor_parts)
    history = History(session, as_of)
    limit = min(filter.limit, AT_ONCE) if filter.full == "true" else filter.limit
    search = StepSearch(history, step_filter, _range(history, filter))
    matches = search.find(limit, search_cursor)
    request_text_index(search.unindexed)
    state = session.head if as_of is None else as_of
    if filter.full == "true":
        items = [_with_bodies(*step) for step in history.with_bodies(matches.rows)]
    else:
        items = [fill_json(EpisodeItem, row) for row in matches.rows]
    return {"items": items, "next": encode_cursor(_FILTERED, state, *matches.more) if matches.more else None}


@router.get("/sessions/{session_id}/episodes/{number}", response=EpisodeOut, summary="Read one step")
def read_episode(
    request: ApiRequest, session_id: SessionId, number: QueryStep, as_of: AsOf = None
) -> HttpResponseBase:
    """Negative numbers count from the end: -1 is the newest step."""
    session = find_session(request, session_id)

    def make_content() -> dict[str, Any]:
        history = History(session, as_of)
        resolved = history.resolve(number)
        ((row, episode),) = history.with_bodies([history.row(resolved)])
        return _with_bodies(row, episode)

    return response_or_304(request, session, make_content)


def _with_bodies(row: Episode, episode: core.Episode) -> dict[str, Any]:
    thoughts, action, result = episode.output.thoughts, episode.action, episode.result
    result_json = result.model_dump(exclude_none=True) if result else None
    if result_json and result and result.status == "success":
        result_json["outputs"] = result.outputs
    return fill_json(
        EpisodeOut,
        row,
        thoughts=thoughts.model_dump() if isinstance(thoughts, Thoughts) else thoughts,
        action={"name": action.name, "arguments": action.arguments} if action else None,
        tool_calls=[tool_call.model_dump() for tool_call in episode.output.tool_calls],
        result=result_json,
        summary=episode.summary,
        formatted=long_form(episode),
        short=short_form(episode),
    )
