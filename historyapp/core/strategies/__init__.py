"""Compression strategies, one file each, and their registry."""

from historyapp.core.errors import Invalid
from historyapp.core.strategies.ai_summary import AI_SUMMARY
from historyapp.core.strategies.base import Strategy
from historyapp.core.strategies.episode_summary import EPISODE_SUMMARY
from historyapp.core.strategies.simple_extract import SIMPLE_EXTRACT
from historyapp.core.strategies.structured import STRUCTURED

MANUAL = "manual"
"""The strategy of summaries that people write."""
STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        EPISODE_SUMMARY,
        AI_SUMMARY,
        SIMPLE_EXTRACT,
        STRUCTURED,
    )
}


def strategy_named(name: str) -> Strategy:
    """The strategy with this name.

    Raises:
        Invalid: for an unknown name.
    """
    if name not in STRATEGIES:
        names = ", ".join(f"`{strategy}`" for strategy in STRATEGIES)
        raise Invalid(
            f"There is no strategy `{name[:100]}`. Use one of {names}.", strategies=list(STRATEGIES)
        )
    return STRATEGIES[name]
