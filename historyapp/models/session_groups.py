"""Groups of a list of sessions: by agent, folder or repository, with their totals."""

from datetime import datetime
from typing import NamedTuple

from django.db.models import Aggregate, Count, Max

from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.models.session_folds import PARTLY_PRICED, UNPRICED
from historyapp.models.session_lists import Order
from historyapp.models.sessions import SessionQuerySet
from historyapp.models.sums import LargeSum

GROUPINGS = ("agent", "folder", "repository")
"""The columns by which a list can be grouped."""
_SUMMED = ("steps", "errors", "likely_failures", "shown_tokens", "money")
MAX_GROUPS = 200


class SessionGroup(NamedTuple):
    """The sessions of a list that have the same value. The totals have the names of the session's columns."""

    value: str
    """Empty: sessions without an agent, folder or repository."""
    sessions: int
    steps: int
    errors: int
    likely_failures: int
    shown_tokens: int
    money: int
    """In millionths of a US dollar."""
    last_entry_at: datetime
    unpriced: int
    """Sessions with an unknown cost."""
    partly_priced: int
    """Sessions whose cost is known only in part. It counts with this part."""


@limit_statements(LIST_SECONDS)
def session_groups(sessions: SessionQuerySet, column: str, order: Order) -> list[SessionGroup]:
    """The groups, at most :data:`MAX_GROUPS` + 1 of them.

    Args:
        sessions: all sessions of the list.
        column: one of :data:`GROUPINGS`.
        order: the order of the list. If groups have no total of its column, the newest entries come first.

    Raises:
        SearchTooSlow: if it takes longer than :data:`LIST_SECONDS`.
    """
    totals: dict[str, Aggregate] = {f"total_{name}": LargeSum(name) for name in _SUMMED}
    totals["total_last_entry_at"] = Max("last_entry_at")
    totals["total_unpriced"] = Count("pk", filter=UNPRICED)
    totals["total_partly_priced"] = Count("pk", filter=PARTLY_PRICED)
    if f"total_{order.column}" not in totals:
        order = Order()
    key = f"{'-' if order.is_descending else ''}total_{order.column}"
    rows = sessions.order_by().values_list(column).annotate(Count("pk"), **totals)
    return [SessionGroup(*row) for row in rows.order_by(key, column)[: MAX_GROUPS + 1]]
