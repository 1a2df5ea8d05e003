"""Pages of a list of sessions, in any order. A cursor is valid for one list only."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Length

from historyapp.core.errors import Invalid
from historyapp.core.sorting import parse_sort, sort_text
from historyapp.models.annotations import annotation_of
from historyapp.models.metadata_texts import metadata_texts
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.models.sessions import Session, SessionQuerySet
from historyapp.models.takes import as_begun

ORDERS = {
    "last_entry": "last_entry_at",
    "started": "created_at",
    "duration": "duration",
    "steps": "steps",
    "errors": "errors",
    "likely_failures": "likely_failures",
    "tokens": "shown_tokens",
    "money": "money",
    "model": "model",
}
"""The sort keys and their columns. Each has an index."""
SCORE = "score"
"""This sort key has no index: it is a column of another table, and an index of the session's would cost each
append. Sorting the sessions of a project by it reads all of them."""
SORTS = (*ORDERS, SCORE)
MAX_CURSOR = 1000
_MOMENTS = ("last_entry", "started")
_MAX = 2**63
_MAX_METADATA = 20_000
"""Characters of metadata that are read for the list."""


class Order(NamedTuple):
    """An order of sessions. Ties are sorted by id. Sessions without a score come after all others."""

    name: str = "last_entry"
    is_descending: bool = True

    def __str__(self) -> str:
        return sort_text(self.name, self.is_descending)

    @classmethod
    def parse(cls, text: str) -> "Order":
        """The order that a text names, see :func:`historyapp.core.sorting.parse_sort`.

        Raises:
            Invalid: if there is no such sort key.
        """
        return cls(*parse_sort(text, SORTS))

    @property
    def column(self) -> str:
        return "annotation__score" if self.name == SCORE else ORDERS[self.name]

    def value_of(self, session: Session) -> Any:
        """The value by which a session is sorted; None without a score."""
        return annotation_of(session).score if self.name == SCORE else getattr(session, self.column)

    def apply(self, sessions: SessionQuerySet) -> SessionQuerySet:
        sign = "-" if self.is_descending else ""
        if self.name == SCORE:
            score = F(self.column)
            first = score.desc(nulls_last=True) if self.is_descending else score.asc(nulls_last=True)
            return sessions.order_by(first, f"{sign}id")
        return sessions.order_by(f"{sign}{self.column}", f"{sign}id")

    def after(self, sessions: SessionQuerySet, value: Any, id: UUID) -> SessionQuerySet:
        """The sessions after the one with this value and id."""
        column, beyond = self.column, "lt" if self.is_descending else "gt"
        if self.name == SCORE:
            unscored, later = Q(**{f"{column}__isnull": True}), Q(**{f"id__{beyond}": id})
            if value is None:
                return sessions.filter(unscored & later)
            beyond_value = Q(**{f"{column}__{beyond}": value})
            return sessions.filter(unscored | beyond_value | (Q(**{column: value}) & later))
        follows = Q(**{f"{column}__{beyond}": value}) | Q(**{f"id__{beyond}": id})
        return sessions.filter(follows, **{f"{column}__{beyond}e": value})


class SessionListPage(NamedTuple):
    sessions: Sequence[Session]
    cursor: str
    """The cursor of the next page. Empty: there is no next page."""


@limit_statements(LIST_SECONDS)
def page_of(
    sessions: SessionQuerySet, order: Order, query: str, *, cursor: str = "", limit: int = 50
) -> SessionListPage:
    """One page of a list.

    Args:
        sessions: all sessions of the list, in any order.
        query: identifies the list by its project and filters. A cursor of another list is refused.

    Raises:
        Invalid: if the cursor belongs to another list.
        SearchTooSlow: if it takes longer than :data:`LIST_SECONDS`.
    """
    key = sha256(f"{order} {query}".encode()).hexdigest()[:16]
    if cursor:
        sessions = order.after(sessions, *_read_cursor(cursor, order, key))
    rows = list(order.apply(sessions)[: limit + 1])
    if len(rows) <= limit:
        return SessionListPage(rows, "")
    last = rows[limit - 1]
    value = order.value_of(last)
    shown = value.isoformat() if isinstance(value, datetime) else value
    return SessionListPage(rows[:limit], f"{key}~{last.pk}~{shown}")


def exit_statuses(sessions: Iterable[Session]) -> dict[UUID, str]:
    """What the transcripts of sessions that are not live state as their exit status, if they still end with
    the same steps. Takes one query, and two more if one was rewound last.

    Sessions with very long metadata are left out.
    """
    ended = {session.pk: session for session in sessions if session.status != Session.Status.LIVE}
    if not ended:
        return {}
    rows = Session.objects.filter(pk__in=ended).annotate(length=Length("metadata"))
    texts = metadata_texts(rows.filter(length__lte=_MAX_METADATA), "exit_status")
    stated = {id: found["exit_status"] for id, found in texts if found}
    begun = as_begun(ended[id] for id in stated)
    return {id: status for id, status in stated.items() if id in begun}


def _read_cursor(cursor: str, order: Order, key: str) -> tuple[Any, UUID]:
    list_key, _, id_and_value = cursor.partition("~")
    id, _, value = id_and_value.partition("~")
    try:
        if list_key == key and len(cursor) <= MAX_CURSOR:
            return _read_value(value, order.name), UUID(id)
    except (ValueError, OverflowError):
        pass
    raise Invalid(
        "This cursor belongs to another list. Keep the filters and the order unchanged, or leave the cursor "
        "out. Reload the list from the start."
    )


def _read_value(value: str, sort: str) -> Any:
    if sort == "model":
        return value
    if sort == SCORE:
        return None if value == "None" else float(value)
    if sort not in _MOMENTS:
        if value.isascii() and value.isdecimal() and len(value) < 20 and int(value) < _MAX:
            return int(value)
        raise ValueError("not a number")
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("without a zone")
    return moment.astimezone(UTC)
