"""Where the token figure and the money figure of a run come from, in words."""

from historyapp.core.run_costs import RunMoney

TOKEN_SOURCES = {
    "reported": "As reported by the provider, for all model calls together.",
    "estimated": "Estimated, of all entries: no provider reported its usage.",
}


def money_source(money: RunMoney) -> str:
    """One or two sentences for the money figure."""
    if money.is_known and money.unknown:
        return f"{_source(money)} Models without a known price are left out."
    if money.is_minimum:
        return f"{_source(money)} The true cost is higher: too few output tokens were reported."
    return _source(money)


def _source(money: RunMoney) -> str:
    match money.source:
        case "reported":
            return "As reported."
        case "priced":
            return f"Priced with the price list of {money.prices_as_of}."
        case "reported and priced":
            return f"As reported; other models priced with the price list of {money.prices_as_of}."
        case "unknown":
            return f"Unknown: the price list of {money.prices_as_of} lists none of the models."
        case "none":
            return "Unknown: no usage was reported."
