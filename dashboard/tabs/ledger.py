"""Tokens and money of the session, its spending caps, and a chart of the steps around the playhead."""

from typing import Any

from dashboard.location import Location
from dashboard.rendering.ledger import draw_chart, shown_steps
from dashboard.tabs.base import Tab
from historyapp.services.caps import caps_that_hold
from historyapp.services.ledger import ledger_of, step_accounts


def content(location: Location) -> dict[str, Any]:
    steps = shown_steps(location.step, location.steps)
    accounts = step_accounts(location.history, steps.start, steps.stop - 1)
    return {
        "ledger": ledger_of(location.history),
        "chart": draw_chart(accounts, location),
        "caps": caps_that_hold(location.history.session),
    }


LEDGER = Tab(name="ledger", title="Usage and cost", content=content, template="_ledger.html")
