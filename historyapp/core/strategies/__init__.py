"""How old steps become summaries. One file each; the registry names them."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from historyapp.core.errors import Invalid
from historyapp.core.strategies.ai_summary import AI_SUMMARY
from historyapp.core.strategies.base import Strategy
from historyapp.core.strategies.episode_summary import EPISODE_SUMMARY
from historyapp.core.strategies.simple_extract import SIMPLE_EXTRACT
from historyapp.core.strategies.structured import STRUCTURED

MANUAL = "manual"
"""The strategy of summaries that people write; it has no writer."""
STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (EPISODE_SUMMARY, AI_SUMMARY, SIMPLE_EXTRACT, STRUCTURED)
}


def strategy_named(name: str) -> Strategy:
    """The strategy of a name.

    Raises:
        Invalid: naming all that there are.
    """
    if name not in STRATEGIES:
        known = ", ".join(f"`{each}`" for each in STRATEGIES)
        raise Invalid(f"There is no strategy `{name[:100]}`; there are {known}.", strategies=list(STRATEGIES))
    return STRATEGIES[name]


def options_for(strategy: Strategy, given: Mapping[str, Any]) -> BaseModel:
    """A strategy's options from what a request gives.

    Raises:
        Invalid: for unknown options and values out of range, saying which there are.
    """
    try:
        return strategy.options.model_validate(dict(given))
    except ValidationError as error:
        faults = "; ".join(
            f"`{'.'.join(map(str, fault['loc']))}`: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
            for fault in error.errors(include_url=False, include_input=False, include_context=False)[:5]
        )
        known = ", ".join(f"`{name}`" for name in strategy.options.model_fields) or "none"
        raise Invalid(
            f"These options do not suit the strategy `{strategy.name}`: {faults}. Its options: {known}."
        ) from None
