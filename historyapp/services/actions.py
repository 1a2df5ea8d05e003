"""Records one action at a time: a proposal before it runs, then its result."""

from uuid import UUID

from historyapp.core.entries import EntryDraft, ModelOutput, ToolResults
from historyapp.core.json import dump_json
from historyapp.core.prepared import Prepared, prepare, with_facts
from historyapp.core.projection import Step
from historyapp.models import Project, Session
from historyapp.services.append import (
    AppendedEntries,
    action_in_flight,
    append_locked,
    check_open,
    check_position,
    complete,
    lock_session,
    no_action_in_flight,
    read_session,
)
from historyapp.services.linked_snapshots import named_snapshots
from historyapp.services.packing import pack_in_thread
from historyapp.services.transactions import writing

_LONG = 1 << 19
"""Characters of JSON. Compressing more takes too long for a transaction."""
_START = '{"results":[{'
"""The start of a stored result. The name of its tool follows."""


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
    prepared = with_facts(prepare(complete(draft)))
    bodies = pack_in_thread([prepared.body])
    named = named_snapshots(session_id, [draft])
    with writing():
        session = lock_session(project, session_id, to_append=True)
        check_position(session, expected_position)
        check_open(session)
        step = session.live_tail.step
        if session.status == Session.Status.LIVE and step and step.status == "in_flight":
            raise action_in_flight(step)
        return append_locked(session, [prepared], bodies, named)


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
    prepared = prepare(draft)
    early = None
    if len(prepared.body) > _LONG:
        early = _with_tool(prepared, _tool_of(read_session(project, session_id).live_tail.step))
        bodies = pack_in_thread([early.body])
    with writing():
        session = lock_session(project, session_id, to_append=True)
        check_position(session, expected_position)
        check_open(session)
        step = session.live_tail.step
        if step is None or step.status != "in_flight":
            raise no_action_in_flight()
        tool = _tool_of(step)
        if early is not None and _named_tool(early) == tool:
            return append_locked(session, [early], bodies)
        return append_locked(session, [_with_tool(prepared, tool)])


def _tool_of(step: Step | None) -> str | None:
    """The name of the first tool of the newest step."""
    return step.tool_names[0] if step and step.tool_names else None


def _named_tool(prepared: Prepared) -> str | None:
    assert isinstance(prepared.draft.body, ToolResults)
    return prepared.draft.body.results[0].tool_name


def _with_tool(prepared: Prepared, tool: str | None) -> Prepared:
    """The prepared result with the name of its tool. Writing a long result again would take too long."""
    body = prepared.draft.body
    assert isinstance(body, ToolResults)
    assert prepared.body.startswith(f'{_START}"status"')
    if tool is None:
        return prepared
    result = body.results[0].model_copy(update={"tool_name": tool})
    return prepared._replace(
        draft=prepared.draft._replace(body=ToolResults(results=(result,))),
        body=f'{_START}"tool_name":{dump_json(tool)},{prepared.body[len(_START) :]}',
    )
