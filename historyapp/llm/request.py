"""A request to a model, and its time limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
