"""Rewinds, undos and forks change where a session's history ends. Nothing is deleted."""

from dataclasses import dataclass
from uuid import UUID

from django.db import connection
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core import entries as core
from historyapp.core.entries import EntryDraft, Rewind
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.lineage import Lineage
from historyapp.core.prepared import prepare
from historyapp.core.projection import Tail
from historyapp.core.run_clock import Clock
from historyapp.core.run_places import places_in
from historyapp.core.session_metadata import MAX_TITLE
from historyapp.models import Entry, Episode, Project, Session
from historyapp.models.ancestors import MAX_DEPTH, is_deepest
from historyapp.models.changes import ChangeKind
from historyapp.models.history import History
from historyapp.models.strips import strip_of_part
from historyapp.models.tails import tail_of
from historyapp.services.append import apply_tail, check_open, check_position, lock_session, read_session
from historyapp.services.audit import add_audit_record
from historyapp.services.changes import record_change
from historyapp.services.compression.start import THRESHOLDS, set_thresholds
from historyapp.services.disk_space import check_disk_space
from historyapp.services.list_columns import read_shared, set_duration, tail_after_rewind
from historyapp.services.sessions import check_not_deleted, insert
from historyapp.services.statements import TAIL_COLUMNS, EntryRow, insert_entries
from historyapp.services.transactions import writing

SUCCESSFUL = ("success", "answered")
"""The statuses of a good step."""
MAX_REASON = 2_000
"""Characters of a rewind's reason."""
FORK = " (fork)"
"""The end of a fork's title, if none is given."""
_BATCH_SIZE = 250
_MAX_SEARCHED_STEPS = 1000
_ATTEMPTS = 5
"""The maximum number of attempts of a rewind. It reads the end of the remaining history before it locks the
session. If its target has moved in the meantime, it tries again."""


@dataclass(frozen=True, slots=True)
class Target:
    """How far to rewind. At most one field is set. If none is set, only the step in flight is dropped."""

    episodes: int | None = None
    """Drop the step in flight and this many finished steps."""
    to_step: int | None = None
    """Continue after this step; 0: before step 1. Negative numbers count from the end."""
    to_position: int | None = None
    """Continue after this position. It may be in a take."""


@dataclass(frozen=True, slots=True)
class RewindResult:
    """The result of a rewind. ``position`` is the position of its entry; use it to undo the rewind."""

    position: int
    to_position: int
    steps_cut: int
    session: Session
    before: Lineage
    """What was live before the rewind."""
    remaining: Lineage
    """What is live after it."""

    def cut_off(self, limit: int | None = None) -> Lineage:
        """The entries that were cut off, in at most ``limit`` spans, the newest ones.

        Read after the rewind is stored: there may be many spans.
        """
        return self.before.branch_off(self.remaining, limit)


def preview_rewind(history: History, target: Target) -> tuple[int, Lineage, int]:
    """The position of a rewind, the entries that it would cut off, and their number of steps. Nothing is
    written.

    Raises:
        Invalid: when the target does not exist.
    """
    to_position = resolve_target(history, target)
    remaining = history.session.lineage(to_position).cut(to_position)
    newest = Entry.objects.defer("body", "metadata").newest(remaining)
    remaining_steps = newest.totals.get("steps", 0) if newest else 0
    return to_position, history.lineage.branch_off(remaining), max(0, history.steps - remaining_steps)


def last_good_step(history: History) -> int | None:
    """The newest good step among the newest 1,000, or None."""
    last = history.steps
    while last > max(0, history.steps - _MAX_SEARCHED_STEPS):
        rows = history.rows(last - _BATCH_SIZE + 1, last)
        good = [row.number for row in rows if row.status in SUCCESSFUL]
        if good:
            return good[-1]
        last -= _BATCH_SIZE
    return None


def rewind(
    project: Project,
    session_id: UUID,
    target: Target,
    *,
    reason: str = "",
    actor: str = "",
    expected_position: int | None = None,
) -> RewindResult:
    """Moves the end of the history back, or into a take. The part that is cut off becomes a take.

    Raises:
        NotFound: when the project has no such session.
        Conflict: when the head is not ``expected_position``, or the session is archived.
        Invalid: when the target does not exist.
        DiskLow: when the disk is nearly full.
    """
    check_disk_space()
    for _ in range(_ATTEMPTS):
        session = read_session(project, session_id)
        check_position(session, expected_position)
        to_position = resolve_target(History(session), target)
        tail, strip = tail_and_strip(session, session.lineage(to_position).cut(to_position))
        with writing():
            session = lock_session(project, session_id)
            check_position(session, expected_position)
            if resolve_target(History(session), target) == to_position:
                body = Rewind(to_position=to_position, spans=(), reason=reason or None, actor=actor or None)
                return rewind_locked(session, EntryDraft(body), actor, tail=tail, strip=strip)
        if connection.in_atomic_block:
            break  # the lock is held until the request ends, so long steps must not be read again
    raise Conflict(
        "The session received entries while the end of its history was read. Retry, or rewind to a position.",
        head=session.head,
    )


