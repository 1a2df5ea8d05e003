"""Tokens and money of the session, and a chart of the steps around the playhead."""

from typing import Any

from dashboard.place import Place
from dashboard.rendering.ledger import draw_chart, shown_steps
from dashboard.tabs.base import Tab
from historyapp.services.ledger import ledger_of, step_accounts


def content(place: Place) -> dict[str, Any]:
    steps = shown_steps(place.step, place.steps)
    accounts = step_accounts(place.history, steps.start, steps.stop - 1)
    return {"ledger": ledger_of(place.history), "chart": draw_chart(accounts, place)}


LEDGER = Tab(name="ledger", title="Usage and cost", content=content, template="_ledger.html")
