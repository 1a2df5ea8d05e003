"""Records one action at a time: a proposal before it runs, then its result."""

from uuid import UUID

from historyapp.core.entries import EntryDraft, ModelOutput, ToolResults
from historyapp.core.errors import Conflict
from historyapp.core.prepared import prepare
from historyapp.core.tokens import entry_tokens
from historyapp.models import Project, Session
from historyapp.services.append import (
    ACTION_IN_FLIGHT,
    NO_ACTION_IN_FLIGHT,
    AppendedEntries,
    append_locked,
    check_open,
    check_position,
    complete,
    lock_session,
)
from historyapp.services.transactions import writing


def register_action(
    project: Project, session_id: UUID, draft: EntryDraft, *, expected_position: int | None = None
) -> AppendedEntries:
    """Appends a proposed action, a ``model_output``.

    Raises:
        NotFound: when the project has no such session.
        Conflict: when an action is in flight, the head is not ``expected_position``, or the session is
            archived.
        Invalid: when two of its tool calls share an id.
    """
    assert isinstance(draft.body, ModelOutput)
    prepared = prepare(complete(draft))
    with writing():
        session = lock_session(project, session_id, to_append=True)
        check_position(session, expected_position)
        check_open(session)
        step = session.live_tail.step
        if session.status == Session.Status.LIVE and step and step.status == "in_flight":
            raise Conflict(ACTION_IN_FLIGHT)
        return append_locked(session, [prepared])


def register_result(
    project: Project, session_id: UUID, draft: EntryDraft, *, expected_position: int | None = None
) -> AppendedEntries:
    """Appends one result for the whole action in flight, with the name of the action's first tool.

    Args:
        draft: ``tool_results`` with one result that names neither a tool call nor a tool.

    Raises:
        NotFound: when the project has no such session.
        Conflict: when no action is in flight, the head is not ``expected_position``, or the session is
            archived.
    """
    assert isinstance(draft.body, ToolResults)
    tokens = entry_tokens(draft.body)
    with writing():
        session = lock_session(project, session_id, to_append=True)
        check_position(session, expected_position)
        check_open(session)
        step = session.live_tail.step
        if step is None or step.status != "in_flight":
            raise Conflict(NO_ACTION_IN_FLIGHT)
        result = draft.body.results[0]
        if step.tool_names:
            result = result.model_copy(update={"tool_name": step.tool_names[0]})
        return append_locked(session, [prepare(draft._replace(body=ToolResults(results=(result,))), tokens)])
