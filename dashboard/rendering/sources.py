"""Where the token figure and the money figure of a run come from, in words."""

from historyapp.core.run_costs import RunMoney

TOKEN_SOURCES = {
    "reported": "As reported by the provider, for all model calls together.",
    "estimated": "Estimated, of all entries: no provider reported its usage.",
}


def money_source(money: RunMoney) -> str:
    """One sentence for the money figure."""
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
