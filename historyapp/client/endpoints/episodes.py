"""Steps, and the history as text and as messages."""

from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, get, pages, path_of
from historyapp.client.endpoints.entries import Order
from historyapp.wire.base import Page
from historyapp.wire.contexts import MessagesOut, TextOut
from historyapp.wire.episodes import EpisodeItem, EpisodeOut
from historyapp.wire.origins import OriginsOut
from historyapp.wire.recorded import RecordedRequestOut, RequestMessageOut


class StepQuery(TypedDict, total=False):
    """Filters of steps. An omitted field does not filter."""

    from_step: int | None
    """The first step; negative numbers count from the end."""
    to_step: int | None
    """The last step, included."""
    status: str | None
    """Only steps with this status: ``success``, ``error`` …"""
    tool: str | None
    """Only steps that called this tool."""
    since: datetime | None
    """Only steps that started then or later."""
    until: datetime | None
    """Only steps that started before."""
    noted: bool | None
    """True: only steps with a bookmark or a note."""
    kind: str | None
    """Only steps whose first tool call is of this kind: ``shell``, ``edit`` …"""
    turn: int | None
    """Only steps of this turn."""
    file: str | None
    """Only steps with a tool call that reads or changes this file: its path, or a beginning or end of it."""
    edited: bool | None
    """True, with ``file``: only steps that edit, write or delete the file."""
    names: str | None
    """``unseen``: only steps that name a file which appeared nowhere before. ``gone``: only steps that use a
    name which had been compacted away."""
    text: str | None
    """Only steps that contain this text, or whose inputs do."""
    order: Order | None
    """``oldest`` first unless ``newest``."""
    limit: int | None
    """The number of steps of each request."""
    as_of: int | None


def episodes(session_id: Id, **query: Unpack[StepQuery]) -> Pages[EpisodeItem]:
    """Steps with previews; see :class:`historyapp.client.endpoints.episodes.StepQuery`."""
    return pages(path_of("sessions", session_id, "episodes"), Page[EpisodeItem], **_parameters(query))


def full_episodes(session_id: Id, **query: Unpack[StepQuery]) -> Pages[EpisodeOut]:
    """Steps with their bodies; arguments as for :func:`episodes`."""
    return pages(
        path_of("sessions", session_id, "episodes"), Page[EpisodeOut], full=True, **_parameters(query)
    )


def _parameters(query: StepQuery) -> dict[str, Any]:
    return {name.removesuffix("_step"): value for name, value in query.items()}


def episode(session_id: Id, number: int, *, as_of: int | None = None) -> ApiCall[EpisodeOut]:
    """One step with its bodies; -1 is the newest."""
    return get(path_of("sessions", session_id, "episodes", number), EpisodeOut, as_of=as_of)


def recorded_request(
    session_id: Id, number: int, *, limit: int | None = None, as_of: int | None = None
) -> ApiCall[RecordedRequestOut]:
    """The model's input before a step, with the first ``limit`` messages of the request."""
    path = path_of("sessions", session_id, "episodes", number, "request")
    return get(path, RecordedRequestOut, limit=limit, as_of=as_of)


def recorded_messages(
    session_id: Id, number: int, *, limit: int | None = None, as_of: int | None = None
) -> Pages[RequestMessageOut]:
    """All messages of the request that led to a step, in the order of the request.

    Args:
        limit: the number of messages of each request.
    """
    path = path_of("sessions", session_id, "episodes", number, "request")
    return Pages(ApiCall("GET", path, _messages_page, drop_nulls({"limit": limit, "as_of": as_of})))


def _messages_page(data: Any) -> Page[RequestMessageOut]:
    response = RecordedRequestOut.model_validate(data)
    return Page[RequestMessageOut](items=response.messages, next=response.next)


def origins(
    session_id: Id, number: int, *, name: str | None = None, as_of: int | None = None
) -> ApiCall[OriginsOut]:
    """Where the names in a step's tool calls appeared before. With ``name``, also the places of that name."""
    return get(
        path_of("sessions", session_id, "episodes", number, "origins"), OriginsOut, name=name, as_of=as_of
    )


def progress(
    session_id: Id,
    style: Literal["list", "paragraph", "compiled"] = "list",
    *,
    from_step: int | None = None,
    to_step: int | None = None,
    max_tokens: int | None = None,
    as_of: int | None = None,
) -> ApiCall[str]:
    """The history as text: a line for each step, long forms, or summaries within a budget.

    Args:
        max_tokens: the budget of ``compiled``; None: the session's setting.
    """
    query = {"style": style, "from": from_step, "to": to_step, "max_tokens": max_tokens, "as_of": as_of}
    path = path_of("sessions", session_id, "progress")
    return ApiCall("GET", path, lambda data: TextOut.model_validate(data).text, drop_nulls(query))


def history(session_id: Id, *, as_of: int | None = None) -> ApiCall[str]:
    """The sliding-window history as text: summaries of older steps, then the newest steps in detail."""
    path = path_of("sessions", session_id, "history")
    return ApiCall("GET", path, lambda data: TextOut.model_validate(data).text, drop_nulls({"as_of": as_of}))


def messages(
    session_id: Id, *, max_tokens: int | None = None, as_of: int | None = None
) -> ApiCall[MessagesOut]:
    """The context that the policy ``episodic`` chooses, independent of providers' formats, with its manifest.

    Args:
        max_tokens: None: the session's setting.
    """
    return get(path_of("sessions", session_id, "messages"), MessagesOut, max_tokens=max_tokens, as_of=as_of)
