"""Limits how many connections to PostgreSQL long work uses, so that short requests always get one.

PostgreSQL refuses connections beyond its maximum, whoever needs them. Model calls, compression runs with a
model and webhooks mostly wait for others, so a thread closes its connection before it waits. While it has
one, it takes one of the slots of its process. Projects share the slots, and threads that wait for a slot
have no connection.

Connections to SQLite are not limited, so they take no slots.
"""

import threading
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from django.db import connection

from historyapp.wire.problems import ServerUnavailable

MAX_SLOTS, SPARE_SLOTS = 8, 8
"""The slots of a process. A spare one is only for an owner that has no other."""
OWN_SLOTS = 4
"""The maximum number of slots of one owner. Its threads wait for the same rows, so more would not help."""
WAIT_SECONDS = 60.0
"""How long a thread waits for a slot. A response that is paid for must not be lost, so this is long."""


class ConnectionsInUse(ServerUnavailable):
    """The owner's connections were in use for too long."""


class ConnectionSlots:
    """The slots of a process. The owner with the fewest slots is next; of several, the one that has waited
    longest.

    Args:
        limit: the number of slots that any owner can have.
        spare: the number of further slots, each for an owner without another one.
        own: the maximum number of slots of one owner.
    """

    def __init__(self, limit: int = MAX_SLOTS, spare: int = SPARE_SLOTS, own: int = OWN_SLOTS) -> None:
        self._limit, self._spare, self._own = limit, spare, own
        self._taken = Counter[Hashable]()
        self._waiting: dict[threading.Event, Hashable] = {}
        """The owners of waiting threads, in the order of their arrival."""
        self._lock = threading.Lock()

    def take(self, owner: Hashable, seconds: float | None = None) -> None:
        """Takes a slot, and waits for it if necessary.

        Raises:
            ConnectionsInUse: when none becomes free within ``seconds``, by default :data:`WAIT_SECONDS`.
        """
        turn = threading.Event()
        with self._lock:
            self._waiting[turn] = owner
            self._give_slots()
        seconds = WAIT_SECONDS if seconds is None else seconds
        if turn.wait(seconds):
            return
        with self._lock:
            if self._waiting.pop(turn, None) is None:
                return  # its turn came just now
        raise ConnectionsInUse(
            f"All connections to the database for this work were in use for {seconds:g} seconds. "
            "Try again in a moment.",
            retry_after=2,
        )

    def give_back(self, owner: Hashable) -> None:
        """Ends the use of a slot."""
        with self._lock:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]
            self._give_slots()

    def _give_slots(self) -> None:
        """Gives free slots to waiting threads. The caller holds the lock."""
        while turn := min(filter(self._may_have, self._waiting), key=self._number_of, default=None):
            self._taken[self._waiting.pop(turn)] += 1
            turn.set()

    def _number_of(self, turn: threading.Event) -> int:
        return self._taken[self._waiting[turn]]

    def _may_have(self, turn: threading.Event) -> bool:
        own, all_taken = self._number_of(turn), self._taken.total()
        if not own:
            return all_taken < self._limit + self._spare
        return own < self._own and all_taken < self._limit


SLOTS = ConnectionSlots()
_owner: ContextVar[Hashable | None] = ContextVar("connection_owner", default=None)


def take_slot() -> Hashable | None:
    """Takes a slot for a new connection of this thread. Returns its owner, or None if it needs no slot.

    Raises:
        ConnectionsInUse: when none becomes free in time.
    """
    owner = _owner.get()
    if owner is not None:
        SLOTS.take(owner)
    return owner


def give_slot_back(owner: Hashable | None) -> None:
    """Ends what :func:`take_slot` began, with its result."""
    if owner is not None:
        SLOTS.give_back(owner)


def set_owner(owner: Hashable) -> None:
    """Changes the owner of this thread's next connections, within :func:`limited_connections`."""
    _owner.set(owner)


@contextmanager
def limited_connections(owner: Hashable | None) -> Generator[None]:
    """Within this block, each connection of this thread takes a slot.

    Args:
        owner: the project with the kind of work, or a client whose project is not known yet. None:
            connections need no slot.
    """
    release_connection()
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)
        release_connection()


@contextmanager
def unlimited_connection() -> Generator[None]:
    """If this thread has no connection to PostgreSQL, it gets one without a slot, until the block ends."""
    if connection.connection is not None:
        yield
        return
    with limited_connections(None):
        yield


@contextmanager
def short_connection(owner: Hashable | None = None) -> Generator[None]:
    """Closes this thread's connection at the end. A pool thread would keep it open forever.

    Args:
        owner: as in :func:`limited_connections`. None: as before the block.
    """
    with nullcontext() if owner is None else limited_connections(owner):
        try:
            yield
        finally:
            if not connection.in_atomic_block:
                connection.close()


def release_connection() -> None:
    """Closes this thread's connection to PostgreSQL, unless a transaction is open. The next query opens one.

    Called before a thread waits for something else than the database.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
