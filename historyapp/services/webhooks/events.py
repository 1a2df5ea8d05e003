"""Finds the events for webhooks in the feed of changes.

They are read from stored projections: rows of steps, compression runs, spending counters. The time does not
depend on the length of a session.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from historyapp.core.loops import WINDOW, find_loop
from historyapp.core.usage import MICRO
from historyapp.models import AuditRecord, CompressionRun, Episode, Session, SpendingCounter
from historyapp.models.changes import ChangeKind, ReadChange
from historyapp.models.history import History
from historyapp.models.spending import CounterQuerySet, with_ancestors
from historyapp.services.faults import concerns_data

log = logging.getLogger(__name__)

MAX_ROWS = 200
"""At most this many of the newest steps are read for the appends of one session on a page of the feed."""
MAX_FAILED_STEPS = 10
"""The maximum number of failed steps in one event."""
_NOT_NEEDED = ("metadata", "settings", "fork_spans", "search_text", "strip")
"""Large columns of sessions that no event needs."""
_MAX_DELAY = timedelta(seconds=10)
"""One transaction writes a status and its audit record. Their times differ by at most this."""


class WebhookEvent(NamedTuple):
    event: str
    key: str
    """Identifies the event. If the event is found again, it has the same key."""
    session: UUID
    at: datetime
    data: dict[str, Any]


@dataclass(slots=True)
class _FeedPage:
    """What is known about a page of the feed."""

    has_shared_caps: bool = False
    """Whether the events of caps of the project and of its keys have been found."""


class _SessionChanges(NamedTuple):
    """Consecutive changes of one kind in one session."""

    session: Session
    changes: Sequence[ReadChange]
    page: _FeedPage

    @property
    def at(self) -> datetime:
        return self.changes[-1].at

    def event(self, name: str, key: str, **data: Any) -> WebhookEvent:
        session = self.session
        return WebhookEvent(name, key, session.pk, self.at, {"session": session_data(session), **data})


def find_events(project: UUID, changes: Sequence[ReadChange]) -> list[WebhookEvent]:
    """The events of these changes, each once, for each session in the order of the feed. Deleted sessions
    have no events."""
    by_session: dict[UUID, list[ReadChange]] = {}
    for change in changes:
        if change.kind in _FINDERS:
            by_session.setdefault(change.session, []).append(change)
    sessions = Session.objects.filter(project=project).defer(*_NOT_NEEDED).in_bulk(list(by_session))
    page, events = _FeedPage(), dict[str, WebhookEvent]()
    for id, session_changes in by_session.items():
        if id not in sessions:
            continue
        for kind, grouped in groupby(session_changes, key=lambda change: change.kind):
            for event in _events_of(kind, _SessionChanges(sessions[id], list(grouped), page)):
                events.setdefault(event.key, event)
    return list(events.values())


def _events_of(kind: str, group: _SessionChanges) -> list[WebhookEvent]:
    try:
        return list(_FINDERS[kind](group))
    except Exception as error:  # the other sessions must still get their events
        if not concerns_data(error):
            raise
        log.exception("The events of session %s cannot be found.", group.session.pk)
        return []


def session_data(session: Session) -> dict[str, Any]:
    """The data about the session in every event."""
    data: dict[str, Any] = {
        "id": str(session.pk),
        "title": session.title,
        "agent": session.agent,
        "status": session.status,
        "steps": session.steps,
        "errors": session.errors,
    }
    if settings.PLAYHEAD_BASE_URL:
        data["url"] = f"{settings.PLAYHEAD_BASE_URL}/sessions/{session.pk}"
    return data


def _started(group: _SessionChanges) -> Iterator[WebhookEvent]:
    yield group.event("session.started", f"started:{group.session.pk}")


def _ended(group: _SessionChanges) -> Iterator[WebhookEvent]:
    """The ends of the session. They are found by the audit records of changes of the status."""
    first, last = group.changes[0].at - _MAX_DELAY, group.changes[-1].at + _MAX_DELAY
    records = AuditRecord.objects.filter(
        project=group.session.project_id, created_at__range=(first, last), session=group.session.pk
    )
    for record in records.filter(action=f"status: {Session.Status.FINISHED}").order_by("created_at"):
        yield group.event("session.ended", f"ended:{record.pk}")


def _appended(group: _SessionChanges) -> Iterator[WebhookEvent]:
    first, last = group.changes[0].first_position or 1, group.changes[-1].last_position or 0
    history = History(group.session, min(last, group.session.head))
    newest = history.steps
    # Each step has at least one entry, and the first of these entries may have ended the step before.
    oldest = max(1, newest - min(last - first + 1, MAX_ROWS))
    rows = history.rows(oldest - WINDOW, newest)
    failed = [row for row in rows if row.status == "error" and first <= row.last_position <= last]
    if failed:
        failed_steps = [
            {
                "number": row.number,
                "tool": row.tool_names[0] if row.tool_names else "",
                "target": row.target,
                "error": row.error_line or row.result_preview,
            }
            for row in failed[-MAX_FAILED_STEPS:]
        ]
        key = f"error:{group.session.pk}:{failed[-1].anchor}"
        yield group.event("session.error", key, count=len(failed), failed_steps=failed_steps)
    yield from _loops(group, rows, first)


def _loops(group: _SessionChanges, rows: Sequence[Episode], first: int) -> Iterator[WebhookEvent]:
    """The loops that these steps continue. There is one event for each loop of a session."""
    seen = set[str]()
    for end in range(1, len(rows) + 1):
        loop = find_loop(rows[max(0, end - WINDOW) : end]) if rows[end - 1].last_position >= first else None
        if loop is None:
            continue
        key = f"loop:{group.session.pk}:{loop.rule}:{loop.digest}"
        if key not in seen:
            seen.add(key)
            data = {"rule": loop.rule, "steps": loop.steps, "tool": loop.tool, "target": loop.target}
            yield group.event("session.loop", key, loop=data)


def _compressed(group: _SessionChanges) -> Iterator[WebhookEvent]:
    ids = {change.run for change in group.changes if change.run}
    runs = CompressionRun.objects.filter(pk__in=ids, session=group.session, trial=False)
    for run in runs.exclude(state__in=CompressionRun.ACTIVE).newest_first().order_by("finished_at", "id"):
        names = ("state", "strategy", "model", "from_step", "to_step", "total", "done", "failed", "note")
        figures = {name: getattr(run, name) for name in (*names, "tokens_before", "tokens_after")}
        cost = None if run.cost is None else run.cost / MICRO
        data = {"id": str(run.pk), **figures, "cost": cost}
        key = f"run:{run.pk}:{run.finished_at and run.finished_at.isoformat()}"
        yield group.event("compression.finished", key, compression=data)


def _refused(group: _SessionChanges) -> Iterator[WebhookEvent]:
    """The caps that count for the session and have refused a call. A project may have thousands of caps, so
    those of the project and its keys are read once for a page, and those of other sessions not at all."""
    ids = with_ancestors(group.session.pk)
    yield from _cap_events(group, SpendingCounter.objects.filter(session__in=ids))
    if not group.page.has_shared_caps:
        of_project = SpendingCounter.objects.filter(project=group.session.project_id, session=None)
        yield from _cap_events(group, of_project)
        group.page.has_shared_caps = True


def _cap_events(group: _SessionChanges, counters: CounterQuerySet) -> Iterator[WebhookEvent]:
    for counter in counters.capped().exclude(refused_on=None).select_related("key").order_by("pk"):
        cap = {
            "subject": counter.subject,
            "session": counter.session_id and str(counter.session_id),
            "key": counter.key and counter.key.prefix,
            "period": counter.period,
            "limit": (counter.limit or 0) / MICRO,
            "spent": counter.counted / MICRO,
            "starts_on": str(counter.refused_on),
        }
        key = f"budget:{counter.pk}:{counter.refused_on}:{counter.limit}"
        yield group.event("budget.reached", key, cap=cap)


_FINDERS: dict[str, Callable[[_SessionChanges], Iterator[WebhookEvent]]] = {
    ChangeKind.SESSION_CREATED: _started,
    ChangeKind.SESSION_CHANGED: _ended,
    ChangeKind.ENTRIES: _appended,
    ChangeKind.RUN: _compressed,
    ChangeKind.BUDGET: _refused,
}
