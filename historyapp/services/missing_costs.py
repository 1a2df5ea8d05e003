"""What the output tokens cost that a source did not report."""

from historyapp.core.overview.too_few_tokens import TooFewTokens
from historyapp.core.prices import Price
from historyapp.core.run_costs import RunMoney, tokens_of
from historyapp.models.history import History
from historyapp.services.prices import price_list


def missing_cost(history: History, money: RunMoney, too_few: TooFewTokens) -> int | None:
    """What the missing output tokens cost at least, in millionths of a dollar, by the price list.

    None if too few are missing to be noted, or if it is unknown: if a cost was reported, it may include them,
    and a model without a price may have written them. It is not stored which of several models did: the
    lowest price counts.

    Args:
        money: the cost of the history.
    """
    totals = history.tail.totals
    if money.source != "priced" or money.unknown or not too_few.is_noted(tokens_of(totals).usage.output):
        return None
    names = {name or history.session.model for name in totals.models}
    prices = [price for name in names if (price := price_list().of(name))]
    if not prices:
        return None
    return round(too_few.missing * min(map(_lowest_output_price, prices)))


def _lowest_output_price(price: Price) -> float:
    return min(price.output, price.long.output) if price.long else price.output
