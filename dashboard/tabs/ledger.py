"""Tokens and money of the session, its spending caps, and a chart of the steps around the playhead."""

from typing import Any

from dashboard.location import Location
from dashboard.rendering.ledger import draw_chart, shown_steps
from dashboard.tabs.base import Tab
from historyapp.core.overview.cache_misses import MAX_LOSSES, CacheLoss
from historyapp.core.overview.figures import RunFigures
from historyapp.services.caps import applicable_caps
from historyapp.services.figures.run_figures import SECONDS, count_run
from historyapp.services.ledger import SessionLedger, ledger_of, step_accounts
from historyapp.services.missing_costs import missing_cost
from historyapp.services.missing_subagents import NONE_MISSING, missing_subagents
from historyapp.services.overview import cost_of_subagents, most_expensive_steps, subagents_of
from historyapp.services.take_costs import take_costs
from historyapp.services.turn_costs import TurnCost, turn_costs

MAX_TOOLS = 12
"""The tools with the most tokens of results that are listed."""


def content(location: Location) -> dict[str, Any]:
    steps = shown_steps(location.step, location.steps)
    accounts = step_accounts(location.history, steps.start, steps.stop - 1)
    ledger = ledger_of(location.history)
    subagents = [] if location.is_shared else subagents_of(location.session)
    subagents_money, subagents_unpriced = cost_of_subagents(subagents)
    figures, is_counted = RunFigures(), True
    turns: list[TurnCost] = []
    if ledger.totals.calls:  # counting costs time
        counted = count_run(location.history, SECONDS)
        figures, is_counted = counted.figures, counted.is_complete
        turns = turn_costs(location.history, counted)
    # A reader of a shared session does not learn which sub-agents the project has.
    missing = NONE_MISSING if location.is_shared else missing_subagents(location.history, figures)
    return {
        "ledger": ledger,
        "subagent_count": len(subagents),
        "subagents_money": subagents_money,
        "missing_subagents": missing,
        "subagents_unpriced": subagents_unpriced,
        "tools": sorted(figures.tools.items(), key=lambda item: -item[1].tokens)[:MAX_TOOLS],
        "failed_calls": figures.failed_calls,
        "expensive": most_expensive_steps(figures, location.session.model),
        "kinds": _kinds(ledger),
        "too_few": figures.too_few if figures.too_few.is_noted(ledger.totals.output) else None,
        "missing_cost": missing_cost(location.history, ledger.money, figures.too_few),
        "counted_steps": figures.steps,
        "is_counted": is_counted,
        "chart": draw_chart(accounts, location),
        "turns": turns,
        "losses": _losses(figures) if ledger.totals.usage.cache_read else [],
        "max_losses": MAX_LOSSES,
        "take_costs": take_costs(location.history),
        "calls_without_usage": max(0, location.steps - ledger.totals.calls),
        "caps": applicable_caps(location.history.session),
    }


def _losses(figures: RunFigures) -> list[CacheLoss]:
    """The largest losses of the cache, in the order of the steps."""
    return sorted(figures.cache_misses.losses, key=lambda loss: loss.step)


def _kinds(ledger: SessionLedger) -> list[tuple[str, int, int]]:
    """Kinds of tokens: name, number, and cost in millionths of a dollar."""
    used, costs = ledger.totals.usage, ledger.costs
    return [
        ("uncached input", used.uncached, round(costs.uncached)),
        ("written to cache", used.cache_write, round(costs.cache_write)),
        ("read from cache", used.cache_read, round(costs.cache_read)),
        ("output", used.output, round(costs.output)),
    ]


LEDGER = Tab(
    name="ledger", title="Usage and cost of the run", content=content, template="session/_ledger.html"
)
