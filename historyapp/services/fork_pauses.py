"""The time between the entries that a fork shares and its own ones. It belongs to no run: a fork may begin
long after the entries that it shares.
"""

from datetime import timedelta

from historyapp.models import Entry, Session
from historyapp.models.history import History

MAX_FORKS = 20
"""The maximum number of forks of forks in a history whose pauses are read."""


def fork_pauses(history: History, after: int = 0, before: int | None = None) -> timedelta | None:
    """The sum of these times in a history; None if it has more than :data:`MAX_FORKS` forks.

    Args:
        after: only forks whose own entries follow this position.
        before: only forks that share no entry from this position on.
    """
    session, owners = history.session, history.lineage.owners[1:]
    if session.forked_from_id is None or not owners:
        return timedelta(0)
    if len(owners) > MAX_FORKS:
        return None
    positions = [session.fork_position]
    if owners != (str(session.pk),):
        positions = list(Session.objects.filter(pk__in=owners).values_list("fork_position", flat=True))
    inside = [
        position for position in positions if after <= position and (before is None or position < before)
    ]
    pauses = dict(_pause_after(history, position) for position in inside)
    return sum(pauses.values(), timedelta(0))


def _pause_after(history: History, position: int) -> tuple[int, timedelta]:
    """The position of the first live entry after a fork point, and its time since the entry before it."""
    entries = Entry.objects.defer("body", "metadata")
    shared = entries.newest_at(history.lineage.cut(position))
    own = next(entries.live(history.lineage, after=position, limit=1), None)
    if shared is None or own is None:
        return 0, timedelta(0)
    return own.position, max(timedelta(0), own.created_at - shared)
