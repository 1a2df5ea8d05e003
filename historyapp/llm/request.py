"""A request to a model, and its time limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a provider. ``model`` may name the provider (``anthropic:claude-…``), see ``router``."""

    model: str
    context: Mapping[str, Any]
    """The context in the provider's format: ``messages``, ``instructions`` and ``input``, or ``system`` and
    ``messages``; and ``tools``.
    """
    max_output_tokens: int | None = None
    """None: the provider's limit, or our default if the provider requires a number."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the provider's request, unchanged: ``temperature``, ``thinking`` …"""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits in seconds."""

    connect: float = 10
    read: float = 180
    """The longest wait for the first part of a response, and between two parts."""
    total: float = 900
    """The longest time of the model call, including retries and the waits between them."""
