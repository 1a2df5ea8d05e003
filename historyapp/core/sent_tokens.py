"""How many tokens an entry takes in a request: our count of its text, or the usage of an output."""

from historyapp.core.tokens import encoding_for
from historyapp.core.usage import usage_of
from historyapp.core.windows import LogRow

FACTORS = {
    "claude-fable-5": 1.55,
    "claude-opus-4-7": 1.55,
    "claude-opus-4-8": 1.55,
    "claude-opus-5": 1.55,
    "claude-sonnet-5": 1.55,
    "claude": 1.17,
    "": 1.1,
}
"""Tokens for each token of o200k_base, by the beginning of the model's name, on 2026-11-28. Fitted to 1,417
differences of successive reported inputs, in half of the projects of the corpus."""
RESULT_FACTOR, RESULT_OVERHEAD = 1.1, 65
"""The same for results of tools, for models with the factor of ``claude``: for each token, and for each
entry, because of its frame and of reminders that the transcript does not contain. Fitted with the factors."""


def factor_for(model: str) -> float:
    """How many tokens the model counts for each of ours."""
    if encoding_for(model) is not None:
        return 1.0
    name = model.lower().rpartition("/")[2].rpartition(":")[2]
    prefixes = [start for start in FACTORS if name.startswith(start)]
    return FACTORS[max(prefixes, key=len)]


def result_tokens(tokens: int, entries: int, model: str) -> int:
    """Tokens of tool results in a request to the model.

    Args:
        tokens: of their text, by our tokenizer.
        entries: the number of entries with results.
    """
    if "claude" in model.lower() and factor_for(model) == FACTORS["claude"]:
        return round(tokens * RESULT_FACTOR) + RESULT_OVERHEAD * entries
    return round(tokens * factor_for(model))


def entry_tokens(row: LogRow, model: str) -> int:
    """Tokens of an entry in the next request to the model."""
    if row.kind == "tool_results":
        return result_tokens(row.tokens, 1, model)
    counted = round(row.tokens * factor_for(model))
    if row.kind != "model_output":
        return counted
    usage = usage_of(row.metadata)
    if usage.output and row.metadata.get("usage_convention") == "gemini":
        return max(0, usage.output - usage.reasoning)
    return max(usage.output, counted)


def output_tokens(output: LogRow, model: str) -> tuple[int, int]:
    """Tokens of an output in requests of its turn, and in later ones. OpenAI's models do not see the
    reasoning of earlier turns again."""
    usage, counted = usage_of(output.metadata), round(output.tokens * factor_for(model))
    now = entry_tokens(output, model)
    if encoding_for(model) is None:
        return now, now
    return now, max(0, usage.output - usage.reasoning) if usage.reasoning else min(now, counted)
