"""The search of steps by the field above the list of sessions, if its text contains a filter of steps."""

from collections.abc import Collection
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from historyapp.core.errors import Invalid
from historyapp.core.search_query import MAX_CHARACTERS, has_filters
from historyapp.services.search.results import sessions_with_steps
from historyapp.wire.problems import SearchTooSlow


class FoundSessions(NamedTuple):
    """The sessions that a search of steps found."""

    sessions: "Collection[UUID] | QuerySet[Any, Any]"
    steps: int | None = None
    """The matching steps; null if the text has only filters of sessions."""
    is_complete: bool = True
    """False if there may be further sessions."""
    problem: str = ""
    """Why the text cannot be searched."""


def sessions_address(query: str) -> str:
    """The list of the sessions that a search finds; empty if the query is too long for the list."""
    # The list searches steps only if the text contains a filter.
    text = query if has_filters(query) else f"{query} takes:live"
    return f"{reverse('sessions')}?q={quote(text, safe='')}" if len(text) <= MAX_CHARACTERS else ""


def search_steps(project: UUID, text: str) -> FoundSessions:
    """The sessions in which steps match a query, or the reason why it cannot be read."""
    try:
        return FoundSessions(*sessions_with_steps(project, text, timezone.now()))
    except (Invalid, SearchTooSlow) as error:
        return FoundSessions([], problem=str(error))
