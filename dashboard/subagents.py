"""Sub-agents in the step list, under the steps that started them."""

from collections.abc import Sequence
from dataclasses import dataclass

from historyapp.core.run_costs import money_of, tokens_of
from historyapp.models import Episode, Session
from historyapp.models.history import History
from historyapp.services.prices import price_list

MOST_SUBAGENTS = 20
"""Rows of sub-agents in one part of the list. The overview lists more."""
_COLUMNS = ("title", "agent", "model", "status", "tail", "steps", "errors", "spawned_by", "spawned_position")


@dataclass(frozen=True, slots=True)
class SubagentRow:
    """A sub-agent's session with its figures, without those of its own sub-agents."""

    session: Session
    tokens: int
    micros: int


def subagents_in(history: History, rows: Sequence[Episode]) -> dict[int, list[SubagentRow]]:
    """The sub-agents that steps started, by the numbers of the steps; one query where any may have."""
    may_start = [row for row in rows if row.kind == "agent" or len(row.tool_names) > 1]
    if not may_start:
        return {}
    # A fork shows the sub-agents of the steps that it shares: these name the session which recorded the step.
    steps = {row.first_position: row for row in may_start}
    owners = {history.session.pk, *(row.session_id for row in may_start)}
    children = Session.objects.filter(spawned_by__in=owners, spawned_position__in=steps)
    children = children.filter(project=history.session.project_id).only(*_COLUMNS)
    found: dict[int, list[SubagentRow]] = {}
    for child in children.order_by("spawned_position", "id")[:MOST_SUBAGENTS]:
        row = steps[child.spawned_position or 0]
        if child.spawned_by_id in (row.session_id, history.session.pk):
            totals = child.live_tail.totals
            money = money_of(totals, child.model, price_list())
            figures = SubagentRow(child, tokens_of(totals).shown, money.micros)
            found.setdefault(row.number, []).append(figures)
    return found
