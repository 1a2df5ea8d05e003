"""Reads the running totals of many sessions, without the rest of their tails, which may be long."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import Func, TextField

from historyapp.core.json import load_dumped
from historyapp.core.projection import Totals
from historyapp.core.run_costs import totals_after
from historyapp.models.sessions import Session

SHARED = "shared"
"""The field of a fork's tail with the totals of the live entries that it shares with its parent."""


class _TailField(Func):
    """A field of the column ``tail``, as JSON; NULL if it is missing."""

    function = "json_extract"
    template = "%(function)s(%(expressions)s, '$.%(name)s')"
    output_field = TextField()

    def __init__(self, name: str) -> None:
        super().__init__("tail", name=name)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, template="(%(expressions)s::json -> '%(name)s')::text")


def stored_totals(sessions: Collection[UUID]) -> dict[UUID, Totals]:
    """The totals of the live histories of these sessions, those of forks since the fork. One query."""
    fields = _TailField("totals"), _TailField(SHARED)
    rows = Session.objects.filter(pk__in=sessions).order_by().values_list("pk", *fields)
    return {id: totals_after(_loaded(totals), _loaded(shared)) for id, totals, shared in rows}


def _loaded(stored: str | None) -> Totals:
    return Totals.load(load_dumped(stored)) if stored else Totals()
