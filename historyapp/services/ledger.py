"""The cost of a session in tokens and money. It comes from running totals, whatever the session's length."""

from dataclasses import dataclass

from historyapp.core.prices import Costs, Prices
from historyapp.core.run_costs import RunMoney, RunTokens, money_by_model, money_of, tokens_of
from historyapp.core.usage import ModelTotals, Usage, cost_of, usage_of
from historyapp.models import Entry, Episode
from historyapp.models.history import History
from historyapp.services.prices import price_list


@dataclass(frozen=True, slots=True)
class ModelAccount:
    """The usage of one model in a session."""

    model: str
    """Empty if the model calls do not name it."""
    totals: ModelTotals
    priced: int | None
    """The cost by the price list in millionths of a dollar; None if the model's price is unknown."""
    money: int | None
    """The cost, see :func:`historyapp.core.run_costs.money_by_model`; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class SessionLedger:
    totals: ModelTotals
    """The totals of all models."""
    models: list[ModelAccount]
    prices: Prices
    priced: int
    """The cost by the price list in millionths of a dollar, for the models with a known price."""
    costs: Costs
    """``priced`` by kind of token."""
    unknown: list[str]
    """The models whose prices are unknown."""
    tokens: RunTokens
    """The tokens that every page shows."""
    money: RunMoney
    """The cost that every page shows."""


@dataclass(frozen=True, slots=True)
class StepAccount:
    """The usage of one step's model call."""

    row: Episode
    model: str
    usage: Usage
    estimated: int
    counted: int
    priced: int | None
    """The cost by the price list in millionths of a dollar; None if the price is unknown or no usage was
    reported."""
    reported: int = 0
    """The cost as the source reported it, in millionths of a dollar; 0 if it reported none."""

    @property
    def money(self) -> int | None:
        """``reported``, otherwise ``priced``."""
        return self.reported or self.priced


def ledger_of(history: History) -> SessionLedger:
    """The ledger of the live history."""
    prices = price_list()
    by_model = dict(history.tail.totals.models)
    # Model calls without a model name are priced as the session's model.
    if unnamed := by_model.pop("", None):
        named = by_model.get(history.session.model, ModelTotals())
        by_model[history.session.model] = ModelTotals(*map(sum, zip(named, unnamed, strict=True)))
    money = dict[str, int | None]()
    for model, cost, _ in money_by_model(history.tail.totals, history.session.model, prices):
        known = [one for one in (money.get(model), cost) if one is not None]
        money[model] = sum(known) if known else None
    models = [
        ModelAccount(
            model,
            totals,
            priced=price.cost(totals.usage) if (price := prices.of(model)) else None,
            money=money.get(model),
        )
        for model, totals in by_model.items()
    ]
    models.sort(key=lambda account: -(account.money or 0))
    priced = ((prices.of(model), totals.usage) for model, totals in by_model.items())
    costs = [price.costs(usage) for price, usage in priced if price]
    return SessionLedger(
        totals=ModelTotals(*map(sum, zip(ModelTotals(), *by_model.values(), strict=True))),
        models=models,
        prices=prices,
        priced=sum(account.priced or 0 for account in models),
        costs=Costs(*map(sum, zip(Costs(), *costs, strict=True))),
        unknown=[account.model for account in models if account.priced is None],
        tokens=tokens_of(history.tail.totals),
        money=money_of(history.tail.totals, history.session.model, prices),
    )


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
    accounts: list[StepAccount] = []
    for row in rows:
        step_metadata = metadata.get(row.first_position, {})
        reported_model, usage = step_metadata.get("model"), usage_of(step_metadata)
        model = (
            reported_model if isinstance(reported_model, str) and reported_model else history.session.model
        )
        reported = ModelTotals().plus(usage, 0, step_metadata)
        price = prices.of(model) if usage.input or usage.output else None
        cost = price.of_request(usage) if price else None
        figures = (reported.estimated, reported.counted, cost, cost_of(step_metadata))
        accounts.append(StepAccount(row, model, usage, *figures))
    return accounts
