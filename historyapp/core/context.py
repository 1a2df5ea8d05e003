"""A context: what the model is sent next, written for one provider, and its account."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from historyapp.core.manifest import Manifest

Item = dict[str, Any]
"""A message or an item of input, as the provider has it."""


class Rendered(NamedTuple):
    """One turn or input, written once for one format."""

    position: int
    items: list[Item]
    tokens: int = 0
    calls: tuple[str, ...] = ()
    """The ids of its tool calls as recorded, in the order of the calls."""
    instruction: str = ""
    """The text of an instruction, which some providers take beside the messages; empty for all else."""


@dataclass(frozen=True, slots=True)
class Context:
    """The input for the next model call. The format that wrote its parts makes the request from them."""

    parts: tuple[Rendered, ...]
    """Oldest first."""
    manifest: Manifest
    system: str = ""
    notebook: str = ""
    live_screen: Rendered | None = None
    """Text that is valid for one request only: added after its newest input or result, and never stored."""
    stable: int = 0
    """How many of the first parts the next context is expected to begin with, unchanged."""

    @property
    def leading(self) -> int:
        """How many of the first parts are instructions."""
        numbers = (n for n, part in enumerate(self.parts) if part.items and not part.instruction)
        return next(numbers, len(self.parts))
