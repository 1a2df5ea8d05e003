"""The price list that holds on this server: ours, with the operator's own over it."""

from django.conf import settings

from historyapp.core.prices import Prices, load_prices


def price_list() -> Prices:
    """What models cost, and the day as of which that is known."""
    return load_prices(settings.PLAYHEAD_PRICES)
