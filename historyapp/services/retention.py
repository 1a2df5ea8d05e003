"""Retention: the one way in which entries leave the log, whole sessions at a time."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import DateTimeField, OuterRef, Subquery
from django.db.models.functions import Coalesce

from historyapp.models import AuditRecord, Entry, Project, RetentionPass, Session
from historyapp.services.audit import record
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Purged:
    """How much was deleted."""

    sessions: int
    entries: int


def purgeable(
    project: Project, archived_before: datetime, among: Collection[UUID] | None = None
) -> list[Session]:
    """The archived sessions that may go, forks before the sessions they were forked from.

    A session counts as archived since its newest audit record of that, or since its newest entry where it has
    none. One that another session was forked from stays, unless all its forks go too: they share its entries.

    Args:
        among: look at these sessions only; null: at all of the project.
    """
    archived = AuditRecord.objects.filter(
        project=project, session=OuterRef("pk"), action=f"status: {Session.Status.ARCHIVED}"
    )
    since = Subquery(archived.order_by("-created_at").values("created_at")[:1], output_field=DateTimeField())
    sessions = Session.objects.filter(project=project, status=Session.Status.ARCHIVED).annotate(
        archived_at=Coalesce(since, "last_entry_at")
    )
    if among is not None:
        sessions = sessions.filter(pk__in=among)
    return _without_kept_forks(list(sessions.filter(archived_at__lt=archived_before)))


def _without_kept_forks(sessions: Sequence[Session]) -> list[Session]:
    forks = Session.objects.filter(forked_from__in=sessions).values_list("forked_from", "pk")
    forks_of = defaultdict[UUID | None, set[UUID]](set)
    for parent, fork in forks:
        forks_of[parent].add(fork)
    going: dict[UUID, Session] = {}
    waiting = {session.pk: session for session in sessions}
    while free := [id for id in waiting if forks_of[id] <= going.keys()]:
        going.update((id, waiting.pop(id)) for id in free)
    return list(going.values())


def purge(
    project: Project, sessions: Collection[UUID], archived_before: datetime, *, actor: str = ""
) -> Purged:
    """Deletes those of ``sessions`` that may still go, with all that belongs to them, in one transaction.

    Audit records stay. A transcript that is imported again afterwards is a new session.
    """
    with writing():
        list(Session.objects.select_for_update().filter(pk__in=sessions, project=project))
        going = purgeable(project, archived_before, sessions)
        held = RetentionPass.objects.create()
        entries = 0
        for session in going:
            own = Entry.objects.filter(session=session).count()
            entries += own
            detail = {"title": session.title, "entries": own, "steps": session.steps}
            record(project.pk, actor, "purge", session.pk, detail)
            session.delete()
        held.delete()
        return Purged(len(going), entries)
