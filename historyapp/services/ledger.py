"""What a session cost: tokens and money, from running totals, however long it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from historyapp.core.prices import Prices
from historyapp.core.usage import ModelTotals, Usage, usage_of
from historyapp.models import Entry, Episode
from historyapp.models.history import History
from historyapp.services.prices import price_list


@dataclass(frozen=True, slots=True)
class ModelAccount:
    """What one model used in a session."""

    model: str
    """Empty where the calls do not name it."""
    totals: ModelTotals
    priced: int | None
    """At the price list, in millionths of a dollar; null: the model's price is not known."""


@dataclass(frozen=True, slots=True)
class SessionLedger:
    totals: ModelTotals
    """Of all models."""
    models: list[ModelAccount]
    prices: Prices

    @property
    def priced(self) -> int:
        """Of the models whose prices are known, in millionths of a dollar."""
        return sum(account.priced for account in self.models if account.priced is not None)

    @property
    def unknown(self) -> list[str]:
        """The models whose prices are not known."""
        return [account.model for account in self.models if account.priced is None]


@dataclass(frozen=True, slots=True)
class StepAccount:
    """What one step's call used."""

    row: Episode
    model: str
    usage: Usage
    estimated: int
    counted: int
    priced: int | None
    """In millionths of a dollar; null: the model's price is not known, or nothing was reported."""


def ledger_of(history: History) -> SessionLedger:
    """The ledger of all that is live."""
    prices = price_list()
    used = _by_model(history)
    models = [
        ModelAccount(model, totals, price.cost(totals.usage) if (price := prices.of(model)) else None)
        for model, totals in used.items()
    ]
    models.sort(key=lambda account: -(account.priced or 0))
    return SessionLedger(
        ModelTotals(*map(sum, zip(ModelTotals(), *used.values(), strict=True))), models, prices
    )


def _by_model(history: History) -> Mapping[str, ModelTotals]:
    """Totals by model. Calls that do not name theirs count for the session's model."""
    used = dict(history.tail.totals.models)
    unnamed = used.pop("", None)
    if unnamed:
        name = history.session.model
        known = used.get(name, ModelTotals())
        used[name] = ModelTotals(*map(sum, zip(known, unnamed, strict=True)))
    return used


def step_accounts(history: History, first: int, last: int) -> list[StepAccount]:
    """The accounts of steps ``first`` to ``last`` (both included), oldest first; reads no bodies."""
    rows = history.rows(first, last)
    if not rows:
        return []
    outputs = Entry.objects.defer("body").live(
        history.lineage,
        after=rows[0].first_position - 1,
        before=rows[-1].first_position + 1,
        kinds=("model_output",),
    )
    metadata = {entry.position: entry.metadata for entry in outputs}
    prices = price_list()
    default = history.session.model
    return [_step(row, metadata.get(row.first_position, {}), prices, default) for row in rows]


def _step(row: Episode, metadata: Mapping[str, object], prices: Prices, default: str) -> StepAccount:
    given = metadata.get("model")
    model = given if isinstance(given, str) and given else default
    usage = usage_of(metadata)
    told = ModelTotals().plus(usage, 0, metadata)
    price = prices.of(model) if usage.input or usage.output else None
    return StepAccount(row, model, usage, told.estimated, told.counted, price.cost(usage) if price else None)
