"""Finds a text in a session."""

from typing import Literal

from historyapp.client.api_call import Id, Pages, pages, path_of
from historyapp.wire.base import Page
from historyapp.wire.find import FoundEntry


def find(
    session_id: Id,
    q: str,
    *,
    take: Literal["live", "all"] | None = None,
    limit: int | None = None,
    as_of: int | None = None,
) -> Pages[FoundEntry]:
    """Entries that contain a text, oldest first; ``take="all"`` also finds entries that rewinds cut off."""
    return pages(
        path_of("sessions", session_id, "find"), Page[FoundEntry], q=q, take=take, limit=limit, as_of=as_of
    )