def undo_rewind(project: Project, session_id: UUID, position: int, *, actor: str = "") -> RewindResult:
    """Restores what was live before the rewind at ``position`` with another rewind entry.

    Raises:
        NotFound: when the session has no rewind there.
        Conflict: when the rewind was already undone, or the session is archived.
        DiskLow: when the disk is nearly full.
    """
    check_disk_space()
    session = read_session(project, session_id)
    tail, strip = tail_and_strip(session, lineage_before_rewind(session, position))
    with writing():
        session = lock_session(project, session_id)
        restored = lineage_before_rewind(session, position)
        reason = f"undo of the rewind at {position}"
        body = Rewind(to_position=restored.last, spans=(), reason=reason, actor=actor or None)
        return rewind_locked(session, EntryDraft(body), actor, restored, tail, strip=strip)


def lineage_before_rewind(session: Session, position: int) -> Lineage:
    """The lineage before the rewind at ``position``, which undoing the rewind restores.

    Raises:
        NotFound: when the session has no rewind there.
        Conflict: when the rewind was already undone.
    """
    if not session.rewinds().filter(position=position).exists():
        raise NotFound(f"The session has no rewind at position {position}.")
    restored = session.lineage(position - 1)
    # It is enough to compare the last span, because the entries before an entry are the same in every
    # lineage.
    if restored.newest[-1:] == session.lineage().newest[-1:]:
        raise Conflict(
            f"The rewind at position {position} was already undone: the steps that it cut off are live."
        )
    return restored


def rewind_locked(
    session: Session,
    draft: EntryDraft,
    actor: str,
    remaining: Lineage | None = None,
    tail: Tail | None = None,
    *,
    strip: str | None = None,
) -> RewindResult:
    """Appends a rewind entry to a session that the caller has locked.

    Args:
        draft: the rewind entry; its spans are set here.
        remaining: the lineage after the rewind; by default the one that ends at ``to_position``.
        tail: the tail of ``remaining``, if it was read before the session was locked.
        strip: its strip, likewise.
    """
    check_open(session)
    assert isinstance(draft.body, Rewind)
    if remaining is None:
        remaining = session.lineage(draft.body.to_position).cut(draft.body.to_position)
    old_lineage, old_steps = session.lineage(), session.steps
    position = session.head + 1
    stored_lineage = remaining.stored_form()
    spans = tuple((span.session, span.first, span.last) for span in stored_lineage.newest)
    body = draft.body.model_copy(update={"spans": spans, "older": stored_lineage.older})
    entry = core.Entry(position, body, draft.created_at or timezone.now(), draft.metadata)
    tail = tail_after_rewind(session, remaining, tail or tail_of(remaining), entry.created_at)
    stored = prepare(EntryDraft(body, entry.created_at, draft.metadata), 0)
    insert_entries(session.pk, [EntryRow(entry, tail.totals, stored.body, stored.metadata)])
    tail = copy_cut_step(session.pk, tail, position)
    session.strip = strip_of_part(session, remaining, tail.totals.steps) if strip is None else strip
    session.head, session.closed_spans, session.tail_start = position, stored_lineage.dump(), position + 1
    is_fork = session.forked_from_id is not None
    apply_tail(session, tail, read_shared(session, remaining) if is_fork else None)
    set_duration(session, remaining)
    set_thresholds(session)
    session.save(update_fields={*TAIL_COLUMNS, *THRESHOLDS, "closed_spans", "tail_start"})
    reason = body.reason and body.reason[:MAX_REASON]  # a transcript's may be longer
    detail = {"position": position, "to_position": remaining.last, "reason": reason}
    add_audit_record(session.project_id, actor, "rewind", session.pk, detail)
    record_change(session, ChangeKind.REWIND, position, position)
    steps_cut = max(0, old_steps - tail.totals.steps)
    return RewindResult(position, remaining.last, steps_cut, session, old_lineage, remaining)


def resolve_target(history: History, target: Target) -> int:
    """The position of a target.

    Raises:
        Invalid: when the target does not exist, or has more than one field.
    """
    names = [name for name in ("episodes", "to_step", "to_position") if getattr(target, name) is not None]
    if len(names) > 1:
        raise Invalid(f"Give one of episodes, to_step and to_position, not {' and '.join(names)}.")
    if target.to_position is not None:
        return _check_position_exists(history.session, "to_position", target.to_position)
    if target.to_step is not None:
        return _step_end(history, target.to_step)
    return _position_before_dropped(history, max(0, target.episodes or 0))


def _check_position_exists(session: Session, name: str, position: int) -> int:
    if not 0 <= position <= session.head:
        raise Invalid(
            f"{name} is {position}, but positions go from 0 to the head, {session.head}.", head=session.head
        )
    return position


