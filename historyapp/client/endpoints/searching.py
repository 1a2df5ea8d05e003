"""Searching the steps of all sessions."""

from historyapp.client.api_call import Pages, pages
from historyapp.wire.base import Page
from historyapp.wire.search import SearchItem


def search(q: str, *, limit: int | None = None) -> Pages[SearchItem]:
    """Steps of the project that match a query, the most recently recorded first."""
    return pages("/search", Page[SearchItem], q=q, limit=limit)
