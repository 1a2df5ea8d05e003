"""Steps found in the sessions of a project."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

_HIT = {
    "session": examples.SESSION, "title": "Fix the parser", "agent": "fixer", "episode": 1, "position": 3,
    "field": "result", "snippet": "def parse(text): …", "marks": [[4, 9]], "status": "success",
    "tools": ["read_file"], "at": "2026-11-24T09:30:00Z", "live": True, "recorded_in": examples.SESSION,
    "conditions": [],
}  # fmt: skip
_FACETS = {"tool": [{"value": "read_file", "count": 1}]}


class SearchItem(ResponseModel):
    """A step that matches, with the text around its first match."""

    model_config = with_example(_HIT)

    session: UUID
    title: Text
    agent: Text
    episode: int = Field(description="The step's number.")
    position: int = Field(description="The position of the entry that the snippet is from.")
    field: str = Field(
        description="The kind of text in the snippet: `input`, `thought`, `answer`, `call`, `result` …"
    )
    snippet: Text = Field(description="On one line. Empty if the step has no text.")
    marks: list[tuple[int, int]] = Field(
        description="The matches in the snippet: the index of the first character, and that after the last."
    )
    status: str = Field(description="The step's status; `likely_failed` if a result looks like a failure.")
    tools: list[Text]
    at: datetime | None = Field(description="When the step started; null if unknown.")
    live: bool = Field(description="False in a take: a rewind cut it off.")
    recorded_in: UUID = Field(
        description="The session that recorded the step. If the step is live only in a fork, `session` is "
        "the fork."
    )
    conditions: list[Text] = Field(
        default_factory=list,
        description="The parts of `q` that the step matches, if `AND` joins several; otherwise empty.",
    )


class FacetValue(ResponseModel):
    value: Text
    count: int


class SearchPageOut(Page[SearchItem]):
    model_config = with_example(
        {
            "items": [_HIT],
            "next": None,
            "facets": _FACETS,
            "counted": 1,
            "counted_all": True,
            "up_to_date": True,
            "hints": [],
            "wider": "",
        }
    )

    facets: dict[str, list[FacetValue]] = Field(
        description="The number of hits with each tool, status, agent, model and tag, among the `counted` "
        "newest hits. Empty after the first page."
    )
    counted: int
    counted_all: bool = Field(description="Whether `counted` covers all hits.")
    up_to_date: bool = Field(
        description="False while older sessions, or the newest steps of a long import, are not in the "
        "index yet."
    )
    hints: list[Text] = Field(
        description="A sentence for each part of `q` that looks like a filter or an operator, but is "
        "searched as words, at most three. If single steps have all words of a sentence, one more "
        "sentence names the query that different steps may match."
    )
    wider: Text = Field(
        description="The query that was used instead of `q`, because no single step matches `q`: different "
        "steps of one session may match the parts that its `AND` joins. Otherwise empty."
    )


class SuggestionOut(ResponseModel):
    """A text that may replace the last word of a query."""

    model_config = with_example({"text": "tool:read_file", "detail": ""})

    text: Text
    detail: str = Field(description="A description of the filter; empty for values and words.")


class SuggestionsOut(ResponseModel):
    model_config = with_example({"start": 0, "items": [{"text": "tool:read_file", "detail": ""}]})

    start: int = Field(description="The character of `q` at which its last word begins.")
    items: list[SuggestionOut]
