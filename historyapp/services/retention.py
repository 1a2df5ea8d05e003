"""Deletes sessions with all their entries: old archived ones, or a single one. Nothing else deletes entries.

No text of a deleted session stays in other tables: its audit records lose their details, and the stored
responses about it are emptied.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Max
from django.utils import timezone

from historyapp.core.dates import UNDATED
from historyapp.core.errors import Conflict
from historyapp.models import AuditRecord, CompressionRun, Entry, Project, Session
from historyapp.services.deletions import delete_hidden, delete_hidden_sessions, hide, own_entries
from historyapp.services.idempotency import PurgedResponses
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Purged:
    """The numbers of deleted sessions and entries."""

    sessions: int
    entries: int


MAX_ERASED = 100_000
"""The maximum number of entries that :func:`erase` deletes, because its request waits for the end."""
_ATTEMPTS = 3
"""How often a session may change between the check that it may be deleted and its deletion."""
_MAX_FORKS = 10
"""The maximum number of forks that an error names."""


@dataclass(frozen=True, slots=True)
class BlockedSession:
    """An archived session that cannot be deleted, because forks that stay share its entries."""

    session: Session
    forks: list[Session]


def purgeable(
    project: Project, archived_before: datetime, among: Collection[UUID] | None = None
) -> list[Session]:
    """The archived sessions that may be deleted, forks before the sessions they were forked from.

    A session counts as archived since the newest audit record of its archiving, otherwise since its newest
    entry. A session with forks stays unless all its forks are deleted too, because they share its entries.

    Args:
        among: consider only these sessions; None: all sessions of the project.
    """
    return _purgeable_and_blocked(project, archived_before, among)[0]


def blocked_by_forks(project: Project, archived_before: datetime) -> list[BlockedSession]:
    """The sessions that were archived long enough ago, but have forks that stay."""
    return _purgeable_and_blocked(project, archived_before, None)[1]


def _purgeable_and_blocked(
    project: Project, archived_before: datetime, among: Collection[UUID] | None
) -> tuple[list[Session], list[BlockedSession]]:
    archived = AuditRecord.objects.filter(project=project, action=f"status: {Session.Status.ARCHIVED}")
    sessions = Session.objects.filter(project=project, status=Session.Status.ARCHIVED)
    if among is not None:
        archived, sessions = archived.filter(session__in=among), sessions.filter(pk__in=among)
    # One pass through the records of the project, which have no index by session.
    since = dict(archived.order_by().values_list("session").annotate(Max("created_at")))
    old = [
        id
        for id, last_entry_at in sessions.values_list("pk", "last_entry_at")
        # UNDATED: the time is unknown, so the session stays.
        if (archived_at := since.get(id, last_entry_at)) != UNDATED and archived_at < archived_before
    ]
    candidates = {session.pk: session for session in sessions.filter(pk__in=old)}
    forks_of = defaultdict[UUID | None, dict[UUID, Session]](dict)
    for fork in Session.objects.filter(forked_from__in=list(candidates)).order_by("pk"):
        forks_of[fork.forked_from_id][fork.pk] = fork
    staying = {id: len(forks_of[id]) for id in candidates}
    unblocked = [id for id, forks in staying.items() if not forks]
    deletable: dict[UUID, Session] = {}
    for id in unblocked:  # grows: a session may be deleted after the last of its forks
        deletable[id] = candidates.pop(id)
        parent = deletable[id].forked_from_id
        if parent in staying:
            staying[parent] -= 1
            unblocked += [] if staying[parent] else [parent]
    blocked = [
        BlockedSession(session, [fork for fork in forks_of[id].values() if fork.pk not in deletable])
        for id, session in candidates.items()
    ]
    return list(deletable.values()), blocked


def purge(
    project: Project, sessions: Collection[UUID], archived_before: datetime, *, actor: str = ""
) -> Purged:
    """Deletes those of the given sessions that may still be deleted, one by one, with all their data.

    A session can no longer be read after the first of its transactions. Before that, this continues the
    deletions of a process that was killed, in any project. Must not be called within a transaction, because
    other writers would wait for all of it.

    Audit records stay, without their details. Stored responses of the sessions' requests are emptied. A
    transcript that is imported again afterwards becomes a new session.
    """
    delete_hidden_sessions()
    return _delete(project, sessions, archived_before, actor)


def _delete(project: Project, sessions: Collection[UUID], archived_before: datetime, actor: str) -> Purged:
    candidates = purgeable(project, archived_before, sessions)
    responses = PurgedResponses(project.pk, [session.pk for session in candidates])
    count = entries = 0
    for session in candidates:
        hidden = _hide(session, archived_before, actor)
        if hidden is not None:
            delete_hidden(hidden.pk, responses)
            count, entries = count + 1, entries + own_entries(hidden)
    return Purged(count, entries)


def _hide(session: Session, archived_before: datetime, actor: str) -> Session | None:
    """Hides a session if it may still be deleted. Returns it as it was before, otherwise None."""
    for _ in range(_ATTEMPTS):
        if _hide_unchanged(session, actor):
            return session
        # Not under the lock, because it searches through all audit records of the project.
        if not (found := purgeable(session.project, archived_before, [session.pk])):
            return None
        [session] = found
    return None


def _hide_unchanged(session: Session, actor: str) -> bool:
    """Hides a session unless it was changed or forked since it was read. Returns whether it is hidden."""
    with writing():
        same = Session.objects.filter(
            pk=session.pk, project=session.project_id, status=session.status, revision=session.revision
        )
        locked = list(same.select_for_update().values_list("pk"))
        if not locked or Session.objects.filter(forked_from=session).exists():
            return False
        # Workers lock a run after its session, and before they add rows that refer to it.
        runs = CompressionRun.objects.filter(session=session)
        list(runs.active().select_for_update().order_by("pk").values_list("pk"))
        hide(session, actor)
        return True


def erase(session: Session, *, actor: str = "") -> Purged:
    """Deletes one archived session with all its data, whatever its age, as :func:`purge` does.

    The request does not continue other deletions, which may take minutes.

    Raises:
        Conflict: when it is not archived, has forks, or has more than :data:`MAX_ERASED` entries.
    """
    _check_erasable(session)
    # An archived session may have a time in the future: the clock may have been set back.
    purged = _delete(session.project, [session.pk], timezone.now() + timedelta(days=36_500), actor)
    if not purged.sessions:
        _check_erasable(Session.objects.filter(pk=session.pk).first() or session)
        raise Conflict("The session could not be erased. Read it again, then repeat the request.")
    return purged


def _check_erasable(session: Session) -> None:
    if session.status != Session.Status.ARCHIVED:
        raise Conflict(
            f"The session is {session.status}. Archive it first: send DELETE without `erase`, then repeat "
            "this request."
        )
    forks = Session.objects.filter(forked_from=session).order_by("pk")
    if names := [str(id) for id in forks.values_list("pk", flat=True)[: _MAX_FORKS + 1]]:
        more = " and more" if len(names) > _MAX_FORKS else ""
        raise Conflict(
            f"The session shares its entries with its forks {', '.join(names[:_MAX_FORKS])}{more}. "
            "Erase these forks first.",
            forks=names[:_MAX_FORKS],
        )
    if Entry.objects.filter(session=session).count() > MAX_ERASED:
        raise Conflict(
            f"The session has more than {MAX_ERASED:,} entries, too many for one request. Erase it on the "
            "server, with `playhead purge`."
        )
