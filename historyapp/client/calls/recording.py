"""What an agent appends to the log, and reading the log by position."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from historyapp.client.answers import Appended, Entry, Recorded, Registered
from historyapp.client.calls.making import Id, at, get, given, pages, post
from historyapp.client.description import Call, Pages
from historyapp.core.actions import ActionProposal
from historyapp.core.entries import Body, EntryDraft, ModelOutput, dump_body
from historyapp.core.results import ActionError, ActionInterrupted, ActionSuccess

NewEntry = Body | EntryDraft | Mapping[str, Any]
"""A body of the core; with ``EntryDraft`` its metadata and time too; or an object as the API takes it."""
Result = ActionSuccess | ActionError | ActionInterrupted
Order = Literal["oldest", "newest"]
R = TypeVar("R", bound=Recorded)


def append(
    session_id: Id,
    entries: Iterable[NewEntry],
    *,
    expected_position: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Appended]:
    """Appends entries of any kinds: all of them or none.

    Args:
        expected_position: the head that you saw.
        idempotency_key: repeating the call with the same one adds nothing, even after a restart.

    Raises:
        Conflict: when the head is another by now; ``head`` tells which.
    """
    body = {"entries": [_entry(entry) for entry in entries], "expected_position": expected_position}
    call = post(at("sessions", session_id, "entries"), Appended, body, key=idempotency_key)
    return _spoolable(call, Appended, expected_position)


def register_action(
    session_id: Id,
    action: ActionProposal,
    *,
    metadata: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    expected_position: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Registered]:
    """Records an action, before it runs.

    Args:
        action: of a subclass too: fields that it adds are kept in the metadata, under ``proposal``.

    Raises:
        Conflict: while another action is in flight.
    """
    told = {**(metadata or {}), **_own_fields(action)} or None
    more = {"metadata": told, "created_at": created_at, "expected_position": expected_position}
    body = {**_proposal(action), **more}
    call = post(at("sessions", session_id, "actions"), Registered, body, key=idempotency_key)
    return _spoolable(call, Registered, expected_position)


def register_result(
    session_id: Id,
    result: Result,
    *,
    metadata: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    expected_position: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Registered]:
    """Records what came back of the action in flight.

    Raises:
        Conflict: when no action is in flight.
    """
    more = {"metadata": metadata, "created_at": created_at, "expected_position": expected_position}
    body = {**result.model_dump(exclude_none=True), **more}
    call = post(at("sessions", session_id, "results"), Registered, body, key=idempotency_key)
    return _spoolable(call, Registered, expected_position)


def append_step(
    session_id: Id,
    *,
    analysis_result: Any,
    execution_result: Any,
    supervision_result: Any,
    timestamp: datetime | None = None,
    idempotency_key: str | None = None,
) -> Call[Registered]:
    """Appends a whole step: action, result and review."""
    body = {
        "analysis_result": analysis_result,
        "execution_result": execution_result,
        "supervision_result": supervision_result,
        **given({"timestamp": timestamp}),
    }
    path = at("sessions", session_id, "steps")
    call = Call("POST", path, Registered.model_validate, body=body, idempotency_key=idempotency_key)
    return _spoolable(call, Registered)


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
) -> Pages[Entry]:
    """Entries by position, both bounds left out.

    Args:
        take: ``all`` for what rewinds cut off too.
        order: ``oldest`` first unless ``newest``.
        limit: how many to fetch at once.
    """
    return pages(
        at("sessions", session_id, "entries"),
        Entry,
        after=after,
        before=before,
        kind=kind,
        take=take,
        order=order,
        limit=limit,
        as_of=as_of,
    )


def entry(session_id: Id, position: int, *, as_of: int | None = None) -> Call[Entry]:
    """One entry, live or in a take."""
    return get(at("sessions", session_id, "entries", position), Entry, as_of=as_of)


def _spoolable(call: Call[R], answer: type[R], expected_position: int | None = None) -> Call[R]:
    """The call as one that can wait on disk. A check of the head only makes sense at once."""
    return call if expected_position is not None else replace(call, spooled=answer.in_spool)


def _proposal(action: ActionProposal) -> dict[str, Any]:
    """The fields that every proposal has; thoughts of the agent's own model as an object."""
    output = ModelOutput(thoughts=action.thoughts, use_tool=action.use_tool, raw_message=action.raw_message)
    fields = dump_body(output)
    return {"use_tool": action.use_tool.model_dump(), **fields}


def _own_fields(action: ActionProposal) -> dict[str, Any]:
    """What a subclass of the proposal adds, as metadata of its entry."""
    added = set(type(action).model_fields) - set(ActionProposal.model_fields)
    return {"proposal": action.model_dump(mode="json", include=added)} if added else {}


def _entry(entry: NewEntry) -> Mapping[str, Any]:
    if isinstance(entry, EntryDraft):
        more = given({"metadata": entry.metadata or None, "created_at": entry.created_at})
        return {"kind": entry.body.kind, **dump_body(entry.body), **more}
    return entry if isinstance(entry, Mapping) else {"kind": entry.kind, **dump_body(entry)}
