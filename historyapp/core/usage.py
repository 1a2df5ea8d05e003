"""The tokens of a model call, read from the ``usage`` that a provider or a transcript reports.

Conventions differ. Input includes cached tokens in those of OpenAI and OpenTelemetry, and not in Anthropic's.
Gemini's output does not include reasoning.
"""

import json
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

MICRO = 1_000_000
MAX_CALL_TOKENS = 10**10
"""Counts of tokens of one model call from here on are ignored. They are not plausible, and with larger ones
the totals of a project would not fit into its columns."""
HOUR = 3_600
"""The longer lifetime of a provider's cache, in seconds."""
MAX_CALL_COST = 100_000
"""The same for the cost of one model call, in US dollars."""
MAX_MODELS = 8
"""The maximum number of models with totals of their own; further models are added up under the empty name.
Recorded sessions use up to four."""
MAX_MODEL_NAMES = 400
"""The maximum number of characters of their names together, as JSON. Each entry stores all of them."""


class Usage(NamedTuple):
    """Tokens of one model call, in the same convention for every provider."""

    input: int = 0
    """Everything that was sent: uncached, read from a cache and written to one."""
    output: int = 0
    """Everything that the model wrote, including reasoning."""
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cache_write_hour: int = 0
    """Those of ``cache_write`` that live for an hour, which have another price than those of five minutes."""

    @property
    def uncached(self) -> int:
        """Input tokens that were neither read from a cache nor written to one."""
        return max(0, self.input - self.cache_read - self.cache_write)


class ModelTotals(NamedTuple):
    """Tokens of all calls of one model, added up. Stored as a list: fields may only be added at the end."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int = 0
    """Reported by the source, in millionths of a US dollar."""
    estimated: int = 0
    """Input tokens by our own count, of the calls that have one."""
    counted: int = 0
    """Input tokens by the provider's count endpoint, of the calls that have one."""
    estimated_billed: int = 0
    """Billed input tokens of the calls that have an estimate, for comparison."""
    cache_write_hour: int = 0
    """Those of ``cache_write`` that live for an hour. 0 in entries of earlier versions."""
    missing_output: int = 0
    """The output tokens by our own count that are missing from ``output``, see :func:`reports_too_few`. 0 in
    entries of earlier versions."""

    def plus(self, usage: Usage, cost: int, metadata: Mapping[str, Any], written: int = 0) -> "ModelTotals":
        """With one more model call. Its metadata may have ``estimated_tokens`` and ``counted_tokens``.

        Args:
            written: the tokens of its output by our own count.
        """
        estimated, counted = _first(metadata, "estimated_tokens"), _first(metadata, "counted_tokens")
        return ModelTotals(
            self.calls + 1,
            self.input + usage.input,
            self.output + usage.output,
            self.cache_read + usage.cache_read,
            self.cache_write + usage.cache_write,
            self.reasoning + usage.reasoning,
            self.cost + cost,
            self.estimated + estimated,
            self.counted + counted,
            self.estimated_billed + (usage.input if estimated else 0),
            self.cache_write_hour + usage.cache_write_hour,
            self.missing_output + (written - usage.output if reports_too_few(usage, written) else 0),
        )

    def dump(self) -> list[int]:
        """As stored: without the last fields if they are 0."""
        if self.missing_output:
            return list(self)
        return list(self[:-1] if self.cache_write_hour else self[:-2])

    @property
    def usage(self) -> Usage:
        return Usage(
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.reasoning,
            self.cache_write_hour,
        )


def names_fit(models: Collection[str]) -> bool:
    """Whether totals can list these models by name."""
    return len(models) <= MAX_MODELS and sum(map(len, map(json.dumps, models))) <= MAX_MODEL_NAMES


NO_CALLS = ModelTotals()
NO_USAGE = Usage()
_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})
_FOR_HOUR = "ephemeral_1h_input_tokens"


