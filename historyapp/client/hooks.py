"""The hooks for an agent's loop, as API calls. Both recorders use them."""

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

from historyapp.client.api_call import ApiCall, Id
from historyapp.client.endpoints import entries, episodes, rewinds, sessions
from historyapp.client.write_responses import Appended, Registered
from historyapp.core.actions import (
    ActionError,
    ActionInterrupted,
    ActionProposal,
    ActionSuccess,
    as_tool_result,
    from_exception,
)
from historyapp.core.entries import ModelInput, ToolCall, ToolResults
from historyapp.core.json import depth_exceeds, dump_json
from historyapp.wire.contexts import MessageOut
from historyapp.wire.episodes import ToolCallOut
from historyapp.wire.rewinds import RewindOut
from historyapp.wire.sessions import SessionOut

C = TypeVar("C", covariant=True)


class SessionOfClient(Generic[C]):
    """One session, and the client that reaches it."""

    def __init__(self, playhead: C, session_id: Id) -> None:
        self.playhead = playhead
        self.session_id = UUID(str(session_id))


def configure(session_id: Id, /, **settings: Any) -> ApiCall[SessionOut]:
    """Changes session settings: ``full_message_count``, ``max_tokens`` …"""
    return sessions.change_session(session_id, settings=settings)


def get_messages(session_id: Id, *, max_tokens: int | None = None) -> ApiCall[list[MessageOut]]:
    """The context of the policy ``episodic``, with the session's settings."""
    api_call = episodes.messages(session_id, max_tokens=max_tokens)
    return ApiCall("GET", api_call.path, lambda data: api_call.read(data).messages, api_call.query)


def say(session_id: Id, content: Any, *, channel: str = "user") -> ApiCall[Appended]:
    """Records the input from a person or another program: text, or a list of parts."""
    return append(session_id, ModelInput(channel=channel, content=content))


def append(session_id: Id, *entries_: entries.NewEntry) -> ApiCall[Appended]:
    """Records entries of any kinds: all of them or none."""
    return entries.append(session_id, entries_)


def after_parse(
    session_id: Id, proposal: ActionProposal, *, metadata: Mapping[str, Any] | None = None
) -> ApiCall[Registered]:
    """Records an action before it runs.

    Args:
        metadata: any fields: ``usage``, ``cost``, ``model`` …

    Raises:
        Conflict: while another action is in flight.
    """
    return entries.register_action(session_id, proposal, metadata=metadata)


def after_execute(
    session_id: Id, result: object, *, metadata: Mapping[str, Any] | None = None
) -> ApiCall[Registered]:
    """Records the result of the action in flight.

    Args:
        result: ``ActionSuccess``, ``ActionError`` or ``ActionInterrupted``. An exception is recorded as an
            error, any other value as a success.

    Raises:
        Conflict: when no action is in flight.
    """
    return entries.register_result(session_id, result_of(result), metadata=metadata)


def after_call(session_id: Id, call: ToolCall | ToolCallOut, result: object) -> ApiCall[Appended]:
    """Records the result of one provider tool call; ``result`` as in :meth:`after_execute`."""
    tool_result = as_tool_result(result_of(result), call.name).model_copy(update={"tool_call_id": call.id})
    return append(session_id, ToolResults(results=(tool_result,)))


def rewind(session_id: Id, number_of_episodes: int = 0, *, reason: str | None = None) -> ApiCall[RewindOut]:
    """Drops the step in flight, then this many finished steps. They stay readable as a take."""
    return rewinds.rewind(session_id, episodes=number_of_episodes, reason=reason)


def fmt_list(session_id: Id) -> ApiCall[str]:
    """A line for each step."""
    return episodes.progress(session_id, "list")


def fmt_paragraph(session_id: Id) -> ApiCall[str]:
    """Each step in its long form."""
    return episodes.progress(session_id, "paragraph")


def compile_progress(session_id: Id, *, max_tokens: int | None = None) -> ApiCall[str]:
    """Summaries, and long forms if there are none, within a budget in tokens."""
    return episodes.progress(session_id, "compiled", max_tokens=max_tokens)


def result_of(outcome: object) -> entries.Result:
    """Returns a result unchanged, an exception as an error, and any other value as a success."""
    match outcome:
        case ActionSuccess():
            return ActionSuccess(outputs=recordable(outcome.outputs))
        case ActionError() | ActionInterrupted():
            return outcome
        case BaseException():
            details = from_exception(outcome)
            return ActionError(reason=details.message or details.repr, error=details)
    return ActionSuccess(outputs=recordable(outcome))


def recordable(value: Any) -> Any:
    """The value if JSON can represent it exactly, otherwise its text, which is what a model would read."""
    if isinstance(value, str):
        return value
    try:
        if not depth_exceeds(value) and json.loads(dump_json(value)) == value:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return str(value)
    except Exception:  # noqa: BLE001  a broken __str__ may raise anything
        return f"<{type(value).__name__} that cannot be shown>"
