"""Creates, lists, changes, forks, archives and erases sessions."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, TypedDict, Unpack

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, get, pages, path_of, post
from historyapp.core.settings import SessionSettings
from historyapp.wire.sessions import ErasedOut, SessionFacets, SessionItem, SessionOut, SessionPage

SettingsIn = SessionSettings | Mapping[str, Any]
"""Omitted settings keep their values."""
Status = Literal["live", "finished", "archived"]


def create_session(
    *,
    id: Id | None = None,
    title: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    tags: Sequence[str] | None = None,
    settings: SettingsIn | None = None,
    metadata: Mapping[str, Any] | None = None,
    spawned_by: tuple[Id, int | None] | None = None,
) -> ApiCall[SessionOut]:
    """Creates a session. An agent that chooses the ``id`` can find the session again after a crash.

    Args:
        spawned_by: for a sub-agent: the session that starts it, and the step whose tool call does, or None.

    Raises:
        Conflict: when the id is taken.
    """
    names: dict[str, Any] = {"id": id, "title": title, "agent": agent, "model": model}
    if spawned_by is not None:
        names["spawned_by"], names["spawned_step"] = spawned_by
    return post("/sessions", SessionOut, {**names, **_json_fields(tags, settings, metadata)})


class SessionChoice(TypedDict, total=False):
    """Filters of sessions. An omitted field does not filter."""

    q: str
    """Words; title, agent or tags must contain all of them."""
    id: str
    """The beginning of the session's id."""
    agent: str | Sequence[str]
    """Any of these agents. Models, repositories and folders work in the same way."""
    model: str | Sequence[str]
    repository: str | Sequence[str]
    folder: str | Sequence[str]
    tags: Sequence[str]
    """All of these tags."""
    status: Status | Literal["all"]
    """Default: all except archived sessions."""
    errors: bool
    """Only sessions with failed steps, or only those without."""
    likely_failures: bool
    """Only sessions with likely failures, or only those without."""
    first: date | str
    """The first day, in UTC, of the sessions' newest entries."""
    last: date | str
    undated: bool
    """Only sessions whose transcript has no times, or only those with times."""


def sessions(
    *, sort: str | None = None, limit: int | None = None, **filters: Unpack[SessionChoice]
) -> Pages[SessionItem]:
    """The project's sessions, newest first.

    Args:
        sort: another order: ``started``, ``-tokens`` … A ``-`` puts the highest or newest first.
        limit: the number of sessions of each request.
    """
    return pages("/sessions", SessionPage, **_query(filters), sort=sort, limit=limit)


def session_facets(**filters: Unpack[SessionChoice]) -> ApiCall[SessionFacets]:
    """How many sessions match, and how many would match with another agent, model, tag …"""
    return get("/facets", SessionFacets, **_query(filters))


def _query(filters: SessionChoice) -> dict[str, Any]:
    names = {"tags": "tag", "first": "from", "last": "to"}
    query = {names.get(name, name): value for name, value in filters.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in query.items()}


def session(session_id: Id, *, as_of: int | None = None) -> ApiCall[SessionOut]:
    """One session, as of a position."""
    return get(path_of("sessions", session_id), SessionOut, as_of=as_of)


def change_session(
    session_id: Id,
    *,
    title: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    status: Status | None = None,
    tags: Sequence[str] | None = None,
    settings: SettingsIn | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ApiCall[SessionOut]:
    """Changes the given fields. ``tags`` replaces all tags; see :func:`annotate_session`."""
    names = {"title": title, "agent": agent, "model": model, "status": status}
    body = drop_nulls({**names, **_json_fields(tags, settings, metadata)})
    return ApiCall("PATCH", path_of("sessions", session_id), SessionOut.model_validate, body=body)


def annotate_session(
    session_id: Id,
    *,
    add_tags: Sequence[str] = (),
    remove_tags: Sequence[str] = (),
    note: str | None = None,
    score: float | Literal["remove"] | None = None,
    score_name: str | None = None,
    expected: Mapping[str, Any] | None = None,
) -> ApiCall[SessionOut]:
    """Sets the tags, the note and the score of a session.

    Args:
        add_tags, remove_tags: the session keeps its other tags.
        note: an empty text removes the note.
        score_name: what the score measures.
        expected: any of ``tags``, ``note``, ``score`` and ``score_name`` as you read them.

    Raises:
        Conflict: when a value is not as expected. Nothing is changed then.
    """
    tags = {"add_tags": list(add_tags) or None, "remove_tags": list(remove_tags) or None}
    number = None if score == "remove" else score
    body = drop_nulls({**tags, "note": note, "score": number, "score_name": score_name, "expected": expected})
    if score == "remove":
        body["score"] = None
    return ApiCall("PATCH", path_of("sessions", session_id), SessionOut.model_validate, body=body)


def archive_session(session_id: Id) -> ApiCall[None]:
    """Archives a session. It stays readable, and :meth:`change_session` can set it back to ``live``."""
    return ApiCall("DELETE", path_of("sessions", session_id), lambda _: None)


def erase_session(session_id: Id) -> ApiCall[ErasedOut]:
    """Deletes an archived session for good, with all its data. Needs a key with the scope ``admin``.

    Raises:
        Conflict: when the session is not archived, or has forks.
    """
    path = path_of("sessions", session_id)
    return ApiCall("DELETE", path, ErasedOut.model_validate, query={"erase": "true"})


def fork(
    session_id: Id,
    *,
    at_step: int | None = None,
    at_position: int | None = None,
    title: str | None = None,
    id: Id | None = None,
) -> ApiCall[SessionOut]:
    """Creates a session that shares this session's history up to a step or position, or all of it.

    Args:
        at_step: 0 shares nothing; negative numbers count from the end.
        id: the id of the new session.
    """
    body = {"at_step": at_step, "at_position": at_position, "title": title, "id": id}
    return post(path_of("sessions", session_id, "forks"), SessionOut, body)


def _json_fields(
    tags: Sequence[str] | None, settings: SettingsIn | None, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    if isinstance(settings, SessionSettings):
        settings = settings.model_dump(exclude_unset=True)
    return {"tags": None if tags is None else list(tags), "settings": settings, "metadata": metadata}
