"""Saves, lists, renames and deletes searches."""

from typing import Annotated
from uuid import UUID

from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor
from historyapp.api.fields import UUID_SCHEMA, Line, RequestBody, id_of
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.search_query import MAX_CHARACTERS
from historyapp.models import SavedSearch
from historyapp.models.saved_searches import MAX_NAME
from historyapp.services.search.saved import delete_search, rename_search, save_search
from historyapp.wire.base import with_example
from historyapp.wire.saved_searches import SavedSearchOut, SavedSearchPage

router = Router(tags=["find"])

SearchId = Annotated[UUID, id_of("saved search"), UUID_SCHEMA]
SearchName = Annotated[Line, Field(min_length=1, max_length=MAX_NAME)]


class SavedSearchIn(RequestBody):
    model_config = with_example({"name": "Failed tests", "query": "command:pytest status:likely_failed"})

    name: SearchName = Field(description="Unique among the project's saved searches.")
    query: Annotated[Line, Field(min_length=1, max_length=MAX_CHARACTERS)] = Field(
        description="The `q` of `GET /search`."
    )


class SavedSearchPatch(RequestBody):
    model_config = with_example({"name": "Failed test runs"})

    name: SearchName


@router.get("/searches", response=SavedSearchPage, summary="List saved searches")
def list_searches(request: ApiRequest) -> HttpResponse:
    """All saved searches of the project, ordered by name."""
    searches = SavedSearch.objects.filter(project=request.auth.project_id)
    return json_response(SavedSearchPage(items=[fill(SavedSearchOut, row) for row in searches], next=None))


@router.post("/searches", response={201: SavedSearchOut}, summary="Save a search")
@raises(Conflict, Invalid)
def post_search(request: ApiRequest, search: SavedSearchIn) -> HttpResponse:
    """A project can have at most 100 saved searches."""
    saved = save_search(request.auth.project, search.name, search.query, actor=actor(request))
    return json_response(fill(SavedSearchOut, saved), 201)


@router.patch("/searches/{search_id}", response=SavedSearchOut, summary="Rename a saved search")
@raises(NotFound, Conflict, Invalid)
def patch_search(request: ApiRequest, search_id: SearchId, changes: SavedSearchPatch) -> HttpResponse:
    return json_response(fill(SavedSearchOut, rename_search(request.auth.project, search_id, changes.name)))


@router.delete("/searches/{search_id}", response={204: None}, summary="Delete a saved search")
@raises(NotFound)
def remove_search(request: ApiRequest, search_id: SearchId) -> HttpResponse:
    delete_search(request.auth.project, search_id)
    return HttpResponse(status=204)
