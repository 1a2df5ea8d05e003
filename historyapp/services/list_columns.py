"""The columns of a session by which lists are sorted, and its strip of outcomes.

An append updates them with the session's other counters. A worker computes them for sessions that an earlier
version stored. Time, tokens and cost of a fork are those since the fork, so that their sums count nothing
twice. Steps and errors of a fork are all that it has.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from historyapp.core.dates import known_time, milliseconds_of
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Tail, Totals
from historyapp.core.run_clock import Clock
from historyapp.core.run_costs import money_of, tokens_of, totals_after
from historyapp.models import Entry, Session
from historyapp.models.stored_totals import SHARED
from historyapp.models.strips import read_strip
from historyapp.services.prices import price_list
from historyapp.services.transactions import writing

LIST_COLUMNS = ("likely_failures", "duration", "shown_tokens", "money", "cost_is_minimum", "strip")
PLACE_COLUMNS = ("folder", "repository")
"""Columns that are computed from the metadata whenever they are saved."""
_BATCH_SIZE = 50
MAX_VALUE = 2**62
"""Larger numbers do not fit into the columns. They occur only in transcripts that were edited."""


def set_list_columns(session: Session, tail: Tail) -> None:
    """Sets all columns except the strip and the duration from the session's newest tail."""
    totals = _since_fork(session, tail.totals)
    session.likely_failures = tail.step.total_likely_failures if tail.step else 0
    session.shown_tokens = min(MAX_VALUE, tokens_of(totals).shown)
    session.money, session.cost_is_minimum = 0, False
    if totals.models or totals.cost:
        money = money_of(totals, session.model, price_list())
        session.money, session.cost_is_minimum = min(MAX_VALUE, money.micros), money.is_minimum


def own_totals(session: Session) -> Totals:
    """The totals of a session; those of a fork without the live entries that it shares with its parent."""
    return _since_fork(session, session.live_tail.totals)


def _since_fork(session: Session, totals: Totals) -> Totals:
    if session.forked_from_id is None:
        return totals
    return totals_after(totals, Totals.load(stored_shared(session)))


def stored_shared(session: Session) -> dict[str, Any]:
    """The totals of the live entries that a fork shares, as stored. Those of earlier versions are read."""
    stored: dict[str, Any] | None = session.tail.get(SHARED)
    return read_shared(session, session.lineage()).dump() if stored is None else stored


def read_shared(session: Session, lineage: Lineage) -> Totals:
    """The totals of the entries of a fork's lineage that it shares."""
    newest = Entry.objects.defer("body", "metadata").newest(lineage.cut(session.fork_position))
    return Totals.load(newest.totals) if newest else Totals()


class RunSpan(NamedTuple):
    """The times of the first recorded and of the newest live entry of a run."""

    first: datetime
    newest: datetime
    idle_before: int = 0
    """The idle milliseconds up to the first entry, which totals count too. Only a fork has some, of a session
    that a rewind had emptied."""

    @property
    def milliseconds(self) -> int:
        return max(0, milliseconds_of(self.newest) - milliseconds_of(self.first))


def run_span(session: Session, lineage: Lineage) -> RunSpan | None:
    """When a session ran, as far as a lineage of it goes; None if it has no entries or they have no times.

    A fork begins with the entries that it shares.
    """
    without_bodies = Entry.objects.defer("body", "metadata")
    newest = without_bodies.newest(lineage)
    if session.forked_from_id is None:
        first = without_bodies.filter(session=session, position=1).first()
    else:
        first = next(without_bodies.live(lineage, limit=1), None)
    if newest is None or first is None:
        return None
    if known_time(first.created_at) is None or known_time(newest.created_at) is None:
        return None
    return RunSpan(first.created_at, newest.created_at, first.totals.get("idle", 0))


def set_duration(session: Session, lineage: Lineage) -> None:
    """Sets the duration from the entries of the session's current lineage. That of a fork begins with its own
    first live entry: most of the time before it may be its parent's.
    """
    session.duration = 0
    if session.forked_from_id is None:
        if span := run_span(session, lineage):
            extend_duration(session, span.first, span.newest)
    elif first := first_own_at(session, lineage):
        newest = Entry.objects.newest_at(lineage)
        assert newest is not None
        extend_duration(session, first, newest)


def first_own_at(session: Session, lineage: Lineage) -> datetime | None:
    """The time of a fork's own first live entry; None without one.

    It is not always the first recorded one: a rewind into the shared entries cuts that off.
    """
    entries = Entry.objects.defer("body", "metadata")
    own = next(entries.live(lineage, after=session.fork_position, limit=1), None)
    return own.created_at if own else None


def extend_duration(
    session: Session, first: datetime, newest: datetime, totals: Totals | None = None
) -> None:
    """Sets the duration after an append, as :func:`set_duration` does, without reading entries.

    Args:
        first: the time of the session's first recorded entry, or of a fork's own first live one.
        newest: the time of the newest one.
        totals: those of the session's tail, if they have been read.
    """
    session.duration = 0
    if known_time(first) and known_time(newest):
        idle = (totals or session.live_tail.totals).idle
        if session.forked_from_id is not None:
            idle -= stored_shared(session).get("idle", 0)
        session.duration = max(0, RunSpan(first, newest).milliseconds - idle)


def tail_after_rewind(session: Session, remaining: Lineage, tail: Tail, rewound_at: datetime) -> Tail:
    """The tail of a session after a rewind, with the time from which on the run is idle.

    Args:
        remaining: the lineage after the rewind, and ``tail`` its tail.
        rewound_at: the time of the rewind.
    """
    if session.forked_from_id is not None and remaining.last <= session.fork_position:
        return tail._replace(clock=Clock(is_waiting=True))
    if not remaining.newest:  # the run still begins with its first recorded entry: it may be this rewind
        entries = Entry.objects.filter(session=session, position=1)
        first = entries.values_list("created_at", flat=True).first() or rewound_at
        return tail._replace(clock=Clock(milliseconds_of(first), is_waiting=True))
    return tail


def has_unlisted_sessions() -> bool:
    """Whether any session of an earlier version lacks these columns."""
    return Session.objects.filter(is_listed=False).exists()


def fill_list_columns(should_stop: Callable[[], bool]) -> int:
    """Computes missing columns until no session lacks them or ``should_stop()``. Returns how many
    sessions."""
    done = 0
    while not should_stop():
        batch = list(Session.objects.filter(is_listed=False).values_list("pk", flat=True)[:_BATCH_SIZE])
        if not batch:
            break
        for session in batch:
            refresh_list_columns(session)
        done += len(batch)
    return done


def refresh_list_columns(session_id: UUID) -> None:
    """Computes a session's columns again. Does nothing if the session was deleted meanwhile."""
    with writing():
        session = Session.objects.select_for_update(no_key=True).filter(pk=session_id).first()
        if session is None:
            return
        lineage = session.lineage()
        if session.forked_from_id is not None:
            session.tail = {**session.tail, SHARED: read_shared(session, lineage).dump()}
        set_list_columns(session, session.live_tail)
        set_duration(session, lineage)
        session.strip = read_strip(lineage, session.steps)
        session.is_listed = True
        session.save(update_fields=[*LIST_COLUMNS, *PLACE_COLUMNS, "tail", "is_listed"])
