"""Limits how long a write transaction of a server process may take, and logs each that takes long.

On SQLite nobody else can write meanwhile. On PostgreSQL the feed of changes of all projects stands still.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest

from historyapp.log import request_id
from historyapp.meters import count_write, known_method, route_of
from historyapp.models.transaction_limits import TransactionLimit
from historyapp.models.vendor import on_sqlite
from historyapp.services.statement_limits import limit_idle_time

log = logging.getLogger(__name__)

LOGGED_SECONDS = 1.0
"""A transaction that takes longer is logged."""
_CHECK_SECONDS, _RETRY_SECONDS = 0.5, 0.01
"""Seconds between two checks for statements that run after the limit, and after a statement was interrupted:
of many short ones, the interruption may have come between two."""
_CALLERS = 4
"""The number of functions that a line of the log names."""
_PACKAGES = ("historyapp.", "dashboard.")
_OWN_MODULES = (__name__, "historyapp.services.transactions")


class _Process:
    """The state of this process."""

    seconds: float | None = None
    """The limit; None in commands and migrations, which have none."""
    watcher: threading.Thread | None = None
    open: set[TransactionLimit] = set()
    """The limits of open transactions."""
    has_begun = threading.Event()
    """Set when a transaction begins."""


def limit_transactions() -> None:
    """Turns the limit on in this process, which serves requests or works for them."""
    _Process.seconds = settings.PLAYHEAD_TRANSACTION_SECONDS
    connection_created.connect(limit_idle_time)


def begin_limit(database: BaseDatabaseWrapper) -> TransactionLimit | None:
    """Begins the limit of a transaction that has just begun.

    Returns None if it is within another one, whose limit includes it, or if this process has no limit.
    """
    seconds, wrappers = _Process.seconds, database.execute_wrappers
    if seconds is None or (wrappers and any(type(one) is TransactionLimit for one in wrappers)):
        return None
    limit = TransactionLimit(database, seconds)
    wrappers.append(limit)
    _Process.open.add(limit)
    if not _Process.has_begun.is_set():
        _watch_in_thread()
    return limit


def end_limit(limit: TransactionLimit) -> None:
    """Ends a limit before its transaction is committed or rolled back."""
    _Process.open.discard(limit)
    limit.end()


def record_transaction(limit: TransactionLimit, *, is_ended: bool) -> None:
    """Counts a transaction, and logs it if it took long. Called when others can write again.

    Args:
        is_ended: whether its limit has ended it.
    """
    seconds = time.monotonic() - limit.started
    count_write(seconds)
    if seconds < LOGGED_SECONDS:
        return
    verb, place = "was ended after" if is_ended else "took", " < ".join(_callers())
    id, thread = request_id.get(), threading.current_thread().name
    route = _route()
    work = f"{route}, request {id}" if route else f"thread {thread}"
    fields = {
        "seconds": round(seconds, 3),
        "ended": is_ended,
        "place": place,
        "thread": thread,
        "route": route,
    }
    message = "A write transaction %s %.1f seconds: %s, %s"
    log.warning(message, verb, seconds, place, work, extra={"fields": fields})


def _callers() -> Iterator[str]:
    """The functions of Playhead that have opened the transaction, the innermost first."""
    frame = sys._getframe()
    places = 0
    while frame.f_back is not None and places < _CALLERS:
        frame = frame.f_back
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_PACKAGES) and module not in _OWN_MODULES:
            places += 1
            file = "/".join(Path(frame.f_code.co_filename).parts[-3:])
            yield f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"


def _route() -> str:
    """The method and route of the request that this thread carries out; empty outside requests."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        request = frame.f_locals.get("request")
        if isinstance(request, HttpRequest) and request.resolver_match is not None:
            return f"{known_method(request.method)} {route_of(request)}"
        frame = frame.f_back
    return ""


def _watch_in_thread() -> None:
    """Lets the watcher look at the open transactions. Starts it if it does not run in this process."""
    _Process.has_begun.set()
    if _Process.watcher is None:
        _Process.watcher = threading.Thread(target=_watch, name="transaction limits", daemon=True)
        _Process.watcher.start()


def _watch() -> None:
    """Interrupts the statements that run after the limit. Sleeps while no transaction is open."""
    while True:
        _Process.has_begun.wait()
        now = time.monotonic()
        limits = list(_Process.open)
        late = [limit for limit in limits if now > limit.until]
        for limit in late:
            limit.interrupt()
        time.sleep(_RETRY_SECONDS if late and on_sqlite() else _CHECK_SECONDS)
        _Process.has_begun.clear()
        if _Process.open:
            _Process.has_begun.set()
