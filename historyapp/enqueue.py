"""Messages that ask the workers for work. Without a broker, workers find the work at their next sweep.

Celery takes 12 MB: it is loaded by the first message, not by the server's start.
"""

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import nullcontext
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError

from historyapp.core.origins import VERSION as NAMES_VERSION
from historyapp.models.history import History
from historyapp.models.text_blocks import BLOCK_ENTRIES
from historyapp.services.imports.reports import FileReport
from historyapp.services.name_index import catch_up, indexed_up_to
from historyapp.services.transactions import writing
from historyapp.wire.problems import StorageFailed

log = logging.getLogger(__name__)

WORKERS_PER_RUN = 4
"""Workers that are woken for one run."""
ASK_SECONDS = 10.0
"""Seconds before this process asks again for the same index of a session."""

_asked: dict[tuple[str, UUID], float] = {}
"""When this process asked for an index of a session, in seconds of the monotonic clock."""
_lock = threading.Lock()


def wake(run: UUID, workers: int = WORKERS_PER_RUN) -> None:
    """Sends messages that wake workers for a run. Without a broker, workers find it at their next sweep."""
    send("compress", [run] * workers, f"the run {run} waits for the next sweep")


def want_text_index(sessions: Iterable[UUID]) -> None:
    """Asks workers to index the texts of sessions. Without a broker, the next search asks again."""
    send("index_text", not_asked("texts", sessions), "searches stay slow until it can")


def index_imports(reports: Iterable[FileReport]) -> None:
    """Asks workers to index the texts of imported sessions, so that the first search is fast too.

    Sessions without enough entries for a block are left out: without an index they are searched as quickly.
    """
    sessions = [session for report in reports for session in report.sessions if session.changed]
    want_text_index([one.id for one in sessions if one.counts.entries >= BLOCK_ENTRIES])


def not_asked(what: str, sessions: Iterable[UUID], seconds: float = ASK_SECONDS) -> list[UUID]:
    """The sessions for whose index this process has not asked within the last seconds; notes that it asks."""
    now = time.monotonic()
    with _lock:
        for old in [key for key, asked in _asked.items() if key[0] == what and now - asked >= seconds]:
            del _asked[old]
        wanted = [id for id in sessions if (what, id) not in _asked]
        _asked.update({(what, id): now for id in wanted})
    return wanted


def send(task: str, ids: Iterable[UUID], consequence: str) -> None:
    """Puts a message for each id into the queue, in one commit.

    Args:
        task: its name.
        consequence: what follows where the messages cannot be sent, for the log.
    """
    from kombu.exceptions import OperationalError

    from historyapp.celery import app

    arguments = [(str(id),) for id in ids]
    one_commit = nullcontext() if settings.REDIS_URL or len(arguments) < 2 else writing()
    try:
        with one_commit:
            for one in arguments:
                app.send_task(task, one)
    except (OperationalError, OSError, DatabaseError, StorageFailed) as error:
        log.warning("The broker cannot be reached; %s: %s", consequence, error)


def index_names_of(history: History) -> bool:
    """Indexes the names that can be indexed at once, and asks workers for the rest.

    Returns whether everything is in. If the rest cannot be stored, the reader does without it.
    """
    try:
        is_complete = catch_up(history.lineage)
    except (DatabaseError, StorageFailed) as error:
        log.warning("The index of names cannot be stored: %s", error)
        return False
    if not is_complete:
        want_name_index(history.session.pk)
    return is_complete


def name_index_state(history: History) -> str:
    """Indexes names as :func:`index_names_of`. Returns a text that changes when more of them are in.

    Other rules give another text, too.
    """
    return (
        f"complete {NAMES_VERSION}" if index_names_of(history) else f"up to {indexed_up_to(history.lineage)}"
    )


def want_search_index(project: UUID) -> None:
    """Asks workers to add a project's steps to the search index. Without a broker, the next search asks."""
    send("index_search", not_asked("search", [project]), "older steps are not found until it can")


def want_bulk_action(action: UUID) -> None:
    """Asks a worker to continue a bulk action. Without a broker, the next sweep asks again."""
    send("bulk_action", [action], f"the bulk action {action} waits for the next sweep")


def want_name_index(session: UUID) -> None:
    """Asks workers to index the names of a session. Without a broker, the next reader asks again."""
    send("index_names", not_asked("names", [session]), "the names of a session wait")
