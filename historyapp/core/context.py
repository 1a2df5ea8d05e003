"""A context: the input for the next model call, written for one provider, and its manifest."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from historyapp.core.manifest import Manifest

Item = dict[str, Any]
"""A message or an item of input, in the provider's shape."""


class Rendered(NamedTuple):
    """One turn or input, written once for one format."""

    position: int
    items: list[Item]
    tokens: int = 0
    calls: tuple[str, ...] = ()
    """The ids of its tool calls as recorded, in the order of the calls."""
    instruction: str = ""
    """The text of an instruction, which some providers take separately from the messages; empty for other
    parts."""


class CutCost(NamedTuple):
    """How often a policy cuts, so that the next context begins otherwise than this one."""

    tokens: int = 0
    """Tokens at the end of the unchanged parts that a cut changes, on average."""
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
    """The number of first parts with which the next context will probably begin, unchanged."""
    cut_cost: CutCost = NO_CUTS

    @property
    def leading(self) -> int:
        """The number of first parts that are instructions."""
        numbers = (n for n, part in enumerate(self.parts) if part.items and not part.instruction)
        return next(numbers, len(self.parts))
