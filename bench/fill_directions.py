"""Sessions that are long in one direction, with counterparts that are short in it. Runs inside Django.

A fill creates one of the two and returns the sessions that are read; both have equally many live steps.
"""

from collections.abc import Callable, Iterator
from itertools import count
from uuid import UUID

from bench.fill import TASK, step
from bench.machinery import action, result
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.session_metadata import MAX_TAGS
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary

STEPS = 1_000
"""Live steps of the sessions that are not long in steps."""
CHILDREN = 60
"""Sessions that a list of sessions shows."""


def _begin(project: Project, title: str, steps: int = 0) -> UUID:
    session = create_session(project, names={"title": title})
    append(project, session.pk, [EntryDraft(ModelInput(content=TASK))])
    _append_steps(project, session.pk, steps)
    return session.pk


def _append_steps(project: Project, session: UUID, steps: int, first: int = 0) -> None:
    """Appends steps; ``first`` numbers their texts, and every tenth of them fails."""
    for start in range(first, first + steps, 1000):
        numbers = range(start, min(first + steps, start + 1000))
        append(project, session, [draft for number in numbers for draft in step(number)])


def rewinds(project: Project, amount: int, total: int) -> UUID:
    """Each rewind cuts off one step, and the session continues after it, which adds one span."""
    session = _begin(project, f"{amount} rewinds")
    for number in range(amount):
        _append_steps(project, session, total // amount + 1, number * (total // amount))
        rewind(project, session, Target(episodes=1))
    return session


def takes(project: Project, amount: int, total: int) -> UUID:
    """Step 6 is repeated before the session continues: many takes with the same step numbers."""
    session = _begin(project, f"{amount} takes of one step", 5)
    for _ in range(amount):
        _append_steps(project, session, 1)
        rewind(project, session, Target(episodes=1))
    _append_steps(project, session, STEPS - 5)
    return session


def forks(project: Project, amount: int, total: int) -> UUID:
    """Each fork is a fork of the previous one and adds a few steps."""
    session = _begin(project, "the first", STEPS // amount)
    for number in range(1, amount):
        session = fork(project, session).pk
        _append_steps(project, session, STEPS // amount, number * (STEPS // amount))
    for _ in range(CHILDREN):
        create_session(project, names={"title": "another"})
    return session


def tags(project: Project, amount: int, total: int) -> UUID:
    """A project with many tags, 50 in each of its sessions. A session has at most 50."""
    numbers = count()
    for _ in range(200):
        session_tags = [f"tag {next(numbers) % amount}" for _ in range(MAX_TAGS)]
        create_session(project, names={"title": "tagged"}, tags=session_tags)
    session = _begin(project, "many tags", STEPS)
    row = Session.objects.get(pk=session)
    row.tags = [f"tag {number}" for number in range(min(amount, MAX_TAGS))]
    row.save()
    return session


def subagents(project: Project, amount: int, total: int) -> UUID:
    """A session whose agent started many others."""
    session = _begin(project, f"{amount} sub-agents", STEPS)
    Session.objects.bulk_create(
        [Session(project=project, title=f"child {n}", spawned_by_id=session) for n in range(amount)]
    )
    for _ in range(CHILDREN):
        create_session(project, names={"title": "another"})
    return session


def summaries(project: Project, amount: int, total: int) -> UUID:
    """Summaries of single steps, oldest first."""
    session = _begin(project, f"{amount} summaries", total)
    distance = total // amount
    for number in range(amount):
        at = 1 + number * distance
        add_summary(project, session, (at, at), SummaryText(f"Found the cause in file {number}."))
    return session


def calls(project: Project, amount: int, total: int) -> UUID:
    """The step in the middle has many tool calls, each with its result in a separate entry."""
    session = _begin(project, f"a step of {amount} calls", STEPS // 2 - 1)
    ids = [f"call {number}" for number in range(amount)]
    tool_calls = tuple(ToolCall(id=id, name="read", arguments={"path": id}) for id in ids)
    results = [
        ToolResults(results=(ToolResult(tool_call_id=id, status="success", outputs=id),)) for id in ids
    ]
    append(project, session, [EntryDraft(body) for body in (ModelOutput(tool_calls=tool_calls), *results)])
    _append_steps(project, session, STEPS // 2)
    return session


def open_calls(project: Project, amount: int, total: int) -> UUID:
    """The newest step waits for the results of many tool calls."""
    session = _begin(project, f"{amount} open calls", STEPS - 1)
    tool_calls = tuple(ToolCall(id=f"call {number}", name="read") for number in range(amount))
    append(project, session, [EntryDraft(ModelOutput(tool_calls=tool_calls))])
    return session


Fill = Callable[[Project, int, int], UUID]
DIRECTIONS: dict[str, tuple[Fill, int, int]] = {
    "rewinds": (rewinds, 10, 10_000),
    "takes": (takes, 10, 10_000),
    "forks": (forks, 2, 200),
    "tags": (tags, 10, 10_000),
    "subagents": (subagents, 10, 10_000),
    "summaries": (summaries, 10, 5_000),
    "calls": (calls, 10, 1_000),
    "open_calls": (open_calls, 20, 1_000),
}
"""For each direction: the function that fills it, the short amount and the long amount."""


def numbered_steps() -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """Bodies of actions and results, endlessly."""
    return ((action(number), result(number)) for number in count())
