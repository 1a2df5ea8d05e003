"""Few model calls of each project compute at the same time.

All calls have one process, whose threads compute in turn. A call has a slot from the moment at which its key
is known, before its body is parsed, until it waits for its provider.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from historyapp.core.slots import NoSlot, Slots
from historyapp.models.large_reads import RequestRead
from historyapp.services.connections import release_connection
from historyapp.services.project_slots import ProjectSlots

COMPUTING = ProjectSlots(
    Slots(8, of_owner=2, waiting=64),
    30.0,
    "Too many model calls of this {whose} are read and compute their contexts. Wait until one waits for its "
    "provider, then retry, or send less and call with a smaller `max_tokens`.",
)
"""More of a project at once would be no faster, and slow the calls of others: a context may take a minute."""

LONG = 1 << 18
"""Bytes of a long response in memory. Joining, counting and storing four million characters takes a second
or more, and several times their memory."""
RECORDING = Slots(4, of_owner=1, waiting=1000)
RECORD_SECONDS = 60.0


@contextmanager
def turn_to_record(project: Hashable, size: int) -> Iterator[None]:
    """Within the block, the caller records a response. If it is long, it first waits until no other long
    response of the project is being recorded.

    The response is paid, so it is never refused: after :data:`RECORD_SECONDS`, it is recorded anyway.

    Args:
        size: the bytes of the response in memory.
    """
    has_turn = size > LONG and _wait_for_turn(project)
    try:
        yield
    finally:
        if has_turn:
            RECORDING.give_back(project)


def _wait_for_turn(project: Hashable) -> bool:
    release_connection()
    try:
        RECORDING.take(project, RECORD_SECONDS)
    except NoSlot:
        return False
    return True


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
