"""Finds the tool calls that started sub-agents. Sessions may be imported in any order."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any
from uuid import UUID

from django.db.models import F, Q

from historyapp.core.call_subjects import AGENTS
from historyapp.core.entries import text_of
from historyapp.core.subagent_calls import (
    AgentIds,
    StartingCalls,
    SubagentCall,
    SubagentTraits,
    subagent_call,
    task_digest,
)
from historyapp.models import Episode, ImportSource, Session, StaleOutcomes
from historyapp.models.episodes import SEVERAL_TOOLS
from historyapp.models.first_inputs import MAX_SESSIONS, first_inputs
from historyapp.models.metadata_texts import metadata_texts
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.services.summaries import increase_revisions
from historyapp.services.transactions import lock_together, write_in_parts, writing

_KINDS = ("model_output", "tool_results")
MAX_UNLINKED = 1_000
"""The maximum number of sub-agents of one session whose tool calls are searched for at once, the newest."""
_MAX_GAP = 10
"""The maximum number of positions between two steps that are read together."""
_MAX_READ = 1 << 27
"""The maximum number of bytes of a session's steps that one search for calls loads. Real ones take less."""
LINKED_AT_ONCE = 100
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
    for parent, children in by_parent.items():
        newest = sorted(children[:MAX_UNLINKED])
        traits = dict[UUID, SubagentTraits]()
        for start in range(0, len(newest), MAX_SESSIONS):
            traits |= _traits(newest[start : start + MAX_SESSIONS])
        agents = AgentIds(id for child in traits.values() for id in child.ids)
        calls = StartingCalls(_starting_calls(parent, agents))
        positions = {id: calls.position_of(child) for id, child in traits.items()}
        found = [(id, position) for id, position in positions.items() if position is not None]
        write_in_parts(found, LINKED_AT_ONCE, partial(_store_positions, parent))
        # If most were found, a worker links the next ones. Otherwise it could search for the same ones again.
        if len(children) > MAX_UNLINKED and len(found) >= MAX_UNLINKED / 2:
            with writing():
                head = Session.objects.filter(pk=parent).values_list("head", flat=True).first()
                if head is not None:
                    row = StaleOutcomes(session_id=parent, after=head)  # its outcomes need not be computed
                    StaleOutcomes.objects.bulk_create([row], ignore_conflicts=True)


def _store_positions(parent: UUID, found: Sequence[tuple[UUID, int]]) -> None:
    """Stores the positions of the calls that started some sub-agents of a session."""
    by_position: dict[int, list[UUID]] = {}
    for id, position in found:
        by_position.setdefault(position, []).append(id)
    lock_together(Session.objects.filter(pk__in=[id for id, _ in found]))
    for position, ids in by_position.items():
        same = Session.objects.filter(pk__in=ids)
        same.update(spawned_position=position, revision=F("revision") + 1)
    increase_revisions(parent)


def _traits(ids: Sequence[UUID]) -> dict[UUID, SubagentTraits]:
    """The traits of at most :data:`MAX_SESSIONS` sessions, read in a fixed number of statements."""
    rows = Session.objects.filter(pk__in=ids)
    children = list(rows.defer("settings", "tail", "search_text", "strip").order_by("pk"))
    named = {id: list(texts.values()) for id, texts in metadata_texts(rows, "tool_call_id", "agent_id")}
    imported = ImportSource.objects.filter(session__in=ids).order_by("-pk")
    sources = dict(imported.values_list("session_id", "source_id"))
    inputs: dict[UUID, list[tuple[int, bytes | None]]] = {child.pk: [] for child in children}
    # Some harnesses send a description of the environment before the task.
    for first in first_inputs(children, _FIRST_INPUTS):
        text = text_of(first.body.get("content")).strip()
        inputs[first.session].append((first.position, task_digest(text) if text else None))
    traits = dict[UUID, SubagentTraits]()
    for child in children:
        first_of_child = sorted(inputs[child.pk])[:_FIRST_INPUTS]
        tasks = {task for _, task in first_of_child if task is not None}
        file_id = sources.get(child.pk, "").rpartition("/")[2].removeprefix("agent-")
        ids_of_child = [id for id in (*named.get(child.pk, ()), file_id) if id]
        traits[child.pk] = SubagentTraits(ids_of_child, tasks)
    return traits


def _starting_calls(parent: UUID, agents: AgentIds) -> Iterator[SubagentCall]:
    """The tool calls of a session that may have started sub-agents, takes included.

    They are those in the first :data:`_MAX_READ` bytes of its steps that may have such calls.
    """
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

    in_ranges = (own_rows(parent, first, last) for first, last in _ranges(steps))
    for _, in_step in groupby(filter(step_of, _first_bytes(chain.from_iterable(in_ranges))), step_of):
        if found := subagent_call(map(OwnRow.core, in_step), agents):
            yield found


def _first_bytes(rows: Iterable[OwnRow]) -> Iterator[OwnRow]:
    read = 0
    for row in rows:
        read += row.size
        if read > _MAX_READ:
            return
        yield row


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
