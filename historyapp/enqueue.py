"""Puts messages for the workers into the queue. Without a broker, workers find the work at their next sweep.

Celery takes 8 MB. Only the first message to Redis loads it.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings
from django.db import Error

from historyapp.core.origins import VERSION as NAMES_VERSION
from historyapp.lag import QUEUE
from historyapp.models.history import History
from historyapp.models.indexed_entries import indexed_up_to
from historyapp.models.text_blocks import BLOCK_ENTRIES
from historyapp.redis_values import in_time
from historyapp.services.imports.reports import FileReport
from historyapp.services.names.index import catch_up
from historyapp.services.queue import put
from historyapp.services.transactions import waiting_briefly
from historyapp.task_message import task_message
from historyapp.wire.problems import ServerUnavailable

log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""This process requests the same index of a session at most once in this many seconds."""
READ_WAIT_SECONDS = 0.2
"""A read waits at most this many seconds for other writers before it indexes names or requests an index."""
TURN_SECONDS = 0.5
"""A thread waits at most this many seconds for another thread that sends to Redis."""
RETRY_SECONDS = 5.0
"""Nothing is sent for this many seconds after Redis took longer than ``TURN_SECONDS``."""

_requested_at: dict[tuple[str, UUID], float] = {}
"""When this process last requested an index of a session, by the monotonic clock."""
_lock = threading.Lock()


class _Redis:
    """How this process sends messages to Redis."""

    turn = threading.Lock()
    """Held by the thread that is sending."""
    next_attempt = 0.0
    """Until this time of the monotonic clock nothing is sent."""


def wake(run: UUID) -> None:
    """Wakes a worker for a run. The other workers, or all without a broker, find it within a second."""
    send("compress", [run], f"workers find the run {run} within a second")


def request_text_index(sessions: Iterable[UUID]) -> None:
    """Requests text indexes of sessions. Without a broker, the next search requests them again."""
    _request_index("index_text", not_requested("texts", sessions), "searches stay slow until it is back")


def index_imports(reports: Iterable[FileReport]) -> None:
    """Requests text indexes of imported sessions, so that the first search is fast too.

    Sessions without enough entries for a block are left out. Searching them is as fast without an index.
    """
    sessions = [session for report in reports for session in report.sessions if session.changed]
    request_text_index([session.id for session in sessions if session.counts.entries >= BLOCK_ENTRIES])


def not_requested(index_kind: str, sessions: Iterable[UUID], seconds: float = REQUEST_SECONDS) -> list[UUID]:
    """The sessions whose index this process has not requested within the last ``seconds``. They now count as
    requested."""
    now = time.monotonic()
    with _lock:
        for expired in [
            key
            for key, requested_at in _requested_at.items()
            if key[0] == index_kind and now - requested_at >= seconds
        ]:
            del _requested_at[expired]
        ids = [id for id in sessions if (index_kind, id) not in _requested_at]
        _requested_at.update({(index_kind, id): now for id in ids})
    return ids


def send(task: str, ids: Iterable[UUID], consequence: str) -> None:
    """Puts a message for each id into the queue, in one commit.

    Args:
        task: the task's name.
        consequence: what happens if the messages cannot be sent, for the log.
    """
    arguments = [str(id) for id in ids]
    if not arguments:
        return
    try:
        if settings.REDIS_URL:
            _send_to_redis(task, arguments)
        else:
            put(QUEUE, *[task_message(task, argument, QUEUE) for argument in arguments])
    except (OSError, Error, ServerUnavailable) as error:
        log.warning("The broker cannot be reached; %s: %s", consequence, error)


def _send_to_redis(task: str, arguments: Iterable[str]) -> None:
    """Sends a message for each argument.

    Raises:
        OSError: when Redis does not respond.
    """
    from kombu.exceptions import OperationalError

    from historyapp.celery import app

    try:
        with _redis_turn():
            in_time(lambda: [app.send_task(task, (argument,)) for argument in arguments])
    except OperationalError as error:
        raise OSError(*error.args) from error


@contextmanager
def _redis_turn() -> Iterator[None]:
    """Lets one thread at a time send to Redis, and no thread for a while after Redis has responded too late.

    Otherwise a Redis that hangs would block every thread for requests that write, each for five seconds.

    Raises:
        TimeoutError: when Redis has just responded too late, or another thread is still waiting for it.
    """
    if time.monotonic() < _Redis.next_attempt or not _Redis.turn.acquire(timeout=TURN_SECONDS):
        raise TimeoutError("Redis does not respond.")
    started = time.monotonic()
    try:
        yield
    finally:
        now = time.monotonic()
        if now - started > TURN_SECONDS:
            _Redis.next_attempt = now + RETRY_SECONDS
        _Redis.turn.release()


def ensure_name_index(history: History) -> bool:
    """Indexes the names that can be indexed at once, and requests the remaining names from workers.

    Returns whether the index is complete. If the index cannot be stored, the reader continues without it.
    """
    try:
        with waiting_briefly(READ_WAIT_SECONDS):
            is_complete = catch_up(history.lineage)
    except (Error, ServerUnavailable) as error:
        log.warning("The index of names cannot be stored: %s", error)
        return False
    if not is_complete:
        request_name_index(history.session.pk)
    return is_complete


def name_index_state(history: History) -> str:
    """Indexes names like :func:`ensure_name_index`. Returns a text that changes when more names are indexed,
    and with the version of the rules.
    """
    return (
        f"complete {NAMES_VERSION}"
        if ensure_name_index(history)
        else f"up to {indexed_up_to(history.lineage)}"
    )


def request_search_index(project: UUID) -> None:
    """Requests an update of a project's search index. Without a broker, the next search requests it again."""
    ids = not_requested("search", [project])
    _request_index("index_search", ids, "older steps are not found until it is back")


def wake_bulk_action(action: UUID) -> None:
    """Wakes a worker for a bulk action. Without a broker, workers find it within a second."""
    send("bulk_action", [action], f"workers find the bulk action {action} within a second")


def wake_evaluation(evaluation: UUID) -> None:
    """Wakes a worker for an evaluation. Without a broker, workers find it within a second."""
    send("evaluate", [evaluation], f"workers find the evaluation {evaluation} within a second")


def request_name_index(session: UUID) -> None:
    """Requests a name index of a session. Without a broker, the next reader requests it again."""
    _request_index("index_names", not_requested("names", [session]), "the names of a session wait")


def _request_index(task: str, ids: Iterable[UUID], consequence: str) -> None:
    """Like :func:`send`, but does not wait long for other writers, because requests that read wait for it."""
    with waiting_briefly(READ_WAIT_SECONDS):
        send(task, ids, consequence)
