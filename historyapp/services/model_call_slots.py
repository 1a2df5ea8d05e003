"""Few model calls of each project compute at the same time.

All calls have one process, whose threads compute in turn. A call has a slot from the moment at which its key
is known, before its body is parsed, until it waits for its provider.
"""

from historyapp.core.slots import Slots
from historyapp.models.large_reads import RequestRead
from historyapp.services.project_slots import ProjectSlots

COMPUTING = ProjectSlots(
    Slots(8, of_owner=2, waiting=64),
    30.0,
    "Too many model calls of this {whose} are read and compute their contexts. Wait until one waits for its "
    "provider, then retry, or send less and call with a smaller `max_tokens`.",
)
"""More of a project at once would be no faster, and slow the calls of others: a context may take a minute."""


class ModelCallRead(RequestRead):
    """What one model call reads, and its slot for computing."""

    def __init__(self) -> None:
        super().__init__()
        self._computes_for: bytes | None = None
        """The project for which a slot for computing was taken."""

    def begin(self, project: bytes) -> None:
        """Waits for a slot of the call's project.

        Raises:
            TooManyRequests, ServerUnavailable: when none became free in time.
        """
        self.owner = project
        if self._computes_for is None:
            COMPUTING.take(project)
            self._computes_for = project

    def end(self) -> None:
        super().end()
        if self._computes_for is not None:
            COMPUTING.slots.give_back(self._computes_for)
            self._computes_for = None
