"""Finds the tool calls that started sub-agents. Sessions may be imported in any order."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import F, Q

from historyapp.core.call_subjects import AGENTS
from historyapp.core.entries import text_of
from historyapp.core.subagent_calls import (
    SubagentCall,
    SubagentTraits,
    position_of_call,
    subagent_call,
    task_digest,
)
from historyapp.models import Episode, ImportSource, Session
from historyapp.models.episodes import SEVERAL_TOOLS
from historyapp.models.history import History
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.services.summaries import increase_revisions
from historyapp.services.transactions import write_in_parts

_KINDS = ("model_output", "tool_results")
MAX_UNLINKED = 1_000
"""The maximum number of sub-agents of one session whose tool call is searched for, the newest ones."""
_MAX_GAP = 10
"""The maximum number of positions between two steps that are read together."""
_LINKED_AT_ONCE = 100
"""Sub-agents that one transaction links."""
_FIRST_INPUTS = 5
"""The task of a sub-agent is among its first inputs. This many are searched."""


def link_subagents(sessions: Iterable[UUID]) -> None:
    """Stores which tool calls started the sub-agents of these sessions, and which started these sessions."""
    ids = set(sessions)
    started = Session.objects.filter(pk__in=ids, spawned_by__isnull=False)
    parents = ids.union(started.values_list("spawned_by_id", flat=True))
    unlinked = Session.objects.filter(spawned_by__in=parents, spawned_position=None).order_by("-pk")
    by_parent: dict[UUID, list[UUID]] = {}
    for child_id, parent_id in unlinked.values_list("pk", "spawned_by_id"):
        if parent_id is not None:
            by_parent.setdefault(parent_id, []).append(child_id)
    sessions_with_metadata = Session.objects.defer("settings", "tail", "search_text", "strip")
    for parent, children in by_parent.items():
        newest = sessions_with_metadata.filter(pk__in=children[:MAX_UNLINKED])
        traits = {child.pk: _traits(child) for child in newest.order_by("pk")}
        agents = {id for child in traits.values() for id in child.ids}
        tool_calls = list(_starting_calls(parent, agents))
        if not tool_calls:
            continue
        positions = {id: position_of_call(child, tool_calls) for id, child in traits.items()}
        found = [(id, position) for id, position in positions.items() if position is not None]
        write_in_parts(found, _LINKED_AT_ONCE, partial(_store_positions, parent))


def _store_positions(parent: UUID, found: Sequence[tuple[UUID, int]]) -> None:
    """Stores the positions of the calls that started some sub-agents of a session."""
    by_position: dict[int, list[UUID]] = {}
    for id, position in found:
        by_position.setdefault(position, []).append(id)
    rows = Session.objects.filter(pk__in=[id for id, _ in found])
    list(rows.select_for_update().order_by("pk").values_list("pk"))  # in the order of every writer
    for position, ids in by_position.items():
        same = Session.objects.filter(pk__in=ids)
        same.update(spawned_position=position, revision=F("revision") + 1)
    increase_revisions(parent)


def _traits(child: Session) -> SubagentTraits:
    source = ImportSource.objects.filter(session=child).values_list("source_id", flat=True).first() or ""
    named = (child.metadata.get("tool_call_id"), child.metadata.get("agent_id"))
    file_id = source.rpartition("/")[2].removeprefix("agent-")
    ids = [id for id in (*named, file_id) if isinstance(id, str) and id]
    # Some harnesses send a description of the environment before the task.
    first = History(child).entries(kinds=("model_input",), limit=_FIRST_INPUTS)
    tasks = [text_of(entry.body.get("content")).strip() for entry in first]
    return SubagentTraits(ids, {task_digest(task) for task in tasks if task})


def _starting_calls(parent: UUID, agents: Collection[str]) -> Iterator[SubagentCall]:
    """The tool calls of a session that may have started sub-agents, takes included."""
    has_several = Q(tool=SEVERAL_TOOLS)
    rows = Episode.objects.filter(Q(kind="agent") | has_several, session_id=parent).order_by("anchor")
    columns: Any = rows.values_list("kind", "tool_names", "first_position", "last_position")
    steps = dict[int, int]()  # a step that a rewind has cut has several rows
    for kind, names, first, last in columns.iterator():
        if kind == "agent" or not AGENTS.isdisjoint(map(str.lower, names)):
            steps[first] = max(last, steps.get(first, 0))
    firsts = sorted(steps)

    def step_of(row: OwnRow) -> int:
        """The first position of the step of an output or a result; 0 if it belongs to none of the steps."""
        index = bisect_right(firsts, row.position) - 1
        first = firsts[index] if index >= 0 else 0
        return first if row.kind in _KINDS and row.position <= steps.get(first, 0) else 0

    for first, last in _ranges(steps):
        for _, in_step in groupby(filter(step_of, own_rows(parent, first, last)), step_of):
            if found := subagent_call(map(OwnRow.core, in_step), agents):
                yield found


def _ranges(steps: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Ranges of positions that contain the steps. Steps that are close together are in one range."""
    ordered = sorted(steps.items())
    if not ordered:
        return
    first, last = ordered[0]
    for next_first, next_last in ordered[1:]:
        if next_first - last > _MAX_GAP:
            yield first, last
            first = next_first
        last = max(last, next_last)
    yield first, last
