"""Records what changed in a session, for the feed of events; see ``historyapp.models.changes``."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from historyapp.models import Change, FiguresProgress, Session, SpendingCounter, Webhook
from historyapp.models.changes import ChangeKind, next_transaction
from historyapp.models.database_clock import database_now
from historyapp.models.vendor import on_sqlite
from historyapp.services.short_transactions import short_transaction
from historyapp.services.statements import NewChange, insert_change
from historyapp.services.transactions import writing

if TYPE_CHECKING:
    from historyapp.models import CompressionRun

PRUNED_AT_ONCE = 5_000
"""The maximum number of rows that one transaction deletes."""

_listeners: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    """Registers a function that is called after each commit of this process that changes a session.

    It must return at once and raise nothing: a request waits for it.
    """
    _listeners.append(listener)


def record_change(
    session: Session, kind: ChangeKind, first_position: int | None = None, last_position: int | None = None
) -> None:
    """Adds a change within the caller's transaction. The session must be locked.

    Args:
        first_position, last_position: the positions of the first and the last appended entry, if any.
    """
    _add(NewChange(session.project_id, session.pk, kind.value, first_position, last_position))


def record_run_change(run: "CompressionRun") -> None:
    """Adds a change of the state or the progress of a compression run."""
    _add(NewChange(run.project_id, run.session_id, ChangeKind.RUN.value, run_id=run.pk))


def record_cap_refusal(session_id: UUID, cap: SpendingCounter) -> None:
    """Adds a change when a cap refuses a model call of a session for the first time in its day or month."""
    with writing():
        counters = SpendingCounter.objects.filter(pk=cap.pk).exclude(refused_on=cap.starts_on)
        session = Session.objects.filter(pk=session_id).only("project_id").first()
        if session is not None and counters.update(refused_on=cap.starts_on):
            record_change(session, ChangeKind.BUDGET)


def _add(change: NewChange) -> None:
    insert_change(change)
    for listener in _listeners:
        transaction.on_commit(listener)


def prune_changes(older_than: timedelta) -> int:
    """Deletes old changes in batches. Returns how many.

    In each project, the newest old change stays as a marker, so that readers can tell that changes were
    deleted. Changes before it are deleted too, whatever their time, so that no reader misses some of them.
    """
    now, deleted = database_now(), 0
    cutoff = now - older_than
    # A change with a time in the future was recorded while the clock was wrong.
    kept = Change.objects.exclude(kind=ChangeKind.PRUNED).filter(at__lte=now)
    while (oldest := kept.order_by("id").first()) is not None and oldest.at < cutoff:
        ordered = Change.objects.filter(project=oldest.project_id).order_by("transaction_id", "id")
        old = list(ordered[:PRUNED_AT_ONCE])
        while old and old[-1].at >= cutoff and _place(old[-1]) > _place(oldest):
            old.pop()
        if not old:
            continue  # another process has deleted them
        with short_transaction():
            Change.objects.filter(pk=old[-1].pk).update(kind=ChangeKind.PRUNED)
            deleted += Change.objects.filter(pk__in=[change.pk for change in old[:-1]]).delete()[0]
    return deleted


def _place(change: Change) -> tuple[int, int]:
    """The place of a change in the order of readers."""
    return change.transaction_id, change.pk


def reset_transaction_ids() -> int:
    """Makes sure that readers of a restored database get its changes before all later ones. Returns how many
    it has updated.

    The dump may come from a PostgreSQL server whose transaction ids are higher than this one's.
    """
    if on_sqlite():
        return 0
    with writing():
        # Others may write meanwhile. Their rows have later ids than those that are read before the limit, and
        # no cursor that is read before it is beyond it.
        newest = Change.objects.aggregate(id=Max("id", default=0))["id"]
        cursors = (FiguresProgress.objects, Webhook.objects)
        highest = [rows.aggregate(number=Max("transaction_id", default=0))["number"] for rows in cursors]
        limit = next_transaction()
        for rows, number in zip(cursors, highest, strict=True):
            rows.filter(transaction_id__gte=limit, transaction_id__lte=number).update(transaction_id=0)
        return Change.objects.filter(id__lte=newest, transaction_id__gte=limit).update(transaction_id=0)
