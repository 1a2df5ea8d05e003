"""Finds parts of a model call without a price in the price list: everything except tokens of its model.

If a spending cap applies, such calls are refused, because they could exceed the cap. If a project lists its
models, such options and tools are refused too, because they can use other models.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from historyapp.core.formats.tools import maker_of
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import ProviderRouter

_OPENAI = frozenset(
    (
        "metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "reasoning",
        "safety_identifier", "store", "temperature", "tool_choice", "top_logprobs", "top_p", "user",
    )
)  # fmt: skip
PRICED_OPTIONS: Mapping[str, frozenset[str]] = {
    "openai_chat": _OPENAI
    | {
        "frequency_penalty", "logit_bias", "logprobs", "presence_penalty", "reasoning_effort",
        "response_format", "seed", "stop", "top_k", "verbosity",
    },
    "openai_responses": _OPENAI | {"include", "text", "truncation"},
    "anthropic_messages": frozenset(
        (
            "metadata", "output_config", "stop_sequences", "temperature", "thinking", "tool_choice", "top_k",
            "top_p",
        )
    ),
}  # fmt: skip
"""The options of each format that cost only input and output tokens. All others are refused, because
providers add options. Sources: the request types of the SDKs on 2026-11-23."""
_PRICED_FIELDS: Mapping[str, frozenset[str]] = {
    "output_config": frozenset(("effort", "format")),
    "reasoning": frozenset(("context", "effort", "enabled", "exclude", "generate_summary", "summary")),
    "text": frozenset(("format", "verbosity")),
}
"""For options with fields that change the price, such as ``reasoning.mode``: the fields that cost only
tokens."""
_PRICED_TIERS: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("auto", "default", "flex"),
    "openai_responses": ("auto", "default", "flex"),
    "anthropic_messages": ("auto", "standard_only"),
}
"""Values of ``service_tier`` that cost no more than a model call without the option."""
_CLIENT_TOOLS = ("bash_", "computer_", "memory_", "text_editor_")
"""Type prefixes of providers' tools that the client runs. They cost only tokens."""

_EXTRA_IMAGE_TOKENS = (("gpt-4o-mini", 48_169), ("nano", 1_300))
"""The maximum number of tokens of one image beyond our count, by a part of the model's name. gpt-4o-mini
counts 2,833 tokens and 5,667 for each of up to 8 tiles, and the nano models 2.46 for each of up to 1,536
patches. Source: OpenAI documentation, "Images and vision", "Calculating costs"."""


def unpriced_part(request: ModelRequest) -> str:
    """A description of the first option or tool without a known price; empty if there is none.

    Raises:
        Invalid: when no provider serves the model.
    """
    format = ProviderRouter().route(request.model).provider.format
    for name, value in request.options.items():
        if option := _unpriced_option(format, name, value):
            return f"the option {option[:100]!r}"
    for tool in request.context.get("tools", ()):
        kind = str(tool.get("type"))
        if maker_of(tool) and not kind.startswith(_CLIENT_TOOLS):
            return f"the provider's own tool {kind!r}"
    return ""


def _unpriced_option(format: str, name: str, value: Any) -> str:
    """The option or field without a known price; empty if it costs only tokens."""
    if name == "service_tier":
        return "" if value in _PRICED_TIERS[format] else name
    if name not in PRICED_OPTIONS[format]:
        return name
    allowed = _PRICED_FIELDS.get(name)
    if allowed is None or value is None:
        return ""
    if not isinstance(value, Mapping):
        return name
    return next((f"{name}.{field}" for field in value if field not in allowed), "")


def uncounted_part(request: ModelRequest) -> str:
    """A description of the first part of the content whose tokens or price are unknown; empty if there is
    none."""
    for item in (*request.context.get("messages", ()), *request.context.get("input", ())):
        for block in _blocks(item.get("content")):
            kind = block.get("type")
            if kind == "input_audio":
                return "an audio part"
            has_url = kind == "document" and block["source"]["type"] == "url"
            file = block["file"] if kind == "file" else {}
            if has_url or "file_id" in file or "://" in str(file.get("file_data"))[:100]:
                return "a file that the provider would fetch"
    return ""


def extra_image_tokens(request: ModelRequest) -> int:
    """The maximum number of tokens by which the model's count of the request's images exceeds ours."""
    route = ProviderRouter().route(request.model)
    if route.provider.format == "anthropic_messages":
        return 0
    model = route.model.lower()
    tokens_per_image = next((tokens for name, tokens in _EXTRA_IMAGE_TOKENS if name in model), 0)
    items = (
        (*request.context.get("messages", ()), *request.context.get("input", ())) if tokens_per_image else ()
    )
    blocks = [block for item in items for part in ("content", "output") for block in _blocks(item.get(part))]
    return tokens_per_image * sum(block.get("type") in ("image_url", "input_image") for block in blocks)


def _blocks(content: Any) -> Iterator[Mapping[str, Any]]:
    """The blocks of a message, including those in its tool results."""
    for block in content if isinstance(content, list) else ():
        yield block
        yield from _blocks(block.get("content"))
