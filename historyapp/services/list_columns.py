"""The columns of a session by which lists are sorted, and its strip of outcomes.

An append updates them with the session's other counters. A worker computes them for sessions that an earlier
version stored.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from historyapp.core.dates import known_time
from historyapp.core.projection import Tail
from historyapp.core.run_costs import money_of, tokens_of
from historyapp.models import Session
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
    """Sets all columns except the strip from the session's newest tail."""
    session.likely_failures = tail.step.total_likely_failures if tail.step else 0
    session.shown_tokens = min(MAX_VALUE, tokens_of(tail.totals).shown)
    session.money = 0
    if tail.totals.models or tail.totals.cost:
        session.money = min(MAX_VALUE, money_of(tail.totals, session.model, price_list()).micros)
    session.duration = duration_of(session, session.created_at)


def duration_of(session: Session, started_at: datetime) -> int:
    """Milliseconds from the first to the newest entry; 0 for a fork, or if the entries have no times."""
    if (
        session.forked_from_id is not None
        or known_time(started_at) is None
        or known_time(session.last_entry_at) is None
    ):
        return 0
    return max(0, (session.last_entry_at - started_at) // timedelta(milliseconds=1))


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
        session = Session.objects.select_for_update().filter(pk=session_id).first()
        if session is None:
            return
        set_list_columns(session, session.live_tail)
        session.strip = read_strip(session.lineage(), session.steps)
        session.is_listed = True
        session.save(update_fields=[*LIST_COLUMNS, *PLACE_COLUMNS, "is_listed"])
