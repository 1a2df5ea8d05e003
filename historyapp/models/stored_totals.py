"""Reads the running totals of many sessions, without the rest of their tails, which may be long."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import Func, TextField

from historyapp.core.json import load_dumped
from historyapp.core.projection import Totals
from historyapp.models.sessions import Session


class _StoredTotals(Func):
    """The totals in the column ``tail``, as JSON; NULL if the session has no entries."""

    function = "json_extract"
    template = "%(function)s(%(expressions)s, '$.totals')"
    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, template="(%(expressions)s::json -> 'totals')::text")


def stored_totals(sessions: Collection[UUID]) -> dict[UUID, Totals]:
    """The totals of the live histories of these sessions, in one query."""
    rows = Session.objects.filter(pk__in=sessions).order_by().values_list("pk", _StoredTotals("tail"))
    return {id: Totals.load(load_dumped(stored)) if stored else Totals() for id, stored in rows}
