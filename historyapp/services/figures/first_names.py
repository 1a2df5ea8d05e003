"""Chooses the agents, models or tools that are listed, without reading the figures of all of them."""

from collections.abc import Mapping

from django.db.models import BigIntegerField, Case, F, FloatField, OrderBy, QuerySet, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Least, NullIf
from django.db.models.lookups import Exact, GreaterThan

from historyapp.models import ProjectDay
from historyapp.models.sums import LargeSum
from historyapp.services.figures.group_figures import GroupOrder
from historyapp.services.figures.known_costs import KnownCosts


def first_names(rows: "QuerySet[ProjectDay]", by: str, order: GroupOrder, count: int) -> list[str]:
    """The first names in an order; as :meth:`GroupOrder.apply` has them."""
    value = _money(rows) if order.name == "money" else _VALUES[order.name]
    ordered = OrderBy(F("sort_value"), descending=order.is_descending, nulls_last=True)
    names = rows.order_by().values(by).annotate(sort_value=value, sum_steps=LargeSum("steps"))
    return list(names.order_by(ordered, "-sum_steps", by).values_list(by, flat=True)[:count])


def _if_called(sum_of_tokens: Combinable) -> Case:
    """Null without model calls."""
    return Case(When(GreaterThan(LargeSum("model_calls"), 0), then=sum_of_tokens))


_TOKENS = ("uncached", "cache_read", "cache_write", "output")
_FAILED = Least(
    LargeSum("errors") + LargeSum("likely_failures"), LargeSum("steps"), output_field=FloatField()
)
_VALUES: Mapping[str, Combinable] = {
    **{name: LargeSum(name) for name in ("sessions", "steps", "errors", "likely_failures")},
    "failure_rate": Least(_FAILED, LargeSum("steps"), output_field=FloatField())
    / NullIf(LargeSum("steps"), 0, output_field=FloatField()),
    "tokens": _if_called(LargeSum(F("uncached") + F("cache_read") + F("cache_write") + F("output"))),
    **{name: _if_called(LargeSum(name)) for name in _TOKENS},
}
"""The values of :data:`ORDERS` in SQL, except money."""


def _money(rows: "QuerySet[ProjectDay]") -> Case:
    costs = KnownCosts.of(rows)
    micros = costs.micros
    unpriced = LargeSum(
        Case(When(costs.is_known, then=0), default=F("model_calls"), output_field=BigIntegerField())
    )
    calls = GreaterThan(LargeSum("model_calls"), 0)
    return Case(When(GreaterThan(micros, 0.5), then=micros), When(calls & Exact(unpriced, 0), then=micros))
