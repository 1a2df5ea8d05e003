"""What a policy is: it reads a session's past from its newest end and chooses a context."""

from collections.abc import Iterator
from typing import Protocol

from historyapp.core.entries import Entry
from historyapp.core.episodes import Episode
from historyapp.core.manifest import Context
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import TokenCounter


class Past(Protocol):
    """A session as of some position, read only as far back as a policy asks."""

    @property
    def steps(self) -> int:
        """The number of the newest live step; 0 without any."""
        ...

    def episodes_newest_first(self) -> Iterator[Episode]:
        """Live steps with bodies and summaries."""
        ...

    def inputs(self, after: int) -> Iterator[Entry]:
        """Live ``model_input`` entries after a position, oldest first."""
        ...


class Policy(Protocol):
    name: str

    def choose(self, past: Past, settings: SessionSettings, count: TokenCounter) -> Context:
        """The context and its manifest."""
        ...
