"""Formats write entries and contexts as the messages that a provider accepts. Each has a file of its own."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.errors import Invalid
from historyapp.core.formats.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.formats.base import Format
from historyapp.core.formats.openai_chat import OPENAI_CHAT
from historyapp.core.formats.openai_responses import OPENAI_RESPONSES
from historyapp.core.formats.plain import PLAIN
from historyapp.core.json import compact_json

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        OPENAI_CHAT,
        OPENAI_RESPONSES,
        ANTHROPIC_MESSAGES,
        PLAIN,
    )
}


def format_named(name: str) -> Format:
    """The format with this name.

    Raises:
        Invalid: when the name is unknown. The message lists all formats.
    """
    if name not in FORMATS:
        raise Invalid(f"There is no format {name!r}. Use one of {', '.join(FORMATS)}.", formats=list(FORMATS))
    return FORMATS[name]


def render_bytes(request: Mapping[str, Any]) -> bytes:
    """A rendered request as the bytes that are hashed: compact JSON in UTF-8, in the request's own order."""
    return compact_json(request).encode()


def prefix_bytes(request: Mapping[str, Any]) -> bytes:
    """Like :func:`render_bytes`, for comparing two requests: without cache breakpoints, which move."""
    return render_bytes(_without_breakpoints(request))


def _without_breakpoints(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_breakpoints(item) for name, item in value.items() if name != "cache_control"}
    return [_without_breakpoints(item) for item in value] if isinstance(value, list) else value
