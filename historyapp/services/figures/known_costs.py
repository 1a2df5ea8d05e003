"""The cost of many models, added up in SQL."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db.models import Case, F, FloatField, Q, QuerySet, When
from django.db.models.expressions import Combinable

from historyapp.core.prices import Price
from historyapp.models import ProjectDay
from historyapp.models.sums import LargeSum
from historyapp.services.prices import price_list

MAX_PRICED = 1_000
"""The prices of this many models are looked up, those that were called most."""

_IS_REPORTED = Q(has_cost=True) | Q(model_calls=0)
"""Whether a row has a reported cost, or no model calls."""


class KnownCosts(NamedTuple):
    """The models with the most calls whose cost was not reported."""

    priced: Mapping[Price, Sequence[str]]
    unpriced: Sequence[str]
    """Those without a known price."""

    @classmethod
    def of(cls, rows: "QuerySet[ProjectDay]") -> "KnownCosts":
        models = rows.filter(has_cost=False, model_calls__gt=0).order_by().values("model")
        called = models.annotate(calls=LargeSum("model_calls")).order_by("-calls", "model")
        priced: dict[Price, list[str]] = defaultdict(list)
        unpriced: list[str] = []
        for model in called.values_list("model", flat=True)[:MAX_PRICED]:
            price = price_list().of(model)
            (unpriced if price is None else priced[price]).append(model)
        return cls(priced, unpriced)

    @property
    def is_known(self) -> Q:
        """Whether the cost of a row is known."""
        return _IS_REPORTED | Q(model__in=[name for names in self.priced.values() for name in names])

    @property
    def micros(self) -> LargeSum:
        """The sum of the known costs, in millionths of a dollar."""
        costs = [When(_IS_REPORTED, then=F("cost"))]
        costs += [When(model__in=names, then=_cost(price)) for price, names in self.priced.items()]
        return LargeSum(Case(*costs, default=0.0, output_field=FloatField()))


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
