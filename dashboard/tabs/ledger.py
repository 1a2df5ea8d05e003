"""Tokens and money of the session, its spending caps, and a chart of the steps around the playhead."""

from typing import Any

from dashboard.location import Location
from dashboard.rendering.ledger import draw_chart, shown_steps
from dashboard.tabs.base import Tab
from historyapp.services.caps import applicable_caps
from historyapp.services.figures.run_figures import SECONDS, count_run
from historyapp.services.ledger import SessionLedger, ledger_of, step_accounts


def content(location: Location) -> dict[str, Any]:
    steps = shown_steps(location.step, location.steps)
    accounts = step_accounts(location.history, steps.start, steps.stop - 1)
    ledger = ledger_of(location.history)
    too_few_of, tokens = 0, ledger.tokens
    if tokens.usage_is_incomplete(tokens.estimated):  # counting the run costs time
        written = count_run(location.history, SECONDS).figures.written
        too_few_of = written if tokens.usage_is_incomplete(written) else 0
    return {
        "ledger": ledger,
        "kinds": _kinds(ledger),
        "too_few_of": too_few_of,
        "chart": draw_chart(accounts, location),
        "caps": applicable_caps(location.history.session),
    }


def _kinds(ledger: SessionLedger) -> list[tuple[str, int, int]]:
    """Kinds of tokens: name, number, and cost in millionths of a dollar."""
    used, costs = ledger.totals.usage, ledger.costs
    return [
        ("uncached input", used.uncached, round(costs.uncached)),
        ("written to cache", used.cache_write, round(costs.cache_write)),
        ("read from cache", used.cache_read, round(costs.cache_read)),
        ("output", used.output, round(costs.output)),
    ]


LEDGER = Tab(name="ledger", title="Usage and cost", content=content, template="session/_ledger.html")
