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
    agent: str | None = None,
    model: str | None = None,
    tool: str | None = None,
    take: Literal["live", "all"] | None = None,
) -> ApiCall[ProjectFiguresOut]:
    """Sessions, steps, errors, tokens and money of a span of days, the last 30 unless you say which.

    Args:
        first, last: days in UTC as dates or as ``2026-01-31``, both included.
        by: what the items are; days by default.
        take: ``all`` adds what rewinds have cut off.
    """
    days = {"from": first and str(first), "to": last and str(last)}
    return get("/figures", ProjectFiguresOut, by=by, agent=agent, model=model, tool=tool, take=take, **days)