def _step_end(history: History, number: int) -> int:
    if number == 0:
        return _position_before_dropped(history, history.steps)
    try:
        return history.row(history.resolve(number)).last_position
    except NotFound as error:
        raise Invalid(error.detail, **error.fields) from error


def _position_before_dropped(history: History, episodes: int) -> int:
    """The position before the first dropped step. The step in flight is dropped too, but not counted."""
    newest = history.tail.step
    if newest is None:
        return history.lineage.last
    finished = history.steps - (newest.status == "in_flight")
    kept = max(0, finished - episodes)
    if kept == history.steps:
        return history.lineage.last
    return history.row(kept + 1).first_position - 1


def fork(
    project: Project,
    session_id: UUID,
    *,
    at_step: int | None = None,
    at_position: int | None = None,
    title: str = "",
    actor: str = "",
    fork_id: UUID | None = None,
) -> Session:
    """Creates a session that shares this one's history up to a point, without copying it.

    Args:
        at_step: share up to the end of this step; negative numbers count from the end.
        at_position: share up to this position. By default the whole live history is shared.

    Raises:
        NotFound: when the project has no such session.
        Conflict: when ``fork_id`` is or was that of another session, or the chain of forks is too long.
        Invalid: when the point does not exist.
        DiskLow: when the disk is nearly full.
    """
    check_disk_space()
    parent = read_session(project, session_id)
    check_depth(parent)
    position = fork_position(parent, at_step=at_step, at_position=at_position)
    tail, strip = tail_and_strip(parent, parent.lineage(position).cut(position))
    with writing():
        parent = lock_session(project, session_id)
        shared = parent.lineage(position).cut(position)
        child = Session(
            id=fork_id or uuid7(),
            project=project,
            title=title or f"{str(parent)[: MAX_TITLE - len(FORK)]}{FORK}",
            agent=parent.agent,
            model=parent.model,
            tags_text=parent.tags_text,
            settings=parent.settings,
            metadata=places_in(parent.metadata),
            forked_from=parent,
        )
        begin_fork(child, shared, position, tail, strip=strip)
        check_not_deleted(fork_id)
        add_audit_record(project.pk, actor, "fork", parent.pk, {"position": position, "fork": str(child.pk)})
        return child


def check_depth(parent: Session) -> None:
    """Raises Conflict if a fork of the session would be a fork of too many forks."""
    if is_deepest(parent.pk):
        raise Conflict(
            f"The session {parent.pk} is the last of {MAX_DEPTH:,} forks, each of the one before. "
            "This is the maximum. Fork one of the earlier ones."
        )


def fork_position(parent: Session, *, at_step: int | None = None, at_position: int | None = None) -> int:
    """The position up to which a fork shares the history; see :func:`fork`.

    Raises:
        Invalid: when the point does not exist.
    """
    if at_step is not None and at_position is not None:
        raise Invalid("Give at_step or at_position, not both.")
    if at_position is not None:
        return _check_position_exists(parent, "at_position", at_position)
    history = History(parent)
    return history.lineage.last if at_step is None else _step_end(history, at_step)


def begin_fork(
    child: Session,
    shared: Lineage,
    position: int,
    tail: Tail | None = None,
    *,
    strip: str | None = None,
) -> None:
    """Saves a new session that begins with the lineage ``shared``. Its own positions follow ``position``.

    Args:
        tail: the tail of ``shared``, if it was read before a session was locked.
        strip: its strip, likewise.
    """
    newest = Entry.objects.defer("body", "metadata").newest(shared)
    tail = (tail or tail_of(shared))._replace(clock=Clock(is_waiting=True))
    child.fork_spans = shared.stored_form().dump()
    child.closed_spans = child.shared_lineage.dump()
    child.fork_position, child.head, child.tail_start = position, position, position + 1
    if newest is not None:
        child.last_entry_at = newest.created_at
    insert(child)
    apply_tail(child, copy_cut_step(child.pk, tail, position), tail.totals)
    if child.forked_from is not None:
        parent = child.forked_from
        child.strip = strip_of_part(parent, shared, tail.totals.steps) if strip is None else strip
        child.compressed_to = child.forked_from.compressed_to
    set_thresholds(child)
    child.save(update_fields={*TAIL_COLUMNS, *THRESHOLDS})


def tail_and_strip(session: Session, part: Lineage) -> tuple[Tail, str]:
    """The tail and the strip of an earlier part of a session's log. Neither ever changes."""
    tail = tail_of(part)
    return tail, strip_of_part(session, part, tail.totals.steps)


def copy_cut_step(session_id: UUID, tail: Tail, cut_at: int) -> Tail:
    """Creates a new row for a step that a rewind or fork has cut. The old row describes the whole step."""
    if tail.step is None:
        return tail
    step = tail.step._replace(anchor=cut_at)
    Episode.of(session_id, step).save(force_insert=True)
    return tail._replace(step=step)
