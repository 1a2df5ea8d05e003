"""Few model calls of each project compute at the same time.

All calls have one process, whose threads compute in turn. A call computes from the moment at which its key is
known, before its body is parsed, until it waits for its provider.
"""

from historyapp.core.slots import Slots
from historyapp.models.large_reads import RequestRead
from historyapp.services.project_slots import ProjectSlots

TURNS = ProjectSlots(
    Slots(8, of_owner=2, waiting=64),
    30.0,
    "Too many model calls of this {whose} are read and compute their contexts. Wait until one waits for its "
    "provider, then retry, or send less and call with a smaller `max_tokens`.",
)
"""More of a project at once would be no faster, and slow the calls of others: a context may take a minute."""


class CallRead(RequestRead):
    """What one model call reads, and its turn."""

    def __init__(self) -> None:
        super().__init__()
        self._turn: bytes | None = None
        """The project for which a turn was taken."""

    def begin(self, project: bytes) -> None:
        """Waits for a turn of the call's project.

        Raises:
            TooManyRequests, ServerUnavailable: when no turn came in time.
        """
        self.owner = project
        if self._turn is None:
            TURNS.take(project)
            self._turn = project

    def end(self) -> None:
        super().end()
        if self._turn is not None:
            TURNS.slots.give_back(self._turn)
            self._turn = None
