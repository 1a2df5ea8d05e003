"""A session's past as the ``budgeted`` policy reads it: steps by what was kept when they were written."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from historyapp.core.conversation import Status
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import Excerpt, Line
from historyapp.core.policies.base import Past


class Digest(NamedTuple):
    """A summary of several steps."""

    id: str
    first_step: int
    line: Line


class Outlined(NamedTuple):
    """A step as its row tells it, without bodies."""

    number: int
    first_position: int
    last_position: int
    status: Status
    excerpt: Excerpt
    summary: Line | None = None
    """The text that stands for just this step, where one was made."""
    digest: Digest | None = None
    """What stands for several steps that end with this one, where it was made."""


class OutlinedPast(Past, Protocol):
    """A past that also tells of its steps without loading bodies. Each call is one query."""

    def outline(self, first: int, last: int) -> list[Outlined]:
        """Live steps ``first`` to ``last`` (both included), oldest first."""
        ...

    def bodies(self, steps: Sequence[Outlined]) -> list[Episode]:
        """Steps that follow each other with their bodies, without summaries."""
        ...
