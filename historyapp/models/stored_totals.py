"""Reads the running totals of many sessions, without the rest of their tails, which may be long."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from historyapp.core.json import load_fields
from historyapp.core.projection import Totals
from historyapp.core.run_costs import totals_after
from historyapp.models.fields import as_uuid
from historyapp.models.long_rows import long_rows
from historyapp.models.sessions import Session

SHARED = "shared"
"""The field of a fork's tail with the totals of the live entries that it shares with its parent."""


def stored_totals(sessions: Collection[UUID]) -> dict[UUID, Totals]:
    """The totals of the live histories of these sessions, those of forks since the fork.

    The database does not parse the tails: PostgreSQL refuses NUL and lone surrogates, which ids of calls may
    have.
    """
    if not sessions:
        return {}
    rows = Session.objects.filter(pk__in=sessions).order_by("pk").values_list("id", "tail")
    statement, values = rows.query.sql_with_params()
    return {as_uuid(id): _totals(tail) for id, tail in long_rows(statement, values, "id", ("tail",))}


def _totals(stored: str) -> Totals:
    tail: dict[str, Any] = load_fields(stored, ("totals", SHARED))
    totals, shared = (Totals.load(tail.get(name) or {}) for name in ("totals", SHARED))
    return totals_after(totals, shared)
