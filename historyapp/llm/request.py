"""A request to a model, and its time limits."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from historyapp.core.errors import Invalid
from historyapp.core.text import clean_value


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """``model`` may name its provider (``anthropic:claude-…``); see ``router``."""

    model: str
    context: Mapping[str, Any]
    """As the provider's format renders it: ``messages``, ``instructions`` and ``input``, or ``system`` and
    ``messages``; and ``tools``."""
    max_output_tokens: int | None = None
    """Null: as many as the provider allows, or its default where it requires a number."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the provider's request, unchanged: ``temperature``, ``thinking`` …"""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds."""

    connect: float = 10
    read: float = 180
    """Between two parts of a response, and before the first."""
    total: float = 900
    """The whole call with its retries and the waits between them."""


def request_body(
    request: ModelRequest, model: str, *, context: Collection[str], limit: str, reserved: Collection[str]
) -> dict[str, Any]:
    """The fields that all providers' requests share.

    ``context`` names the fields that the context may have, ``limit`` the one for ``max_output_tokens`` and
    ``reserved`` those that options must not touch.

    Raises:
        Invalid: when the context belongs to another format, or an option cannot be set.
    """
    if foreign := sorted(set(request.context) - set(context)):
        raise Invalid(f"{model} takes {_listed(context)}; {_listed(foreign)} belong to another format.")
    taken = {"model", "stream", limit, *context, *reserved}
    if reserved_options := sorted(taken & set(request.options)):
        raise Invalid(f"{_listed(reserved_options)} cannot be set through options.")
    if request.max_output_tokens is not None and request.max_output_tokens < 1:
        raise Invalid(f"`max_output_tokens` must be at least 1, not {request.max_output_tokens}.")
    body = {"model": model, "stream": True, **request.options, **request.context}
    if request.max_output_tokens is not None:
        body[limit] = request.max_output_tokens
    cleaned: dict[str, Any] = clean_value(body)  # formats render clean texts; options hold anything
    return cleaned


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
