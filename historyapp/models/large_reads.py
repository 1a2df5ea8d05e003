"""Requests of the web process that read many bytes.

A response is built in memory, where it takes several times the bytes that were read for it, and other
requests wait while Python works on a long text. Nothing shows earlier how much a request will read. So when
it has read more than ``PLAYHEAD_LARGE_REQUEST`` bytes, it starts again in another process, see
:mod:`historyapp.front.large_requests`. A model call, or a request that has written, stays in this process,
and takes one of a few slots when it has read more than :data:`VERY_LARGE` bytes.
"""

from collections.abc import Callable
from contextvars import ContextVar

from django.conf import settings
from django.db import connection

from historyapp.core.json_counts import MANY_VALUES, holds_many_digits, holds_more_values
from historyapp.core.slots import NoSlot, Slots
from historyapp.models.open_queries import close_queries
from historyapp.wire.busy import busy_error

VERY_LARGE = 1 << 24
"""A request that stays in this process needs a slot when it reads more bytes."""
AT_ONCE, OF_PROJECT, WAITING = 3, 1, 5
"""Such requests at the same time in total and of one project, and how many more of a project may wait. What a
waiting request has read stays in memory."""
WAIT_SECONDS, RETRY_SECONDS = 15.0, 2
NO_SLOT = (
    f"Other requests of this {{whose}} are reading more than {VERY_LARGE:,} bytes of entries and summaries. "
    "Wait until one has ended, then retry."
)

LARGE_READS = Slots(AT_ONCE, of_owner=OF_PROJECT, waiting=WAITING)


class LargeRead(BaseException):
    """The request reads too much for the web process and starts again in another process.

    Not an error: only the web server handles it.
    """


class RequestRead:
    """What one request of the web server reads. Used by the request's thread only.

    Args:
        may_move: whether it can start again in another process. False once it has written what may not be
            written twice.
        on_write: called when it has written that.
        on_owner: called when it is known for whom it reads.
    """

    def __init__(
        self,
        *,
        may_move: bool = False,
        on_write: Callable[[], None] | None = None,
        on_owner: Callable[[bytes], None] | None = None,
    ) -> None:
        self.may_move = may_move
        self.on_owner = on_owner
        self._on_write = on_write
        self.owner = b""
        """The project of the session that is read, or who sent the request as long as that is not known."""
        self._size = 0
        self._slot: bytes | None = None
        """The owner for which a slot was taken."""

    def add(self, size: int) -> None:
        """Counts bytes. If they are many, the request moves to another process or takes a slot.

        A transaction takes none: other writers would wait for the slot too.

        Raises:
            LargeRead: when the request moves.
            TooManyRequests: when the project reads too much already.
            ServerUnavailable: when other projects do.
        """
        self._size += size
        self.expect(0)

    def expect(self, size: int) -> None:
        """Called before a text is read that is counted later. Reading it takes three times as much memory.
        As :meth:`add`, but counts nothing."""
        size += self._size
        if self.may_move and size > settings.PLAYHEAD_LARGE_REQUEST:
            raise LargeRead
        if size <= VERY_LARGE or self._slot is not None or connection.in_atomic_block:
            return
        close_queries()
        try:
            LARGE_READS.take(self.owner, WAIT_SECONDS)
        except NoSlot as error:
            raise busy_error(NO_SLOT, is_own=error.is_own, retry_after=RETRY_SECONDS) from None
        self._slot = self.owner

    def note_write(self) -> None:
        """Called after the commit of what may not be written twice."""
        self.may_move = False
        if self._on_write:
            self._on_write()

    def end(self) -> None:
        """Gives the slot back: what was read is not needed any more. Later reads are counted from zero."""
        self._size = 0
        if self._slot is not None:
            LARGE_READS.give_back(self._slot)
            self._slot = None


request_read: ContextVar[RequestRead | None] = ContextVar("request_read", default=None)
"""What this request reads. None: no limit, as in workers and commands."""


def read_for(owner: bytes) -> None:
    """Counts what this request reads for an owner: a project, or who sent the request."""
    if read := request_read.get():
        read.owner = owner
        if read.on_owner:
            read.on_owner(owner)


def move_to_other_process() -> None:
    """Called when this request would stop other requests for too long. A request that may not move stays.

    Raises:
        LargeRead: when the request moves.
    """
    if (read := request_read.get()) and read.may_move:
        raise LargeRead


def move_for_slow_json(text: str) -> None:
    """Called before a JSON text is read. As :func:`move_to_other_process`, if it has many values or digits.

    They are only counted if the request may move.
    """
    may_move = (read := request_read.get()) is not None and read.may_move
    if may_move and (holds_more_values(text, MANY_VALUES) or holds_many_digits(text)):
        raise LargeRead


def stay_in_process() -> None:
    """Called when this request has written something that may not be written twice."""
    if read := request_read.get():
        read.note_write()


def end_large_read() -> None:
    """Gives the slot of this request back before it waits for something else."""
    if read := request_read.get():
        read.end()
