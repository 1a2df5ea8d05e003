"""Compares the cost of the full history with that of a shortened context.

The full history only grows at its end, so a provider's cache serves all of it except the newest step. A
shortened context is smaller, but more of it is new in each request. So the full history may cost less.
"""

from historyapp.core.context import Context
from historyapp.core.context_diff import MIN_CACHED
from historyapp.core.evaluation.costs import input_cost
from historyapp.core.manifest import FullHistory
from historyapp.core.prices import Price


def compare_with_full_history(context: Context, tokens: int, steps: int, price: Price) -> FullHistory | None:
    """The cost of one request with each of them, in a run that sends a request after each step.

    Args:
        tokens: the tokens of all live entries.
        steps: the number of live steps.

    Returns:
        None if the context contains the whole history.
    """
    manifest = context.manifest
    if not steps or not (manifest.left_out or any(part.form != "full" for part in manifest.segments)):
        return None
    leading = sum(part.tokens for part in manifest.segments if part.source in ("system", "notebook", "tools"))
    stable = sum(part.tokens for part in context.parts[: context.stable])
    cost_without_cut, cost_with_cut = (
        input_cost(price, manifest.tokens, leading + unchanged).micros
        for unchanged in (stable, max(0, stable - context.cut_cost.tokens))
    )
    context_cost = cost_without_cut + context.cut_cost.share * (cost_with_cut - cost_without_cut)
    step_tokens = tokens // steps
    full_cost = input_cost(price, tokens, tokens - step_tokens).micros
    return FullHistory(
        tokens=tokens,
        micros=round(full_cost),
        context_micros=round(context_cost),
        break_even_tokens=_break_even(price, context_cost, step_tokens),
    )


def _break_even(price: Price, micros: float, added: int) -> int:
    """The tokens of the largest history that costs at most ``micros``. Each request adds ``added`` tokens."""
    uncached = micros / price.input if price.input else 0.0
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    repeated = (micros - write * added) / read if read else 0.0
    return int(max(uncached, added + repeated if repeated >= MIN_CACHED else 0.0))
