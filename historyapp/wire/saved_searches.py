"""Saved searches of a project."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

_SAVED = {
    "id": examples.SESSION, "name": "Failed tests", "query": "command:pytest status:likely_failed",
    "actor": "user:alice", "created_at": "2026-11-24T09:30:00Z",
}  # fmt: skip


class SavedSearchOut(ResponseModel):
    """A query of `GET /search` with a name."""

    model_config = with_example(_SAVED)

    id: UUID
    name: Text
    query: Text
    actor: str = Field(description="Who saved it.")
    created_at: datetime


class SavedSearchPage(Page[SavedSearchOut]):
    model_config = with_example({"items": [_SAVED], "next": None})
