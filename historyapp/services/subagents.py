"""Finds the tool calls that started sub-agents. Sessions may be imported in any order."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q

from historyapp.core.call_subjects import AGENTS
from historyapp.core.entries import text_of
from historyapp.core.lineage import Span
from historyapp.core.subagent_calls import SubagentCall, SubagentTraits, position_of_call, subagent_call
from historyapp.models import Entry, Episode, ImportSource, Session
from historyapp.models.entries import in_spans
from historyapp.models.episodes import SEVERAL_TOOLS
from historyapp.models.history import History
from historyapp.services.summaries import increase_revisions
from historyapp.services.transactions import writing

_BATCH_SIZE = 50
_FIRST_INPUTS = 5
"""The task of a sub-agent is among its first inputs. This many are searched."""


def link_subagents(sessions: Iterable[UUID]) -> None:
    """Stores which tool calls started the sub-agents of these sessions, and which started these sessions."""
    ids = set(sessions)
    started = Session.objects.filter(pk__in=ids, spawned_by__isnull=False)
    parents = ids.union(started.values_list("spawned_by_id", flat=True))
    unlinked = Session.objects.filter(spawned_by__in=parents, spawned_position=None)
    by_parent: dict[UUID, list[Session]] = {}
    for child in unlinked.select_related("spawned_by"):
        assert child.spawned_by is not None
        by_parent.setdefault(child.spawned_by.pk, []).append(child)
    for parent, children in by_parent.items():
        tool_calls = list(_starting_calls(parent))
        if not tool_calls:
            continue
        positions = {child.pk: position_of_call(_traits(child), tool_calls) for child in children}
        with writing():
            for id, position in positions.items():
                if position is not None:
                    Session.objects.filter(pk=id).update(spawned_position=position)
                    increase_revisions(id)
                    increase_revisions(parent)


def _traits(child: Session) -> SubagentTraits:
    source = ImportSource.objects.filter(session=child).values_list("source_id", flat=True).first() or ""
    named = (child.metadata.get("tool_call_id"), child.metadata.get("agent_id"))
    file_id = source.rpartition("/")[2].removeprefix("agent-")
    ids = [id for id in (*named, file_id) if isinstance(id, str) and id]
    # Some harnesses send a description of the environment before the task.
    first = History(child).entries(kinds=("model_input",), limit=_FIRST_INPUTS)
    tasks = [text_of(entry.body.get("content")).strip() for entry in first]
    return SubagentTraits(ids, [task for task in tasks if task])


def _starting_calls(parent: UUID) -> Iterator[SubagentCall]:
    """The tool calls of a session that may have started sub-agents, takes included."""
    has_several = Q(tool=SEVERAL_TOOLS)
    rows = Episode.objects.filter(Q(kind="agent") | has_several, session_id=parent).order_by("anchor")
    columns: Any = rows.values_list("kind", "tool_names", "first_position", "last_position")
    spans = [
        Span(str(parent), first, last)
        for kind, names, first, last in columns.iterator()
        if kind == "agent" or not AGENTS.isdisjoint(map(str.lower, names))
    ]
    kinds = ("model_output", "tool_results")
    for start in range(0, len(spans), _BATCH_SIZE):
        batch = spans[start : start + _BATCH_SIZE]
        entries = in_spans(Entry.objects.filter(kind__in=kinds), batch).order_by("position")
        by_step: dict[int, list[Any]] = {span.first: [] for span in batch}
        for entry in entries:
            for span in batch:
                if span.first <= entry.position <= span.last:
                    by_step[span.first].append(entry.core())
        yield from filter(None, map(subagent_call, by_step.values()))
