"""Reads the feed of changes and counts the sessions that have changed; see ``day_figures``.

Existing sessions are counted first, in the order of their ids.
"""

import logging
import random
import time
from collections.abc import Callable
from uuid import UUID

from django.utils import timezone

from historyapp.models import CountedSession, FiguresProgress, Session
from historyapp.models.changes import ChangeKind, Cursor, changes_since, is_after, newest_cursor
from historyapp.models.fields import as_uuid
from historyapp.models.sql import fetch_all
from historyapp.services.faults import concerns_data
from historyapp.services.figures.day_figures import SESSIONS_AT_ONCE, count_part
from historyapp.services.transactions import writing
from historyapp.wire.problems import CursorExpired

log = logging.getLogger(__name__)

COUNTED_KINDS = (
    ChangeKind.SESSION_CREATED, ChangeKind.ENTRIES, ChangeKind.REWIND, ChangeKind.SESSION_CHANGED,
    ChangeKind.SESSION_DELETED,
)  # fmt: skip
"""The kinds of changes that affect figures."""
_PROJECTS_TO_COUNT = (
    "SELECT project.id FROM historyapp_project AS project "
    "LEFT JOIN historyapp_figuresprogress AS done ON done.project_id = project.id "
    "WHERE done.project_id IS NULL OR NOT done.is_complete OR EXISTS ("
    "SELECT 1 FROM historyapp_change WHERE historyapp_change.project_id = project.id AND {is_after})"
)


def follow_changes(should_stop: Callable[[], bool]) -> bool:
    """Counts the changes of all projects until all are counted or ``should_stop()``.

    The order of the projects is random, so that a project with many changes does not always come first.

    Returns whether there may be more changes. A session that cannot be counted is logged and skipped.
    """
    statement = _PROJECTS_TO_COUNT.format(is_after=is_after("done.transaction_id", "done.change_id"))
    projects = [as_uuid(id) for (id,) in fetch_all(statement, [])]
    random.shuffle(projects)
    for project in projects:
        progress = FiguresProgress.objects.filter(project=project).first()
        if progress is None:
            with writing():  # another worker may do so at the same time
                FiguresProgress.objects.bulk_create([_at_the_end(project)], ignore_conflicts=True)
            progress = FiguresProgress.objects.get(project=project)
        while not should_stop():
            if not _count_next_safely(progress, should_stop):
                break
        else:
            return True
    return False


def cpu_time_limit(seconds: float) -> Callable[[], bool]:
    """A function that returns True once this thread has used this many seconds of processor time."""
    end = time.thread_time() + seconds
    return lambda: time.thread_time() > end


def _at_the_end(project: UUID) -> FiguresProgress:
    """A progress with the end of the feed as its cursor, before the existing sessions are counted."""
    cursor = newest_cursor(project)
    return FiguresProgress(project_id=project, transaction_id=cursor.transaction_id, change_id=cursor.id)


def _count_next_safely(progress: FiguresProgress, should_stop: Callable[[], bool]) -> bool:
    """As :func:`_count_next`, but leaves a project out whose changes cannot be read."""
    try:
        return _count_next(progress, should_stop)
    except Exception as error:  # continue with the other projects
        if not concerns_data(error):
            raise
        log.error("The figures of project %s cannot be counted.", progress.project_id, exc_info=error)
        return False


def _count_next(progress: FiguresProgress, should_stop: Callable[[], bool]) -> bool:
    """Counts the next sessions. Returns whether there may be more."""
    if not progress.is_complete:
        return _count_existing(progress, should_stop)
    project, cursor = progress.project_id, Cursor(progress.transaction_id, progress.change_id)
    try:
        page = changes_since(project, cursor)
    except CursorExpired:
        progress.__dict__.update(_at_the_end(project).__dict__)
        _save(progress)
        return True
    deleted = {
        change.session: change.cursor.id
        for change in page.changes
        if change.kind == ChangeKind.SESSION_DELETED
    }
    _restart(deleted)
    changed = dict.fromkeys(change.session for change in page.changes if change.kind in COUNTED_KINDS)
    if not _count_all(project, [*deleted, *(id for id in changed if id not in deleted)], should_stop):
        return True
    progress.transaction_id, progress.change_id = page.cursor
    progress.at = timezone.now()
    if page.cursor != cursor:
        _save(progress)
    return page.has_more


def _restart(deleted: dict[UUID, int]) -> None:
    """Marks deleted sessions to be counted again: before migration 0061, a new one could have the same id.

    The page of changes is read again if its time is over, so each deletion restarts a session only once.

    Args:
        deleted: the id of the change that deleted each session.
    """
    counted = CountedSession.objects.filter(pk__in=deleted).only("restarted_by")
    restarted = [row for row in counted if row.restarted_by != deleted[row.pk]]
    for row in restarted:
        row.version, row.restarted_by = 0, deleted[row.pk]
    if restarted:
        with writing():
            CountedSession.objects.bulk_update(restarted, ("version", "restarted_by"), batch_size=100)


def _count_existing(progress: FiguresProgress, should_stop: Callable[[], bool]) -> bool:
    """Counts the existing sessions. Returns True, because the feed is read next."""
    project = progress.project_id
    sessions = Session.objects.filter(project=project)
    if progress.counted_to is not None:
        sessions = sessions.filter(pk__gt=progress.counted_to)
    ids = list(sessions.order_by("pk").values_list("pk", flat=True)[:SESSIONS_AT_ONCE])
    if not ids:
        counted = CountedSession.objects.filter(project=project)
        deleted = counted.exclude(pk__in=Session.objects.filter(project=project).values("pk"))
        progress.is_complete = _count_all(project, list(deleted.values_list("pk", flat=True)), should_stop)
    elif _count_all(project, ids, should_stop):
        progress.counted_to = ids[-1]
    _save(progress)
    return True


def _count_all(project: UUID, ids: list[UUID], should_stop: Callable[[], bool]) -> bool:
    """Counts these sessions. Returns False if it stopped before the end."""
    while ids:
        ids = _count_part_safely(project, ids)
        if ids and should_stop():
            return False
    return True


def _count_part_safely(project: UUID, ids: list[UUID]) -> list[UUID]:
    """As :func:`count_part`, but skips a session that cannot be counted."""
    try:
        return count_part(project, ids)
    except Exception as error:
        if not concerns_data(error):
            raise
        if len(ids) == 1:
            log.error("The figures of session %s cannot be counted.", ids[0], exc_info=error)
            return []
    half = ids[: max(1, min(len(ids), SESSIONS_AT_ONCE) // 2)]
    return [*_count_part_safely(project, half), *ids[len(half) :]]


def _save(progress: FiguresProgress) -> None:
    with writing():
        progress.save()
