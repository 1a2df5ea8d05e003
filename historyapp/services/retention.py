"""Retention: the only way to delete entries, whole sessions at a time."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import DateTimeField, OuterRef, Subquery
from django.db.models.functions import Coalesce

from historyapp.models import AuditRecord, Entry, Project, RetentionPass, Session
from historyapp.services.audit import add_audit_record
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Purged:
    """The numbers of deleted sessions and entries."""

    sessions: int
    entries: int


def purgeable(
    project: Project, archived_before: datetime, among: Collection[UUID] | None = None
) -> list[Session]:
    """The archived sessions that may be deleted, forks before the sessions they were forked from.

    A session counts as archived since its newest audit record of it, or since its newest entry if there is no
    such record. A session with forks stays unless all its forks are deleted too: they share its entries.

    Args:
        among: consider only these sessions; None: all of the project.
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
    waiting = {session.pk: session for session in sessions.filter(archived_at__lt=archived_before)}
    forks_of = defaultdict[UUID | None, set[UUID]](set)
    forks = Session.objects.filter(forked_from__in=list(waiting)).values_list("forked_from", "pk")
    for parent, fork in forks:
        forks_of[parent].add(fork)
    found: dict[UUID, Session] = {}
    while free := [id for id in waiting if forks_of[id] <= found.keys()]:
        found.update((id, waiting.pop(id)) for id in free)
    return list(found.values())


def purge(
    project: Project, sessions: Collection[UUID], archived_before: datetime, *, actor: str = ""
) -> Purged:
    """Deletes those of ``sessions`` that may still be deleted, with all their data, in one transaction.

    Audit records stay. A transcript that is imported again afterwards becomes a new session.
    """
    with writing():
        list(Session.objects.select_for_update().filter(pk__in=sessions, project=project))
        purged = purgeable(project, archived_before, sessions)
        retention_pass = RetentionPass.objects.create()
        entries = 0
        for session in purged:
            own = Entry.objects.filter(session=session).count()
            entries += own
            detail = {"title": session.title, "entries": own, "steps": session.steps}
            add_audit_record(project.pk, actor, "purge", session.pk, detail)
            session.delete()
        retention_pass.delete()
        return Purged(len(purged), entries)