def usage_of(metadata: Mapping[str, Any]) -> Usage:
    """The usage in an entry's metadata; zeros if there is none or it is not understood."""
    usage = metadata.get("usage")
    if not isinstance(usage, dict):
        return NO_USAGE
    convention = metadata.get("usage_convention")
    if convention == "gemini":
        reasoning = _first(usage, "thoughts")
        # ``tool`` is what the provider's own tools added to the input.
        sent = _first(usage, "input") + _first(usage, "tool")
        return Usage(sent, _first(usage, "output") + reasoning, _first(usage, "cached"), 0, reasoning)
    sent = _first(usage, "input_tokens", "prompt_tokens")
    received = _details(usage, "output_tokens_details", "completion_tokens_details")
    output = _first(usage, "output_tokens", "completion_tokens")
    reasoning = _first(received, "reasoning_tokens", "thinking_tokens")
    reasoning = reasoning or _first(usage, "reasoning_output_tokens")  # as Codex writes it
    # litellm reports OpenAI's totals and Anthropic's cache counts, which are in those totals already.
    if convention == "anthropic" or (convention is None and "cache_read_input_tokens" in usage):
        read, write = _first(usage, "cache_read_input_tokens"), _first(usage, "cache_creation_input_tokens")
        for_hour = min(write, _first(_details(usage, "cache_creation"), _FOR_HOUR))
        return Usage(sent + read + write, output, read, write, reasoning, for_hour)
    cached = _details(usage, "input_tokens_details", "prompt_tokens_details")
    read = _first(cached, "cached_tokens") or _first(usage, "cached_input_tokens", "cache_read_tokens")
    return Usage(sent, output, read, _first(cached, "cache_write_tokens"), reasoning)


def reports_too_few(usage: Usage, written: int) -> bool:
    """Whether a model call reports less than half of the tokens that its output has by our own count.

    Some versions of Claude Code store the count at which an answer began. In the corpus, this is so for 755
    of 1,238 outputs without a stop reason in its files, and for 2 of all 2,719 other outputs, 2026-11-29.
    """
    return bool(usage.input or usage.output) and usage.output * 2 < written


def lacks_output(missing: int, output: int) -> bool:
    """Whether at least 1 % is missing from the reported output tokens of a run."""
    return missing * 100 >= max(1, output)


def cache_lifetime_of(metadata: Mapping[str, Any]) -> int:
    """How many seconds the caches live that a model call wrote: 300 or 3,600. 0 if the usage states neither,
    or both. Source: Claude documentation, "Prompt caching"."""
    usage = metadata.get("usage")
    written = _details(usage, "cache_creation") if isinstance(usage, dict) else _NO_DETAILS
    for_minutes, for_hour = _first(written, "ephemeral_5m_input_tokens"), _first(written, _FOR_HOUR)
    if bool(for_minutes) == bool(for_hour):
        return 0
    return 300 if for_minutes else HOUR


def window_in(metadata: Mapping[str, Any]) -> int:
    """The model's window in tokens as the agent recorded it with an output; 0 if it did not."""
    source = metadata.get("source")
    return _first(source, "window") if isinstance(source, dict) else 0


def cost_of(metadata: Mapping[str, Any]) -> int:
    """``metadata["cost"]`` (USD) in millionths of a dollar; 0 if there is none or it is not plausible."""
    cost = metadata.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < MAX_CALL_COST:
        return 0
    return round(cost * MICRO)


def rounded_dollars(micros: int) -> str:
    """Millionths of a dollar as dollars with two decimals; below a cent with four, or with as many as they
    need: ``$0.0015``, ``$0.000012``."""
    if 0 <= micros < MICRO // 10_000:
        return dollar_text(micros)
    return f"${micros / MICRO:,.2f}" if micros >= MICRO // 100 else f"${micros / MICRO:.4f}"


def dollar_text(micros: int) -> str:
    """Millionths of a dollar as exact dollars, with two to six decimals: ``$5.00``, ``$0.0015``."""
    whole, decimals = f"{micros / MICRO:,.6f}".split(".")
    return f"${whole}.{decimals.rstrip('0'):0<2}"


def _details(usage: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        value = usage.get(name)
        if isinstance(value, dict):
            return value
    return _NO_DETAILS


def _first(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_CALL_TOKENS:
            return value
    return 0
