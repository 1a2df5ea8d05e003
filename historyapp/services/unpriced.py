"""Finds parts of a model call without a price in the price list: everything except tokens of its model.

If a spending cap applies, such calls are refused, because they could exceed the cap. If a project lists its
models, such options and tools are refused too, because they can use other models.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from historyapp.core.formats import format_named
from historyapp.core.formats.base import Format
from historyapp.core.formats.tools import maker_of
from historyapp.llm.provider import Provider
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import ProviderRouter

_PRICED_FIELDS: Mapping[str, frozenset[str]] = {
    "output_config": frozenset(("effort", "format")),
    "reasoning": frozenset(("context", "effort", "enabled", "exclude", "generate_summary", "summary")),
    "text": frozenset(("format", "verbosity")),
}
"""For options with fields that change the price, such as ``reasoning.mode``: the fields that cost only
tokens."""
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
    provider = ProviderRouter().route(request.model).provider
    for name, value in request.options.items():
        if option := _unpriced_option(provider, name, value):
            return f"the option {option[:100]!r}"
    for tool in _format(request).tools_in(request.context):
        kind = str(tool.get("type"))
        if maker_of(tool) and not kind.startswith(_CLIENT_TOOLS):
            return f"the provider's own tool {kind!r}"
    return ""


def _unpriced_option(provider: Provider, name: str, value: Any) -> str:
    """The option or field without a known price; empty if it costs only tokens."""
    if name == "service_tier":
        return "" if value in provider.priced_tiers else name
    if name not in provider.priced_options:
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
    format = _format(request)
    blocks = (block for item in format.items_in(request.context) for block in _blocks(item))
    return next(filter(None, map(format.uncounted, blocks)), "")


def extra_image_tokens(request: ModelRequest) -> int:
    """The maximum number of tokens by which the model's count of the request's images exceeds ours."""
    model = ProviderRouter().route(request.model).model.lower()
    tokens_per_image = next((tokens for name, tokens in _EXTRA_IMAGE_TOKENS if name in model), 0)
    items = _format(request).items_in(request.context) if tokens_per_image else ()
    blocks = (block for item in items for block in _blocks(item))
    return tokens_per_image * sum(block.get("type") in ("image_url", "input_image") for block in blocks)


def _format(request: ModelRequest) -> Format:
    return format_named(ProviderRouter().route(request.model).provider.format)


def _blocks(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects in lists of an item: its blocks, and those of its tool results. Arguments are not read."""
    for value in item.values():
        for block in value if isinstance(value, list) else ():
            if isinstance(block, Mapping):
                yield block
                yield from _blocks(block)
