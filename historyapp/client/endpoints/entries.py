"""Appends entries to the log, and reads them by position."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, get, pages, path_of, post
from historyapp.client.write_responses import Appended, Registered, SpoolableResponse
from historyapp.core.actions import ActionError, ActionInterrupted, ActionProposal, ActionSuccess
from historyapp.core.entries import Body, EntryDraft, ModelOutput, dump_body
from historyapp.wire.entries import EntryOut, EntryPage

NewEntry = Body | EntryDraft | Mapping[str, Any]
"""A body of the core, an ``EntryDraft`` with metadata and time, or an entry as the API's JSON."""
Result = ActionSuccess | ActionError | ActionInterrupted
Order = Literal["oldest", "newest"]
ResponseT = TypeVar("ResponseT", bound=SpoolableResponse)


def append(
    session_id: Id,
    entries: Iterable[NewEntry],
    *,
    expected_position: int | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[Appended]:
    """Appends entries of any kinds: all of them or none.

    Args:
        expected_position: the head that you expect.
        idempotency_key: a repetition with the same key adds nothing, even after a restart.

    Raises:
        Conflict: when the head has changed; ``head`` is the current head.
    """
    body = {"entries": [_entry(entry) for entry in entries], "expected_position": expected_position}
    return _write(path_of("sessions", session_id, "entries"), Appended, body, idempotency_key)


def register_action(
    session_id: Id,
    action: ActionProposal,
    *,
    metadata: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    expected_position: int | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[Registered]:
    """Records an action before it runs.

    Args:
        action: may be of a subclass; its additional fields are stored in the metadata as ``proposal``.

    Raises:
        Conflict: while another action is in flight.
    """
    # Thoughts may be the agent's own pydantic model; the entry's body has them as an object.
    output = ModelOutput(thoughts=action.thoughts, use_tool=action.use_tool, raw_message=action.raw_message)
    extra_fields = set(type(action).model_fields) - set(ActionProposal.model_fields)
    if extra_fields:
        metadata = {**(metadata or {}), "proposal": action.model_dump(mode="json", include=extra_fields)}
    body = {
        "use_tool": action.use_tool.model_dump(),
        **dump_body(output),
        "metadata": metadata or None,
        "created_at": created_at,
        "expected_position": expected_position,
    }
    return _write(path_of("sessions", session_id, "actions"), Registered, body, idempotency_key)


def register_result(
    session_id: Id,
    result: Result,
    *,
    metadata: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    expected_position: int | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[Registered]:
    """Records the result of the action in flight.

    Raises:
        Conflict: when no action is in flight.
    """
    options = {"metadata": metadata, "created_at": created_at, "expected_position": expected_position}
    body = {**result.model_dump(exclude_none=True), **options}
    return _write(path_of("sessions", session_id, "results"), Registered, body, idempotency_key)


def append_step(
    session_id: Id,
    *,
    analysis_result: Any,
    execution_result: Any,
    supervision_result: Any,
    timestamp: datetime | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[Registered]:
    """Appends a whole step: action, result and review."""
    body = {
        "analysis_result": analysis_result,
        "execution_result": execution_result,
        "supervision_result": supervision_result,
        **drop_nulls({"timestamp": timestamp}),
    }
    return ApiCall(
        "POST",
        path_of("sessions", session_id, "steps"),
        Registered.model_validate,
        body=body,  # null results are sent too
        idempotency_key=idempotency_key,
        spooled=Registered.in_spool,
    )


def entries(
    session_id: Id,
    *,
    after: int | None = None,
    before: int | None = None,
    kind: str | None = None,
    take: Literal["live", "all"] | None = None,
    order: Order | None = None,
    limit: int | None = None,
    as_of: int | None = None,
) -> Pages[EntryOut]:
    """Entries by position, both bounds excluded.

    Args:
        take: ``all`` includes entries that rewinds cut off.
        order: ``oldest`` first unless ``newest``.
        limit: the number of entries of each request.
    """
    return pages(
        path_of("sessions", session_id, "entries"),
        EntryPage,
        after=after,
        before=before,
        kind=kind,
        take=take,
        order=order,
        limit=limit,
        as_of=as_of,
    )


def entry(session_id: Id, position: int, *, as_of: int | None = None) -> ApiCall[EntryOut]:
    """One entry, live or in a take."""
    return get(path_of("sessions", session_id, "entries", position), EntryOut, as_of=as_of)


def _write(
    path: str, response: type[ResponseT], body: Mapping[str, Any], key: str | None
) -> ApiCall[ResponseT]:
    """A POST that can be spooled unless it checks the head, which may change before the write is sent."""
    api_call = post(path, response, body, key=key)
    return (
        api_call if "expected_position" in drop_nulls(body) else replace(api_call, spooled=response.in_spool)
    )


def _entry(entry: NewEntry) -> Mapping[str, Any]:
    if isinstance(entry, Mapping):
        return entry
    if isinstance(entry, EntryDraft):
        envelope = drop_nulls({"metadata": entry.metadata or None, "created_at": entry.created_at})
        return {"kind": entry.body.kind, **dump_body(entry.body), **envelope}
    return {"kind": entry.kind, **dump_body(entry)}
