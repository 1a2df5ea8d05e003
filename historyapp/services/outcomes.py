"""Computes kinds, targets, likely failures, turns and compactions of steps that an earlier version recorded.

A worker does this in small transactions that hardly delay agents. A later run continues where it stopped. The
steps are computed as in an append (:mod:`historyapp.core.projection`), but only ``OUTCOME_COLUMNS`` are
written.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from django.utils import timezone

from historyapp.core.entries import Rewind
from historyapp.core.projection import Step, Tail, advance
from historyapp.models import CountedSession, Episode, Session, StaleOutcomes
from historyapp.models.changes import ChangeKind
from historyapp.models.long_rows import AT_ONCE
from historyapp.models.outcomes import RETRY_AFTER
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.models.stored_totals import SHARED
from historyapp.models.tails import tail_of
from historyapp.services.changes import record_change
from historyapp.services.faults import concerns_data
from historyapp.services.list_columns import fill_list_columns, has_unlisted_sessions
from historyapp.services.subagents import link_subagents
from historyapp.services.transactions import pause_after, writing

log = logging.getLogger(__name__)

OUTCOME_COLUMNS = (
    "kind", "target", "likely_failure", "error_line", "total_likely_failures", "turn", "turn_first",
    "compactions", "kind_totals", "input_preview",
)  # fmt: skip
"""The columns of a step's row that are computed here."""
MAX_ENTRIES, MAX_TOKENS = 100, 50_000
"""The maximum number of entries of one transaction, and of their tokens. A single entry may have more
tokens."""


def has_stale_sessions() -> bool:
    """Whether any session lacks outcomes or list columns."""
    return StaleOutcomes.objects.ready().exists() or has_unlisted_sessions()


def compute_outcomes(should_stop: Callable[[], bool]) -> int:
    """Computes missing outcomes, until none is left or ``should_stop()``. Returns how many sessions are done.

    A session whose entries cannot be read is retried later, so that the others do not wait for it.
    """
    done = 0
    while not should_stop():
        stale = StaleOutcomes.objects.ready().first()
        if stale is None:
            break
        try:
            done += _compute_session(stale.session_id, should_stop)
        except Exception as error:
            if not concerns_data(error):
                raise
            log.error("The outcomes of session %s cannot be computed.", stale.session_id, exc_info=error)
            with writing():
                failed = StaleOutcomes.objects.filter(session=stale.session_id)
                failed.update(retry_at=timezone.now() + RETRY_AFTER)
    if done:
        log.info("The outcomes of %s sessions have been computed.", done)
    fill_list_columns(should_stop)
    return done


def _compute_session(session_id: UUID, should_stop: Callable[[], bool]) -> bool:
    """Computes the outcomes of a session. Returns whether it is complete."""
    while not should_stop():
        started = time.monotonic()
        if not compute_next_outcomes(session_id):
            return True
        pause_after(time.monotonic() - started)
    return False


class _Computed(NamedTuple):
    """The outcomes of a session's next entries."""

    after: int
    """The position before the first of these entries."""
    last: int
    """The position of the last entry."""
    tail: Tail
    """The tail at ``last``."""
    changed: dict[int, Step]
    """The steps to write, by their anchors."""


def compute_next_outcomes(session_id: UUID) -> bool:
    """Computes the outcomes of a session's next entries and writes them in one transaction. Returns whether
    there may be more."""
    session = Session.objects.filter(pk=session_id).first()
    stale = StaleOutcomes.objects.filter(session=session_id).first()
    if session is None or stale is None:
        return False
    # Entries can be long, so they are read before the transaction. They never change, and an append or a
    # rewind meanwhile adds rows but does not change those of earlier positions that are read here.
    computed = _compute_next(session, max(stale.after, session.fork_position))
    with writing():
        session = Session.objects.select_for_update(no_key=True).filter(pk=session_id).first()
        found = StaleOutcomes.objects.filter(session=session_id).first()
        if session is None or found is None:
            return False
        if found.after != stale.after:
            return True  # another worker has written these outcomes, or they are computed again
        for anchor, step in computed.changed.items():
            columns = {name: getattr(step, name) for name in OUTCOME_COLUMNS}
            Episode.objects.filter(session=session, anchor=anchor).update(**columns)
        if computed.last < session.head:
            StaleOutcomes.objects.filter(session=session_id).update(after=computed.last)
            return True
        _finish(session, computed.tail)
    link_subagents([session_id])  # an earlier version did not store which step started a sub-agent
    return False


def _compute_next(session: Session, after: int) -> _Computed:
    """Computes the outcomes of the session's own next entries, within the limits of one transaction.

    Stops before a rewind that is not the first entry: the tail after a rewind is computed from stored rows,
    which must include those of the entries before it.
    """
    tail, last, changed = None, after, dict[int, Step]()
    for entry in _own_entries(session, after):
        loaded = entry.core()
        if isinstance(loaded.body, Rewind):
            if last > after:
                break
            tail = _tail_after_cut(session, entry.position, changed)
        else:
            advanced = advance(tail or _tail_at(session, after, changed), loaded)
            changed.update((step.anchor, step) for step in advanced.changed)
            tail = advanced.tail
        last = entry.position
    return _Computed(after, last, tail or _tail_at(session, after, changed), changed)


def _tail_at(session: Session, position: int, changed: dict[int, Step]) -> Tail:
    """The tail at a position of the session. If a fork has cut a step there, the fork has its own row for
    it."""
    if position > session.fork_position or not session.forked_from_id:
        return tail_of(session.lineage(position))
    return _tail_after_cut(session, position, changed)


def _tail_after_cut(session: Session, cut_at: int, changed: dict[int, Step]) -> Tail:
    """The tail after a rewind or at a fork point. If it has cut a step, the step has a new row."""
    tail = tail_of(session.lineage(cut_at))
    if tail.step is None:
        return tail
    changed[cut_at] = cut = tail.step._replace(anchor=cut_at)
    return tail._replace(step=cut)


def _own_entries(session: Session, after: int) -> Iterator[OwnRow]:
    """The session's own next entries, within the limits of one transaction."""
    tokens = size = 0
    for row in own_rows(session.pk, after + 1, min(session.head, after + MAX_ENTRIES)):
        tokens, size = tokens + row.tokens, size + row.size
        if row.position > after + 1 and (tokens > MAX_TOKENS or size > AT_ONCE):
            return
        yield row


def _finish(session: Session, tail: Tail) -> None:
    """Copies the outcomes to the tail in the session row, from which the next append continues."""
    live = session.live_tail
    step = live.step
    if step is not None and tail.step is not None:
        outcomes = {name: getattr(tail.step, name) for name in (*OUTCOME_COLUMNS, "checks")}
        step = step._replace(**outcomes)
    shared = {SHARED: session.tail[SHARED]} if SHARED in session.tail else {}
    names = ("totals", "clock", "is_interrupted", "running")
    known = {name: getattr(live, name) for name in names}
    session.tail = {**tail._replace(step=step, **known).dump(), **shared}
    Session.objects.filter(pk=session.pk).update(tail=session.tail, is_listed=False)
    StaleOutcomes.objects.filter(session=session).delete()
    CountedSession.objects.filter(pk=session.pk).update(version=0)  # count the figures again
    record_change(session, ChangeKind.SESSION_CHANGED)
    # Forks that were created meanwhile have copied incomplete values.
    forks = Session.objects.filter(forked_from=session).values_list("pk", flat=True)
    StaleOutcomes.objects.bulk_create(
        [StaleOutcomes(session_id=fork) for fork in forks], ignore_conflicts=True
    )
