"""The head of every page of a session: its title, one line of facts, actions and tabs."""

from dataclasses import dataclass
from typing import Any

from dashboard.access import PersonRequest
from dashboard.location import Location, page_context
from dashboard.rendering.sources import TOKEN_SOURCES
from historyapp.core.exporters import EXPORTERS
from historyapp.core.run_costs import RunMoney, money_of, other_models, tokens_of, totals_after
from historyapp.core.session_metadata import MAX_TITLE
from historyapp.models.relatives import MAX_RELATIVES
from historyapp.services.list_columns import own_totals, read_shared
from historyapp.services.prices import price_list


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """Tokens and money of the history."""

    tokens: int
    tokens_label: str
    tokens_source: str
    money: RunMoney
    other_models: list[str]
    """The models that model calls name in addition to the session's model."""
    own: RunMoney | None = None
    """What a fork cost after the steps that it shares; None for other sessions."""


def head_figures(location: Location) -> HeadFigures:
    """The figures of the live history, from its running totals."""
    totals, session, own = location.history.tail.totals, location.session, None
    is_after_fork = location.as_of is None or location.as_of >= session.fork_position
    if session.forked_from_id is not None and not location.is_shared and is_after_fork:
        if location.as_of is None:
            since = own_totals(session)
        else:
            since = totals_after(totals, read_shared(session, location.history.lineage))
        own = money_of(since, session.model, price_list())
    tokens, money = tokens_of(totals), money_of(totals, session.model, price_list())
    label, usage = "tokens", tokens.usage
    if tokens.source == "reported":
        cached = round(100 * usage.cache_read / max(1, usage.input))
        label = f"tokens in, {cached} % from cache" if usage.cache_read else "tokens in"
    return HeadFigures(
        tokens=tokens.shown,
        tokens_label=label,
        tokens_source=TOKEN_SOURCES[tokens.source],
        money=money,
        other_models=other_models(totals, session.model),
        own=own,
    )


def facts_context(location: Location) -> dict[str, Any]:
    """The line of facts, which changes while the session grows.

    At an earlier position it shows no active run.
    """
    session, run = location.session, None
    is_live = location.as_of is None and not location.is_shared
    if is_live and getattr(session, "has_active_run", True):
        run = session.compression_runs.active().filter(trial=False).first()
    return {"compressing": run, "figures": head_figures(location)}


def head_context(request: PersonRequest, location: Location) -> dict[str, Any]:
    """The context of a page with the head."""
    session = location.session
    if location.is_shared:
        return {"location": location, "session": session, "share": request.share, **facts_context(location)}
    context = {
        **page_context(request, location),
        **facts_context(location),
        "forks": location.relatives.forks,
        "subagents": location.relatives.subagents,
        "max_relatives": MAX_RELATIVES,
        "formats": EXPORTERS.values(),
        "max_title": MAX_TITLE,
    }
    if session.forked_from_id is not None:
        context["fork_step"] = location.shared_steps
    return context
