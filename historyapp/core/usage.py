"""What a model call cost, read from the ``usage`` that a provider or a transcript reports.

Conventions differ: OpenAI and OpenTelemetry count cached tokens inside input, Anthropic beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call. ``input`` is everything that was sent, cached or not."""

    input: int = 0
    output: int = 0


def usage_of(metadata: Mapping[str, Any]) -> Usage:
    """The usage in an entry's metadata; zeros where none is reported or it is not understood."""
    usage = metadata.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()
    sent = _first(usage, "input_tokens", "prompt_tokens")
    if metadata.get("usage_convention") == "anthropic" or "cache_read_input_tokens" in usage:
        sent += _first(usage, "cache_read_input_tokens") + _first(usage, "cache_creation_input_tokens")
    return Usage(sent, _first(usage, "output_tokens", "completion_tokens"))


def cost_of(metadata: Mapping[str, Any]) -> int:
    """``metadata["cost"]`` (USD) in millionths of a dollar; 0 where none is reported."""
    cost = metadata.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < 1e9:
        return 0
    return round(cost * MICRO)


def _first(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12:
            return value
    return 0
