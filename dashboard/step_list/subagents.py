"""Sub-agents in the step list, under the steps that started them."""

from collections.abc import Sequence
from dataclasses import dataclass

from historyapp.core.run_costs import RunMoney, money_of, tokens_of
from historyapp.models import Episode, Session
from historyapp.models.history import History
from historyapp.models.relatives import started_by
from historyapp.services.list_columns import own_totals
from historyapp.services.prices import price_list

_COLUMNS = ("title", "agent", "model", "status", "tail", "steps", "errors", "likely_failures", "forked_from")


@dataclass(frozen=True, slots=True)
class SubagentRow:
    """A sub-agent's session with its figures, without those of its own sub-agents."""

    session: Session
    tokens: int
    money: RunMoney


def subagents_in(history: History, rows: Sequence[Episode]) -> dict[int, list[SubagentRow]]:
    """The sub-agents that steps started, by the numbers of the steps. Needs at most one query.

    A share link shows none: they are sessions of their own.
    """
    if history.visible.is_shared:
        return {}
    by_step: dict[int, list[SubagentRow]] = {}
    for number, children in started_by(history, rows, _COLUMNS).items():
        for child in children:
            totals = own_totals(child)
            money = money_of(totals, child.model, price_list())
            row = SubagentRow(child, tokens_of(totals).shown, money)
            by_step.setdefault(number, []).append(row)
    return by_step
