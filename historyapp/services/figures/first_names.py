"""Chooses the agents, models or tools that are listed, without reading the figures of all of them."""

from collections import defaultdict
from collections.abc import Mapping

from django.db.models import BigIntegerField, Case, F, FloatField, OrderBy, Q, QuerySet, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Least, NullIf
from django.db.models.lookups import Exact, GreaterThan

from historyapp.core.prices import Price
from historyapp.models import ProjectDay
from historyapp.models.sums import LargeSum
from historyapp.services.figures.group_figures import GroupOrder
from historyapp.services.prices import price_list

MAX_PRICED = 200
"""The order by money knows the prices of this many models, those that were called most."""


def first_names(rows: "QuerySet[ProjectDay]", by: str, order: GroupOrder, count: int) -> list[str]:
    """The first names in an order; as :meth:`GroupOrder.apply` has them."""
    value = _money(rows) if order.name == "money" else _VALUES[order.name]
    ordered = OrderBy(F("sort_value"), descending=order.is_descending, nulls_last=True)
    names = rows.order_by().values(by).annotate(sort_value=value, sum_steps=LargeSum("steps"))
    return list(names.order_by(ordered, "-sum_steps", by).values_list(by, flat=True)[:count])


def most_called(rows: "QuerySet[ProjectDay]", count: int) -> list[str]:
    """The models with the most calls whose cost was not reported."""
    models = rows.filter(has_cost=False, model_calls__gt=0).order_by().values("model")
    names = models.annotate(calls=LargeSum("model_calls")).order_by("-calls", "model")
    return list(names.values_list("model", flat=True)[:count])


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
    models_by_price: dict[Price, list[str]] = defaultdict(list)
    for model in most_called(rows, MAX_PRICED):
        if price := price_list().of(model):
            models_by_price[price].append(model)
    is_known = Q(has_cost=True) | Q(model_calls=0)
    costs = [When(is_known, then=F("cost"))]
    costs += [When(model__in=models, then=_cost(price)) for price, models in models_by_price.items()]
    micros = LargeSum(Case(*costs, default=0.0, output_field=FloatField()))
    priced = [model for models in models_by_price.values() for model in models]
    unpriced = LargeSum(
        Case(
            When(is_known | Q(model__in=priced), then=0),
            default=F("model_calls"),
            output_field=BigIntegerField(),
        )
    )
    calls = GreaterThan(LargeSum("model_calls"), 0)
    return Case(When(GreaterThan(micros, 0.5), then=micros), When(calls & Exact(unpriced, 0), then=micros))


def _cost(price: Price) -> Combinable:
    """The cost of a row, in millionths of a dollar."""
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    return (
        F("uncached") * price.input
        + F("cache_read") * read
        + F("cache_write") * write
        + F("cache_write_hour") * price.extra_for_hour
        + F("output") * price.output
    )
