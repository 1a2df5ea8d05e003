"""Figures of the key's project."""

from datetime import date
from typing import Literal

from historyapp.client.api_call import ApiCall, get
from historyapp.wire.figures import ProjectFiguresOut


def figures(
    *,
    first: date | str | None = None,
    last: date | str | None = None,
    by: Literal["day", "agent", "model", "tool"] | None = None,
    sort: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    tool: str | None = None,
    take: Literal["live", "all"] | None = None,
) -> ApiCall[ProjectFiguresOut]:
    """Sessions, steps, errors, tokens and cost of a date range; by default of the last 30 days.

    Args:
        first, last: days in UTC as dates or as ``2026-01-31``, both included.
        by: the grouping of the items; by day if omitted.
        sort: another order: ``-money``, ``-failure_rate`` … A ``-`` puts the highest first.
        take: ``all`` also counts steps that rewinds cut off.
    """
    days = {"from": first and str(first), "to": last and str(last)}
    names = {"agent": agent, "model": model, "tool": tool}
    return get("/figures", ProjectFiguresOut, by=by, sort=sort, take=take, **names, **days)
