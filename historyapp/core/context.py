"""A context: the input for the next model call, written for one provider, and its manifest."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from historyapp.core.manifest import Manifest

Item = dict[str, Any]
"""A message or an item of input, in the provider's shape."""


class Rendered(NamedTuple):
    """A turn or an input, written in one format."""

    position: int
    items: list[Item]
    tokens: int = 0
    calls: tuple[str, ...] = ()
    """The ids of its tool calls as recorded, in the order of the calls."""
    instruction: str = ""
    """The text of an instruction, which some providers take separately from the messages; empty for other
    parts."""


class CutCost(NamedTuple):
    """How often a policy shortens older parts, and how many tokens that removes from the provider's cache."""

    tokens: int = 0
    """Tokens of the stable parts that a cut changes, on average."""
    share: float = 0.0
    """The share of requests for which it cuts."""


NO_CUTS = CutCost()


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
    """The number of parts at the beginning that the next context will probably repeat unchanged."""
    cut_cost: CutCost = NO_CUTS

    @property
    def leading(self) -> int:
        """The number of parts at the beginning that are instructions."""
        numbers = (n for n, part in enumerate(self.parts) if part.items and not part.instruction)
        return next(numbers, len(self.parts))
