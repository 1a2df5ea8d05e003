"""The project's saved searches."""

from historyapp.client.api_call import ApiCall, Id, Pages, pages, path_of, post
from historyapp.wire.saved_searches import SavedSearchOut, SavedSearchPage


def saved_searches() -> Pages[SavedSearchOut]:
    """All saved searches of the project, by name."""
    return pages("/searches", SavedSearchPage)


def save_search(name: str, query: str, *, idempotency_key: str | None = None) -> ApiCall[SavedSearchOut]:
    """Saves a query under a name for everybody in the project."""
    return post("/searches", SavedSearchOut, {"name": name, "query": query}, key=idempotency_key)


def rename_search(search_id: Id, name: str) -> ApiCall[SavedSearchOut]:
    """Gives a saved search another name."""
    return ApiCall(
        "PATCH", path_of("searches", search_id), SavedSearchOut.model_validate, body={"name": name}
    )


def delete_search(search_id: Id) -> ApiCall[None]:
    """Deletes a saved search. Needs the scope ``admin``."""
    return ApiCall("DELETE", path_of("searches", search_id), lambda _: None)
