"""The Celery tasks. A task takes an id and calls one service.

It does no harm if a task runs twice or never: the work is stored in the database, and the sweep wakes workers
for unfinished work.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError

from historyapp.bulk_workers import SCHEDULER as BULK_SCHEDULER
from historyapp.bulk_workers import start_bulk_worker
from historyapp.celery import app
from historyapp.clock import short_row_locks
from historyapp.compression_workers import LANES, LOCAL_RUNS, start_compression_worker
from historyapp.duties import Duties
from historyapp.enqueue import not_requested, wake
from historyapp.evaluators import SCHEDULER as EVALUATION_SCHEDULER
from historyapp.evaluators import start_evaluator
from historyapp.indexers import SCHEDULER as INDEX_SCHEDULER
from historyapp.indexers import request_index
from historyapp.models import Webhook
from historyapp.models.database_clock import CLOCK, database_now
from historyapp.services import outcomes
from historyapp.services.bulk.start import prune_bulk_actions
from historyapp.services.changes import prune_changes
from historyapp.services.compression.start import compress_if_due, due_sessions, postpone_compression
from historyapp.services.connections import ConnectionsInUse, short_connection
from historyapp.services.deletions import INTERRUPTED_AFTER, delete_hidden_sessions, hidden_sessions
from historyapp.services.evaluations.start import prune_evaluations
from historyapp.services.faults import concerns_data, is_row_lock
from historyapp.services.figures.run_figures import count_ahead, sessions_to_count
from historyapp.services.transactions import giving_way
from historyapp.services.webhooks.endpoints import prune_deliveries
from historyapp.wire.problems import StorageFailed
from historyapp.work_threads import WorkThreads, stopping

log = logging.getLogger(__name__)

WEBHOOK_SECONDS = 0.9
"""This process requests the same webhook at most once in this many seconds; it checks them every second."""
SHARED_SENDERS, MAX_SENDERS = 16, 48
"""The maximum number of webhooks that one process works on at the same time. Those beyond the first number
belong to projects that have no other one, so slow targets of a few projects do not delay all others."""
SENDERS = ThreadPoolExecutor(MAX_SENDERS, thread_name_prefix="webhooks")
PROJECT_SENDERS = 4
"""The same for each project. Slow targets of one project must not delay the deliveries of others."""

_chores: set[str] = set()
"""The chores that this process is working on: outcomes, figures, deletions, automatic runs."""
_current_webhooks: dict[UUID, UUID] = {}
"""The webhooks that this process is working on, with their projects."""
_submitted_webhooks: set[UUID] = set()
"""The same, with those that wait for a thread."""
_lock = threading.Lock()


@app.task(name="compress")
def compress(run: str, forwards: int = 0) -> None:
    """Lets a thread work on the run that is next, which may be another one.

    Args:
        run: the run that was requested.
        forwards: sent by earlier versions.
    """
    start_compression_worker(UUID(run))


@app.task(name="bulk_action")
def bulk_action(action: str) -> None:
    """Lets a thread work on the bulk action that is next, which may be another one."""
    start_bulk_worker()


@app.task(name="evaluate")
def evaluate(evaluation: str) -> None:
    """Lets a thread work on the evaluation that is next, which may be another one."""
    start_evaluator()


@app.task(name="send_webhook")  # sent by earlier versions: during an update, both read the queue
def send_webhook(webhook: str) -> None:
    """Sends a webhook's due deliveries in a thread of its own kind."""
    _submit_webhooks([UUID(webhook)])


def _submit_webhooks(ids: Collection[UUID]) -> None:
    """Lets threads send the due deliveries of webhooks. A webhook is skipped if a thread sends them already
    or is about to."""
    projects = Webhook.objects.filter(pk__in=ids).values_list("pk", "project_id") if ids else []
    for id, project in projects:
        with _lock:
            is_submitted = id in _submitted_webhooks
            _submitted_webhooks.add(id)
        if not is_submitted:
            SENDERS.submit(_send_webhook, id, project)


def _send_webhook(id: UUID, project: UUID) -> None:
    # Imported here: only workers load the HTTP client.
    from historyapp.services.webhooks.delivery import process_webhook

    try:
        if not _reserve_sender(id, project):
            return  # if it is still due, the next check finds it again
        try:
            with giving_way("webhooks", project), short_connection(("webhooks", project)):
                process_webhook(id, stopping.is_set)
        finally:
            with _lock:
                del _current_webhooks[id]
    except (DatabaseError, StorageFailed, ConnectionsInUse) as error:
        log.warning("The webhook %s waits for the next check: %s", id, error)
    except Exception:  # nobody reads the thread's result
        log.exception("The deliveries of the webhook %s cannot be sent.", id)
    finally:
        with _lock:
            _submitted_webhooks.discard(id)


def _reserve_sender(id: UUID, project: UUID) -> bool:
    """Whether this thread may work on the webhook: no other does, and few work on others of its project."""
    with _lock:
        current = list(_current_webhooks.values())
        own = current.count(project)
        has_room = own < PROJECT_SENDERS and len(current) < SHARED_SENDERS
        if id in _current_webhooks or (own and not has_room):
            return False
        _current_webhooks[id] = project
        return True


def send_due_webhooks() -> None:
    """Lets threads send the due deliveries of webhooks.

    Without messages, which would wait behind other messages and for a thread for tasks.
    """
    _submit_webhooks(not_requested("webhook", Webhook.objects.due(database_now()), WEBHOOK_SECONDS))


