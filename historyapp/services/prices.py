"""The price list that holds on this server: ours, with the operator's own over it."""

from django.conf import settings

from historyapp.core.prices import Prices, load_prices


def price_list() -> Prices:
    """What models cost, and the day as of which that is known."""
    return load_prices(settings.PLAYHEAD_PRICES)


def money_text(micros: int | None, as_of: str) -> str:
    """What model calls cost, in words that say as of which day the prices are.

    Args:
        micros: millionths of a dollar; None: the model's price is not known.
        as_of: the date of the price list; empty where it is not known.
    """
    if micros is None:
        return f"at a price that the list of {as_of} does not have" if as_of else "at an unknown price"
    dollars = f"for ${micros / 1_000_000:,.4f}"
    return f"{dollars} at the prices of {as_of}" if as_of else dollars
