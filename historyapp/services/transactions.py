"""The transaction that every write uses."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from uuid import UUID

from django.conf import settings
from django.core.exceptions import EmptyResultSet
from django.db import (
    DEFAULT_DB_ALIAS,
    InternalError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from historyapp.models.large_reads import stay_in_process
from historyapp.models.run_sql import transaction_database
from historyapp.models.vendor import on_sqlite
from historyapp.services.faults import clear_fault, fault_of, refuse_damaged
from historyapp.services.long_transactions import begin_limit, end_limit, record_transaction
from historyapp.services.sqlite_lock import begin_wait, cause_of_wait, end_wait, fail_wait
from historyapp.services.write_turns import NO_OWNER, WriteKind, WriteOwner, WriteTurns
from historyapp.wire.problems import TransactionTooLong

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

queued_seconds: ContextVar[float] = ContextVar("queued_seconds", default=0.0)
"""The seconds that this request has waited for a thread. They reduce the time that it waits for other
writers."""

gives_way: ContextVar[bool] = ContextVar("gives_way", default=False)
"""On SQLite, whether writes give way to those of other threads and processes: in a model call, an export or
an import, in the threads of a worker that work for projects, and in a command beside a running server. The
ones of a process that give way write one at a time, so that an append waits for at most one of them in each
process. They also pause after each transaction: an import may have thousands, and a lock does not let the
thread that waits longest in first. Writers of other processes only poll for it."""

_write_owner: ContextVar[WriteOwner] = ContextVar("write_owner", default=NO_OWNER)
"""For whom this thread writes. Kinds of work take turns, and so do the projects of each."""

_max_wait: ContextVar[float | None] = ContextVar("max_wait", default=None)
"""The seconds that each write waits within :func:`waiting_briefly`."""

HELD_SECONDS = 1
"""See :func:`limit_lock_waits`. An append of 1,000 entries locks its session for a third of this time."""
_LIMIT_LOCK_WAITS = (
    f"SELECT set_config('lock_timeout', '{HELD_SECONDS}s', true) "
    f"WHERE current_setting('lock_timeout')::interval NOT BETWEEN '1ms' AND '{HELD_SECONDS}s'"
)
_MAX_PAUSE = 0.5
"""Seconds between two parts of :func:`write_in_parts` or two transactions that give way, at most."""

_T = TypeVar("_T")

_sqlite_writer = threading.RLock()
_turns: dict[WriteKind, WriteTurns] = {kind: WriteTurns() for kind in get_args(WriteKind)}
"""Writes that give way take a turn before they acquire ``_sqlite_writer``, and keep it until their pause has
ended. So a write waits for no pause of another kind."""


@contextmanager
def giving_way(kind: WriteKind | None = None, project: UUID | None = None) -> Iterator[None]:
    """Within this block, or in the function that it decorates, writes give way, see :data:`gives_way`.

    Args:
        kind: the kind of work. Default: that of the surrounding block, or "other".
        project: the project for which it is done.
    """
    token = gives_way.set(True)
    owner = _write_owner.set(WriteOwner(kind or _write_owner.get().kind, project))
    try:
        yield
    finally:
        _write_owner.reset(owner)
        gives_way.reset(token)


def pause_after(seconds: float) -> None:
    """On SQLite, pauses for as long as a transaction took, unless writes of this thread give way: they have
    paused already."""
    if on_sqlite() and not gives_way.get():
        time.sleep(min(seconds, _MAX_PAUSE))


@contextmanager
def writing(max_wait: float | None = None) -> Iterator[None]:
    """Opens a transaction for writing, or a savepoint in the surrounding one. See also
    :func:`writing_together`.

    A write with a limit of its own, ``max_wait`` or :func:`waiting_briefly`, may fail without an effect on
    the request, such as the time of a key's last use. So it may also be repeated: after it, the request can
    still start again in another process, see :mod:`historyapp.models.large_reads`.

    SQLite lets one connection write at a time, and the others sleep and poll. Threads of this process wait on
    a lock instead, which wakes them at once. Other processes still wait for SQLite's own lock.

    Args:
        max_wait: seconds to wait for other writers; on PostgreSQL, the seconds that each statement waits for
            a lock. None: ``PLAYHEAD_WRITE_SECONDS`` minus the time that the request has waited for a thread.

    Raises:
        OperationalError: when other writers take longer, or the server accepts no writes.
        DatabaseCorrupt: when the database is known to be damaged.
        TransactionTooLong: when the outermost transaction of a server process takes longer than
            ``PLAYHEAD_TRANSACTION_SECONDS``, unless only its commit is left. Nothing is stored.
    """
    max_wait = _max_wait.get() if max_wait is None else max_wait
    joined = _joined_writes.get()
    if joined is not None and max_wait is None:
        joined.open()
    with _write_transaction(max_wait):
        yield


def write_in_parts(items: Sequence[_T], size: int, write: Callable[[Sequence[_T]], object]) -> None:
    """Calls ``write`` with parts of the items, each in a transaction of its own.

    Others can write between two parts, because it pauses for as long as a part took.

    Args:
        size: the number of items of a part.
    """
    for start in range(0, len(items), size):
        started = time.monotonic()
        with writing():
            write(items[start : start + size])
        if start + size < len(items):
            pause_after(time.monotonic() - started)


@contextmanager
def writing_together(begin: Callable[[], object]) -> Iterator[None]:
    """Joins the writes of this block into one transaction. The first :func:`writing` in it opens it.

    So work that comes before the first write delays no other writer. A write with a ``max_wait`` that comes
    before it has a transaction of its own, because it may fail without an effect on the block.

    Args:
        begin: called at the start of the transaction.
    """
    joined = _JoinedWrites(begin)
    token = _joined_writes.set(joined)
    try:
        with joined.transaction:
            yield
    finally:
        _joined_writes.reset(token)


class _JoinedWrites:
    def __init__(self, begin: Callable[[], object]) -> None:
        self.transaction = ExitStack()
        self._begin = begin
        self._is_open = False

    def open(self) -> None:
        """Opens the transaction, unless it is open already."""
        if not self._is_open:
            self.transaction.enter_context(_write_transaction(None))
            self._is_open = True
            self._begin()


_joined_writes: ContextVar[_JoinedWrites | None] = ContextVar("joined_writes", default=None)


@contextmanager
def _write_transaction(max_wait: float | None) -> Iterator[None]:
    refuse_damaged()
    limit, is_ended = None, False
    database = connections[DEFAULT_DB_ALIAS]  # looking it up takes as long as a hundred lines
    try:
        with _sqlite_transaction(database, max_wait) if on_sqlite() else _postgres_transaction(max_wait):
            limit = begin_limit(database)
            token = transaction_database.set(database)
            try:
                yield
                if limit is not None and limit.is_lost():
                    limit.refuse()
            except Exception as error:
                is_ended = limit is not None and limit.is_lost(error)
                if limit is None or not is_ended or isinstance(error, TransactionTooLong):
                    raise
                raise limit.error() from error
            finally:
                transaction_database.reset(token)
                if limit is not None:
                    end_limit(limit)
    except InternalError as error:  # psycopg's class for, among others, a server that accepts no writes
        if fault_of(error) is None:
            raise
        raise OperationalError(*error.args) from error.__cause__
    finally:
        if limit is not None:
            record_transaction(limit, is_ended=is_ended)
    if max_wait is None:
        stay_in_process()
    clear_fault()


@contextmanager
def _postgres_transaction(max_wait: float | None) -> Iterator[None]:
    if max_wait is None and queued_seconds.get() > 0.1:  # otherwise the connection's own limit applies
        max_wait = max(settings.PLAYHEAD_WRITE_SECONDS - queued_seconds.get(), 0.1)
    with transaction.atomic():
        if max_wait is not None:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {max(1, int(max_wait * 1000))}")
        yield


@contextmanager
def _sqlite_transaction(database: BaseDatabaseWrapper, max_wait: float | None) -> Iterator[None]:
    default_timeout = float(database.settings_dict["OPTIONS"]["timeout"])
    timeout = max(default_timeout - queued_seconds.get(), 0.0) if max_wait is None else max_wait
    until = time.monotonic() + timeout
    is_outermost = not database.in_atomic_block
    is_yielding = is_outermost and gives_way.get()
    owner = _write_owner.get()
    turns = _turns[owner.kind]
    if is_yielding and not turns.acquire(owner.project, max(until - time.monotonic(), 0.0)):
        raise _locked()
    try:
        if not _sqlite_writer.acquire(timeout=max(until - time.monotonic(), 0.0)):
            raise _locked()
        try:
            with _transaction_with_timeout(until - time.monotonic(), default_timeout, is_outermost):
                started = time.monotonic()  # after the wait for other processes
                yield
        finally:
            _sqlite_writer.release()
        if is_yielding:  # pauses for as long as it held the lock, so that others can write
            time.sleep(min(time.monotonic() - started, _MAX_PAUSE))
    finally:
        if is_yielding:
            turns.release()


@contextmanager
def writers_waiting() -> Iterator[None]:
    """The other threads of this process do not write to SQLite during this block."""
    with _sqlite_writer:
        yield


def _locked() -> OperationalError:
    """The error when the time of a wait for other threads is over."""
    error = OperationalError("database is locked")
    error.__cause__ = cause_of_wait()
    return error


@contextmanager
def waiting_briefly(seconds: float) -> Iterator[None]:
    """Limits how long writes wait within this block, for reads that also write an index."""
    token = _max_wait.set(seconds)
    try:
        yield
    finally:
        _max_wait.reset(token)


@contextmanager
def _transaction_with_timeout(timeout: float, default_timeout: float, is_outermost: bool) -> Iterator[None]:
    """The transaction, which waits at most ``timeout`` seconds for other processes."""
    # Setting the timeout takes a statement, so it is skipped if the lock was free.
    is_shorter = timeout < default_timeout - 0.1 and is_outermost
    if is_shorter:
        _set_busy_timeout(max(timeout, 0))
    if is_outermost:
        begin_wait()
    try:
        with transaction.atomic():
            if is_outermost:
                end_wait()
            if is_shorter:
                _set_busy_timeout(default_timeout)
            yield
    except OperationalError:
        if is_shorter and not connection.in_atomic_block:
            _set_busy_timeout(default_timeout)
        raise
    finally:
        if is_outermost:
            fail_wait()


def _set_busy_timeout(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def limit_lock_waits() -> None:
    """On PostgreSQL, limits how long statements of the caller's transaction wait for a lock from now on, to
    :data:`HELD_SECONDS`. Called before a transaction locks a second session.

    The feed of changes of all projects waits for each transaction that has locked a row, see
    ``historyapp.models.changes``. The first session of a transaction is locked before anything is written, so
    that wait delays nobody.
    """
    if not on_sqlite():
        with connection.cursor() as cursor:
            cursor.execute(_LIMIT_LOCK_WAITS)


def lock_together(sessions: "QuerySet[Any]") -> set[UUID]:
    """Locks several sessions until the caller's transaction ends, in the order of every writer. Returns their
    ids. On PostgreSQL it waits for each as :func:`limit_lock_waits` describes."""
    limit_lock_waits()
    return set(sessions.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))


def held_values(values: "QuerySet[Model, _T]") -> list[_T]:
    """The values of one column, whose rows no other transaction can delete until the caller's ends.

    On PostgreSQL it does not wait for an append to a session, and no append waits for it. A transaction that
    has locked a session and waits for another one would delay the events of all projects, because their feed
    ends before the oldest open transaction.
    """
    if on_sqlite():  # our transactions lock the whole database from their beginning
        return list(values)
    try:
        statement, parameters = values.query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} FOR KEY SHARE", parameters)
        return [value for (value,) in cursor.fetchall()]
