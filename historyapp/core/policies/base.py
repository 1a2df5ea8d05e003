"""What a policy is: it reads a session's past from its newest end and chooses a context."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.conversation import Aside
from historyapp.core.episodes import Episode
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
    """A session as of some position. Streams are read as they are consumed: what a policy does not look at
    costs nothing."""

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

    @property
    def first_input(self) -> Aside | None:
        """The oldest live input; None without any."""
        ...

    def episodes_newest_first(self, last: int | None = None, first: int = 1) -> Iterator[Episode]:
        """Live steps from number ``last`` (null: the newest) down to ``first``, with bodies and summaries."""
        ...

    def asides_newest_first(self, before: int | None = None) -> Iterator[Aside]:
        """Live inputs before a position, the newest first, and results recorded before the first step."""
        ...

    def summaries_newest_first(self, before: int) -> Iterator[StandIn]:
        """The summaries that hold and end before a position, by their ends; the higher one of two first."""
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
