"""Texts found in a session."""

from typing import Annotated

from pydantic import Field

from historyapp.core.searchable import FIELDS
from historyapp.core.text import Text
from historyapp.wire.base import Page, ResponseModel, with_example

_HIT = {
    "episode": 1, "position": 3, "field": "result", "before": "", "match": "def parse", "after": "(text): …",
    "times": 1, "live": True,
}  # fmt: skip


class FoundEntry(ResponseModel):
    """An entry that contains the text, with the text around its first match on one line."""

    model_config = with_example(_HIT)

    episode: int = Field(
        description="The step that shows the entry; 0 in a session without steps. In a take, its number "
        "within the take."
    )
    position: int
    field: Annotated[str, Field(json_schema_extra={"enum": list(FIELDS)})]
    before: Text
    match: Text = Field(description="The matched text with the entry's own upper and lower case.")
    after: Text
    times: int = Field(description="How often the entry contains the text.")
    live: bool = Field(description="False if a rewind cut it off.")


class FoundPage(Page[FoundEntry]):
    model_config = with_example({"items": [_HIT], "next": None, "count": 1, "complete": True})

    count: int = Field(
        description="The number of entries that contain the text, from this page's first item on."
    )
    complete: bool = Field(
        description="False when there may be more than `count`: one request counts up to 2,000 entries, and "
        "reads a bounded part of a long session."
    )
