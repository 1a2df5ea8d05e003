"""What a policy is: it reads a session's past from its newest end and chooses a context."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from historyapp.core.budget import RequestMeter
from historyapp.core.entries import Entry
from historyapp.core.episodes import Episode
from historyapp.core.manifest import Context
from historyapp.core.settings import SessionSettings

if TYPE_CHECKING:
    from historyapp.core.policies.outline import OutlinedPast


class StandIn(Protocol):
    """A summary, as far as a context needs to know it."""

    @property
    def id(self) -> Any: ...
    @property
    def first_position(self) -> int: ...
    @property
    def last_position(self) -> int: ...
    @property
    def first_step(self) -> int: ...
    @property
    def last_step(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def text(self) -> str: ...


class Past(Protocol):
    """A session as of some position, read only as far back as a policy asks."""

    @property
    def steps(self) -> int:
        """The number of the newest live step; 0 without any."""
        ...

    @property
    def instruction(self) -> str | None:
        """The current system instruction."""
        ...

    @property
    def notebook(self) -> str | None:
        """The current memory notebook."""
        ...

    def episodes_newest_first(self, last: int | None = None) -> Iterator[Episode]:
        """Live steps from number ``last`` (default: the newest) down, with bodies and summaries."""
        ...

    def inputs(self, after: int) -> Iterator[Entry]:
        """Live ``model_input`` entries after a position, oldest first."""
        ...

    def summaries(self, first_position: int = 1, last_position: int | None = None) -> Sequence[StandIn]:
        """The summaries that hold and end within two positions (both included; null: the newest)."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What a caller brings to one context; none of it is stored."""

    tools: Sequence[Mapping[str, Any]] = ()
    """Definitions, for their cost: formats render them."""
    live_screen: str = ""


NO_ASK = Ask()


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def choose(
        self, past: "OutlinedPast", settings: SessionSettings, meter: RequestMeter, ask: Ask = NO_ASK
    ) -> Context:
        """The context and its manifest.

        Raises:
            Invalid: when not even the pinned part fits the budget; ``smallest`` is one that works.
        """
        ...
