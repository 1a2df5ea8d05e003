"""A session's past as the ``budgeted`` policy reads it: steps by what was kept when they were written."""

from typing import NamedTuple, Protocol

from historyapp.core.episodes import Episode, Status
from historyapp.core.excerpts import Excerpt, Line
from historyapp.core.policies.base import Past


class Outlined(NamedTuple):
    """A step as its row tells it, without bodies."""

    number: int
    first_position: int
    last_position: int
    status: Status
    excerpt: Excerpt
    summary: Line | None = None
    """The text that stands for just this step, where one was made."""


class OutlinedPast(Past, Protocol):
    """A past that also tells of its steps without loading bodies. Each call is one query."""

    def outline(self, first: int, last: int) -> list[Outlined]:
        """Live steps ``first`` to ``last`` (both included), oldest first."""
        ...

    def episodes(self, first: int, last: int) -> list[Episode]:
        """The same steps with their bodies."""
        ...