@app.task(name="index_text")
def index_text(session: str) -> None:
    """Requests the missing text blocks of a session, so that searching it is fast."""
    request_index("text", UUID(session))


@app.task(name="index_names")
def index_names(session: str) -> None:
    """Requests the missing entries of a session in the index of names."""
    request_index("names", UUID(session))


@app.task(name="index_search")
def index_search(project: str) -> None:
    """Requests the missing steps of a project in the index of searches across sessions."""
    request_index("search", UUID(project))


@contextmanager
def _only_once(chore: str) -> Iterator[bool]:
    """Reserves a chore for this thread until the end of the block. Yields False if another thread has it."""
    with _lock:
        is_first = chore not in _chores
        _chores.add(chore)
    try:
        yield is_first
    finally:
        if is_first:
            with _lock:
                _chores.discard(chore)


def _should_yield() -> bool:
    """Whether a chore must stop, because runs have priority. The next sweep continues it.

    Runs that call a model mostly wait for it, so chores delay them little.
    """
    return stopping.is_set() or LOCAL_RUNS.waiting.is_set()


@app.task(name="work_out_outcomes")  # as in earlier versions: during an update, both read the queue
def compute_outcomes() -> None:
    """Computes outcomes of steps that an earlier version recorded."""
    with _only_once("outcomes") as is_first:
        if is_first:
            outcomes.compute_outcomes(_should_yield)


@app.task(name="count_figures")
def count_figures() -> None:
    """Counts the figures of sessions that were imported or have grown, so that their overviews load fast."""
    with _only_once("figures") as is_first:
        for session in sessions_to_count() if is_first else []:
            try:
                count_ahead(session, _should_yield)
            except Exception as error:  # continue with the other sessions
                if not concerns_data(error):
                    raise
                log.exception("The figures of session %s cannot be counted.", session)


@app.task(name="complete_deletions")
def complete_deletions() -> None:
    """Deletes the rest of sessions whose deletion was interrupted."""
    with _only_once("deletions") as is_first:
        if is_first:
            delete_hidden_sessions(INTERRUPTED_AFTER)


_sweep_duties = Duties()


def sweep() -> bool:
    """Starts threads for chores.

    Deletes changes, deliveries, bulk actions and evaluations that are no longer kept. An error in one part is
    logged and does not stop the others. Returns whether all parts succeeded.
    """
    retention = timedelta(days=settings.PLAYHEAD_CHANGES_DAYS)
    parts: dict[str, Callable[[], object]] = {
        "start chores": _start_chores,
    }
    if not CLOCK.was_just_set():
        parts |= {
            "delete old changes": lambda: prune_changes(retention),
            "delete old deliveries": lambda: prune_deliveries(retention),
            "delete old bulk actions": lambda: prune_bulk_actions(database_now() - retention),
            "delete old evaluations": prune_evaluations,
        }
    for name, part in parts.items():
        _sweep_duties.attempt(name, part)
    return not _sweep_duties.failing


CHORES = {
    "outcomes": WorkThreads("outcomes", 1, lambda: compute_outcomes()),
    "figures": WorkThreads("figures", 1, lambda: count_figures()),
    "deletions": WorkThreads("deletions", 1, lambda: complete_deletions()),
    "automatic runs": WorkThreads("automatic runs", 1, lambda: _start_automatic_runs()),
}
"""The thread of each chore. Without messages, so that chores begin without Redis too."""


def _start_chores() -> None:
    if outcomes.has_stale_sessions():
        CHORES["outcomes"].start()
    if sessions_to_count():
        CHORES["figures"].start()
    if hidden_sessions(INTERRUPTED_AFTER):
        CHORES["deletions"].start()


def is_busy() -> bool:
    """Whether this process is working on a run, an evaluation, a bulk action, an index, a webhook or a chore,
    or a run is waiting."""
    working = EVALUATION_SCHEDULER.projects or BULK_SCHEDULER.projects or _current_webhooks or _chores
    return bool(working) or INDEX_SCHEDULER.is_busy or any(lane.is_busy for lane in LANES)


def request_due_runs() -> None:
    """Lets a thread start the automatic runs that are due. The clock does not wait, because the thread pauses
    after each write."""
    if due_sessions():
        CHORES["automatic runs"].start()


_STARTING_SECONDS = 2.0
_automatic_duties = Duties()


def _start_automatic_runs() -> None:
    with _only_once("automatic runs") as is_first, short_row_locks():
        if is_first:
            _automatic_duties.attempt("start automatic runs", start_due_runs)


def start_due_runs() -> None:
    """Starts the automatic runs that are due.

    This is not a task: while all workers are busy, a message for each second and session would accumulate.
    A session whose run cannot be started is logged. It is tried again after its next append.

    It ends after :data:`_STARTING_SECONDS`, and the clock calls it again, so that projects whose sessions are
    due since then get their turn.
    """
    until = monotonic() + _STARTING_SECONDS
    for session in due_sessions():
        if stopping.is_set() or monotonic() > until:
            return
        try:
            run = compress_if_due(session)
        except Exception as error:  # continue with the other sessions
            if is_row_lock(error):
                continue  # it stays due
            if not concerns_data(error):
                raise
            log.exception("The automatic run of session %s cannot be started.", session)
            postpone_compression(session)
        else:
            if run is not None:
                wake(run.pk)
