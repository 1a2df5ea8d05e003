"""This server's price list: the built-in one, overridden by the operator's."""

from django.conf import settings

from historyapp.core.prices import Prices, load_prices
from historyapp.core.usage import dollar_text


def price_list() -> Prices:
    """The models' prices and their date."""
    return load_prices(settings.PLAYHEAD_PRICES)


def money_text(micros: int | None, as_of: str) -> str:
    """The cost of model calls in words, with the date of the prices.

    Args:
        micros: millionths of a dollar, or None if the model's price is unknown.
        as_of: the date of the price list, or empty if it is unknown.
    """
    if micros is None:
        return f"at a price that is not in the list of {as_of}" if as_of else "at an unknown price"
    dollars = f"for {dollar_text(micros)}"
    return f"{dollars} at the prices of {as_of}" if as_of else dollars
