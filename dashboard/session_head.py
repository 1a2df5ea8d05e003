"""The head of every page of a session: its title, one line of facts, actions and tabs."""

from dataclasses import dataclass
from typing import Any

from dashboard.access import PersonRequest
from dashboard.location import Location, page_context
from historyapp.core.exporters import EXPORTERS
from historyapp.core.projection import Totals
from historyapp.models import CompressionRun, Entry
from historyapp.services.ledger import ledger_of

RELATIVES = 20
"""The most forks and the most sub-agents that are listed."""
TITLE = 300
"""Characters that a title may have, as in the API."""


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """Tokens and money of the history, each with its source in words."""

    tokens: int
    tokens_label: str
    tokens_source: str
    cost: int
    """In millionths of a dollar; 0 where it is unknown."""
    cost_source: str


def head_figures(location: Location) -> HeadFigures:
    """The figures of the live history, from its running totals."""
    ledger, totals = ledger_of(location.history), location.history.tail.totals
    usage = ledger.totals.usage
    tokens, label, source = totals.tokens, "tokens", "Counted by Playhead: the provider reported no usage."
    if usage.input:
        cached = round(100 * usage.cache_read / usage.input)
        tokens, label = usage.input, f"tokens in, {cached} % from cache" if usage.cache_read else "tokens in"
        source = "As reported by the provider, of all model calls together."
    if totals.cost:
        return HeadFigures(tokens, label, source, totals.cost, "As reported.")
    priced = f"Priced with the price list of {ledger.prices.as_of}."
    return HeadFigures(tokens, label, source, ledger.priced, priced)


def facts_context(location: Location) -> dict[str, Any]:
    """What the line of facts shows; it changes while the session grows."""
    return {"compressing": _active_run(location), "figures": head_figures(location)}


def head_context(request: PersonRequest, location: Location) -> dict[str, Any]:
    """What a page with the head needs."""
    session = location.session
    context = {
        **page_context(request, location),
        **facts_context(location),
        "forks": session.forks.order_by("created_at")[:RELATIVES],
        "subagents": session.subagents.order_by("created_at")[:RELATIVES],
        "formats": EXPORTERS.values(),
        "longest_title": TITLE,
    }
    if session.forked_from_id is not None:
        forked_at = Entry.objects.live(session.lineage(session.fork_position), newest_first=True, limit=1)
        context["fork_step"] = next((Totals.load(entry.totals).steps for entry in forked_at), 0)
    return context


def _active_run(location: Location) -> CompressionRun | None:
    """The session's active compression run; None in the past."""
    if location.as_of is not None:
        return None
    return location.session.compression_runs.active().filter(trial=False).first()
