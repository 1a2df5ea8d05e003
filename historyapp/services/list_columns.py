"""The columns of a session by which lists are sorted, and its strip of outcomes.

An append updates them with the session's other counters. A worker computes them for sessions that an earlier
version stored.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from historyapp.core.dates import known_time, milliseconds_of
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Tail
from historyapp.core.run_costs import money_of, tokens_of
from historyapp.models import Entry, Session
from historyapp.models.strips import read_strip
from historyapp.services.prices import price_list
from historyapp.services.transactions import writing

LIST_COLUMNS = ("likely_failures", "duration", "shown_tokens", "money", "strip")
PLACE_COLUMNS = ("folder", "repository")
"""Columns that are computed from the metadata whenever they are saved."""
_BATCH_SIZE = 50
MAX_VALUE = 2**62
"""Larger numbers do not fit into the columns. They occur only in transcripts that were edited."""


def set_list_columns(session: Session, tail: Tail) -> None:
    """Sets all columns except the strip and the duration from the session's newest tail."""
    session.likely_failures = tail.step.total_likely_failures if tail.step else 0
    session.shown_tokens = min(MAX_VALUE, tokens_of(tail.totals).shown)
    session.money = 0
    if tail.totals.models or tail.totals.cost:
        session.money = min(MAX_VALUE, money_of(tail.totals, session.model, price_list()).micros)


class RunSpan(NamedTuple):
    """The times of the first recorded and of the newest live entry of a run."""

    first: datetime
    newest: datetime

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
    return RunSpan(first.created_at, newest.created_at)


def set_duration(session: Session, lineage: Lineage) -> None:
    """Sets the duration from the entries of the session's current lineage. That of a fork is 0: lists do not
    show it, because most of it may be its parent's.
    """
    span = None if session.forked_from_id is not None else run_span(session, lineage)
    session.duration = span.milliseconds if span else 0


def extend_duration(session: Session, first: datetime, newest: datetime) -> None:
    """Sets the duration after an append, as :func:`set_duration` does, without reading entries.

    Args:
        first: the time of the session's first entry.
        newest: the time of the newest one.
    """
    is_known = session.forked_from_id is None and known_time(first) and known_time(newest)
    session.duration = RunSpan(first, newest).milliseconds if is_known else 0


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
        set_list_columns(session, session.live_tail)
        set_duration(session, session.lineage())
        session.strip = read_strip(session.lineage(), session.steps)
        session.is_listed = True
        session.save(update_fields=[*LIST_COLUMNS, *PLACE_COLUMNS, "is_listed"])
