"""Computes kinds, targets, likely failures, turns and compactions of steps that an earlier version recorded.

A worker runs it in small transactions that hardly delay agents, and continues where it stopped. It uses the
same fold as an append (:mod:`historyapp.core.projection`), but writes only the columns of outcomes.
"""

import logging
import time
from collections.abc import Callable
from itertools import accumulate
from uuid import UUID

from django.db import DatabaseError
from django.utils import timezone

from historyapp.core.entries import Rewind
from historyapp.core.projection import Step, Tail, advance
from historyapp.models import CountedSession, Entry, Episode, Session, StaleOutcomes
from historyapp.models.changes import ChangeKind
from historyapp.models.outcomes import RETRY_AFTER
from historyapp.models.tails import tail_of
from historyapp.services.changes import note_change
from historyapp.services.list_columns import fill_list_columns, has_unlisted_sessions
from historyapp.services.subagents import link_calls
from historyapp.services.transactions import writing
from historyapp.wire.problems import StorageFailed

log = logging.getLogger(__name__)

OUTCOMES = (
    "kind", "target", "likely_failure", "error_line", "total_likely_failures", "turn", "turn_first",
    "compactions", "kind_totals",
)  # fmt: skip
"""The columns of a step's row that are computed."""
AT_ONCE, TOKENS_AT_ONCE = 100, 50_000
"""Limits for the entries of one transaction, and for their tokens. A single entry may have more."""
MAX_WAIT = 0.5
"""Seconds. After each transaction the worker waits as long as the transaction took, so that agents can
write."""


def has_stale_sessions() -> bool:
    """Whether outcomes or list columns of any session are missing."""
    return StaleOutcomes.objects.ready().exists() or has_unlisted_sessions()


def work_out_outcomes(should_stop: Callable[[], bool]) -> int:
    """Computes missing outcomes, until none is left or ``should_stop()``. Returns how many sessions are done.

    A session whose entries cannot be read is retried later, so that the others do not wait for it.
    """
    done = 0
    while not should_stop():
        stale = StaleOutcomes.objects.ready().first()
        if stale is None:
            break
        try:
            done += _work_out_session(stale.session_id, should_stop)
        except (DatabaseError, StorageFailed):
            raise
        except Exception as error:
            log.error("The outcomes of session %s cannot be computed.", stale.session_id, exc_info=error)
            with writing():
                failed = StaleOutcomes.objects.filter(session=stale.session_id)
                failed.update(retry_at=timezone.now() + RETRY_AFTER)
    if done:
        log.info("The outcomes of %s sessions have been computed.", done)
    fill_list_columns(should_stop)
    return done


def _work_out_session(session_id: UUID, should_stop: Callable[[], bool]) -> bool:
    """Computes the outcomes of a session. Returns whether it is complete."""
    while not should_stop():
        started = time.monotonic()
        if not work_out_part(session_id):
            return True
        time.sleep(min(MAX_WAIT, time.monotonic() - started))
    return False


def work_out_part(session_id: UUID) -> bool:
    """Computes the next entries of a session in one transaction. Returns whether there may be more."""
    with writing():
        session = Session.objects.select_for_update().filter(pk=session_id).first()
        stale = StaleOutcomes.objects.filter(session=session_id).first()
        if session is None or stale is None:
            return False
        after = max(stale.after, session.fork_position)
        tail, changed = _tail_at(session, after), dict[int, Step]()
        for entry in _own_entries(session, after):
            after = entry.position
            tail = _fold(session, tail, entry, changed)
        _write(session, changed)
        if after < session.head:
            StaleOutcomes.objects.filter(session=session_id).update(after=after)
            return True
        _finish(session, tail)
    link_calls([session_id])  # an earlier version did not store which step started a sub-agent
    return False


def _tail_at(session: Session, position: int) -> Tail:
    """The tail as of a position of the session. A step that a fork has cut has its own row there."""
    tail = tail_of(session.lineage(position))
    if position > session.fork_position or not session.forked_from_id or tail.step is None:
        return tail
    cut = tail.step._replace(anchor=position)
    _write(session, {position: cut})
    return tail._replace(step=cut)


def _own_entries(session: Session, after: int) -> list[Entry]:
    """The session's own next entries. Bodies are read a few at a time, because some are large."""
    own = Entry.objects.filter(session=session, position__gt=after).order_by("position")
    sizes = list(own.values_list("position", "tokens")[:AT_ONCE])
    totals = accumulate(tokens for _, tokens in sizes)
    fitting = max(1, sum(total <= TOKENS_AT_ONCE for total in totals))
    return list(own[:fitting])


def _fold(session: Session, tail: Tail, entry: Entry, changed: dict[int, Step]) -> Tail:
    body = entry.core().body
    if isinstance(body, Rewind):
        _write(session, changed)
        changed.clear()
        return _reopened(session, entry.position, changed)
    step = advance(tail, entry.core(), excerpts=False)
    changed.update((one.anchor, one) for one in step.changed)
    return step.tail


def _reopened(session: Session, rewind: int, changed: dict[int, Step]) -> Tail:
    """The tail after a rewind. A step that the rewind has cut has its own row."""
    tail = tail_of(session.lineage(rewind))
    if tail.step is None:
        return tail
    cut = tail.step._replace(anchor=rewind)
    changed[rewind] = cut
    return tail._replace(step=cut)


def _write(session: Session, changed: dict[int, Step]) -> None:
    for anchor, step in changed.items():
        columns = {name: getattr(step, name) for name in OUTCOMES}
        Episode.objects.filter(session=session, anchor=anchor).update(**columns)


def _finish(session: Session, tail: Tail) -> None:
    """Copies the outcomes to the session's own tail, from which the next append continues."""
    live = session.live_tail
    if live.step is not None and tail.step is not None:
        outcomes = {name: getattr(tail.step, name) for name in (*OUTCOMES, "checks")}
        step = live.step._replace(**outcomes)
        now = live._replace(step=step, begins_turn=tail.begins_turn, is_compacted=tail.is_compacted)
        session.tail = now.dump()
        Session.objects.filter(pk=session.pk).update(tail=session.tail, is_listed=False)
    StaleOutcomes.objects.filter(session=session).delete()
    CountedSession.objects.filter(pk=session.pk).update(version=0)  # count the figures again
    note_change(session, ChangeKind.SESSION_CHANGED)
    # Forks that were made meanwhile started from incomplete rows.
    forks = Session.objects.filter(forked_from=session).values_list("pk", flat=True)
    StaleOutcomes.objects.bulk_create(
        [StaleOutcomes(session_id=fork) for fork in forks], ignore_conflicts=True
    )
