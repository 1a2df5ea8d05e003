"""The displayed tokens and cost of a run, each with its source.

Lists, heads of sessions, ledgers and overviews show these, so that they agree.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from historyapp.core.prices import Prices, is_same_model
from historyapp.core.projection import Totals
from historyapp.core.usage import ModelTotals, Usage, lacks_output

TokenSource = Literal["reported", "estimated"]
MoneySource = Literal["reported", "priced", "reported and priced", "unknown", "none"]


class RunTokens(NamedTuple):
    """Tokens of a run."""

    usage: Usage
    """What the providers reported; zeros if the source is ``estimated``."""
    estimated: int
    """The tokens of the live entries, by our own count."""
    source: TokenSource

    @property
    def shown(self) -> int:
        """The displayed figure: input as reported, otherwise the entries by our own count."""
        return self.usage.input if self.source == "reported" else self.estimated


class RunMoney(NamedTuple):
    """The cost of a run's model calls."""

    micros: int
    """Millionths of a US dollar. Calls of models without a known price are left out."""
    source: MoneySource
    """``reported``: by the transcript or the agent. ``priced``: by the price list. ``unknown``: only models
    without a price were used. ``none``: no call has reported its usage."""
    prices_as_of: str
    unknown: tuple[str, ...] = ()
    """The models that the figure leaves out."""
    lacks_output: bool = False
    """Whether it is too low because the source reports too few output tokens. Not known of entries of earlier
    versions."""

    @property
    def is_minimum(self) -> bool:
        """Whether the true cost is higher than the figure."""
        return self.is_known and (bool(self.unknown) or self.lacks_output)

    @property
    def is_known(self) -> bool:
        """Whether the cost of any model call is known."""
        return self.source not in ("unknown", "none")


def tokens_of(totals: Totals) -> RunTokens:
    """The tokens of a run."""
    usage = Usage(totals.input_tokens, totals.output_tokens)
    if totals.models:
        by_model = (used.usage for used in totals.models.values())
        usage = Usage(*(sum(counts) for counts in zip(*by_model, strict=True)))
    return RunTokens(usage, totals.tokens, "reported" if usage.input or usage.output else "estimated")


def money_by_model(
    totals: Totals, default_model: str, prices: Prices, run: Totals | None = None
) -> Iterator[tuple[str, int | None, MoneySource]]:
    """Each model of a run, its cost in millionths of a US dollar (None: unknown), and where that comes from.

    The cost that was reported for a model in the run counts; otherwise the price list does.

    Args:
        default_model: the session's model, for model calls that do not name one. It may come twice.
        run: the totals of the whole run, if ``totals`` are those of some of its steps. The cost of a model is
            unknown if it was reported for other steps only.
    """
    reported = (run or totals).models
    for model, used in totals.models.items():
        name = model or default_model
        price = prices.of(name)
        if reported[model].cost:
            yield name, used.cost or None, "reported"
        else:
            yield name, price.cost(used.usage) if price else None, "priced" if price else "unknown"


def money_of(totals: Totals, default_model: str, prices: Prices) -> RunMoney:
    """The cost of a run, see :func:`money_by_model`."""
    micros, sources, unknown = 0, set[str](), list[str]()
    for name, cost, source in money_by_model(totals, default_model, prices):
        if cost is None:
            unknown.append(name)
        else:
            micros += cost
            sources.add(source)
    if not totals.models and totals.cost:  # entries of earlier versions have no totals by model
        micros, sources = totals.cost, {"reported"}
    source = _source(sources, unknown)
    # A reported cost may include the missing tokens. If a price is unknown, this is the reason that is given.
    missing = sum(used.missing_output for used in totals.models.values() if not used.cost)
    lacks = bool(missing) and not unknown and lacks_output(missing, tokens_of(totals).usage.output)
    return RunMoney(micros, source, prices.as_of, tuple(unknown), lacks)


def _source(sources: set[str], unknown: list[str]) -> MoneySource:
    if len(sources) == 2:
        return "reported and priced"
    if sources:
        return "reported" if "reported" in sources else "priced"
    return "unknown" if unknown else "none"


def other_models(totals: Totals, model: str) -> list[str]:
    """The models that model calls name in addition to the session's model; none if that is not known."""
    return [name for name, used in totals.models.items() if used.calls and not is_same_model(name, model)]


def totals_after(whole: Totals, shared: Totals) -> Totals:
    """The totals of the entries after a part that runs share."""
    return whole._replace(
        steps=whole.steps - shared.steps,
        errors=whole.errors - shared.errors,
        tokens=whole.tokens - shared.tokens,
        input_tokens=whole.input_tokens - shared.input_tokens,
        output_tokens=whole.output_tokens - shared.output_tokens,
        cost=whole.cost - shared.cost,
        models=_usage_after(whole, shared),
        idle=whole.idle - shared.idle,
        interruptions=whole.interruptions - shared.interruptions,
    )


def _usage_after(whole: Totals, shared: Totals) -> dict[str, ModelTotals]:
    """The usage of each model after the common part."""
    later = dict[str, ModelTotals]()
    for model, totals in whole.models.items():
        shared_totals = shared.models.get(model, ModelTotals())
        difference = ModelTotals(*(a - b for a, b in zip(totals, shared_totals, strict=True)))
        if any(difference):
            later[model] = difference
    return later
