"""What a model call asks for beside tokens, and so has no price in the price list.

Where a spending cap holds, such calls are refused: the cap would not be hard.
"""

from historyapp.core.formats.tools import maker_of
from historyapp.llm.request import ModelRequest

PRICED_OPTIONS = frozenset(
    (
        "frequency_penalty", "include", "logit_bias", "logprobs", "metadata",
        "output_config", "parallel_tool_calls", "presence_penalty", "prompt_cache_key",
        "prompt_cache_retention", "reasoning", "reasoning_effort", "response_format", "safety_identifier",
        "seed", "stop", "stop_sequences", "store", "temperature", "text", "thinking", "tool_choice", "top_k",
        "top_logprobs", "top_p", "truncation", "user", "verbosity",
    )
)  # fmt: skip
"""Options that cost only tokens of input and output. Providers add others, so all others are refused."""
PRICED_TIERS = ("auto", "default", "flex", "standard_only")
"""Values of ``service_tier`` that cost at most what the price list says."""
_OF_CLIENTS = ("bash_", "computer_", "memory_", "text_editor_")
"""Beginnings of the types of providers' tools that the client runs: they cost nothing but tokens."""


def unpriced_part(request: ModelRequest) -> str:
    """The first part of the request without a known price, in words; empty if there is none."""
    for name, value in request.options.items():
        if name == "service_tier" and value in PRICED_TIERS:
            continue
        if name not in PRICED_OPTIONS:
            return f"the option {name[:100]!r}"
    for tool in request.context.get("tools", ()):
        kind = str(tool.get("type"))
        if maker_of(tool) and not kind.startswith(_OF_CLIENTS):
            return f"the provider's own tool {kind!r}"
    return ""
