"""Searches the steps of all sessions."""

from historyapp.client.api_call import ApiCall, Pages, get, pages
from historyapp.wire.base import Page
from historyapp.wire.search import SearchItem, SuggestionsOut


def search(q: str, *, limit: int | None = None) -> Pages[SearchItem]:
    """Steps of the project that match a query, the most recently recorded first."""
    return pages("/search", Page[SearchItem], q=q, limit=limit)


def search_suggestions(q: str) -> ApiCall[SuggestionsOut]:
    """Completions for the last word of a query, from the character ``start`` on."""
    return get("/search/suggestions", SuggestionsOut, q=q)
