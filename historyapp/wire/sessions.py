"""Sessions."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from historyapp.core.settings import SessionSettings
from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

SessionStatus = Annotated[str, Field(json_schema_extra={"enum": ["live", "finished", "archived"]})]


class SessionItem(ResponseModel):
    """A session in a list. Counters cover the live history."""

    model_config = with_example(examples.SESSION_ITEM)

    id: UUID
    title: str
    agent: str
    model: str
    status: SessionStatus
    tags: list[str]
    note: str = Field(
        default="", description="A note on the whole session by a person or an agent; empty: none."
    )
    noted_by: str = Field(default="", description="Who wrote the note last.")
    noted_at: datetime | None = None
    score: float | None = Field(
        default=None, description="A score that a person or an agent gave the session."
    )
    score_name: str = Field(default="", description="What the score measures; may be empty.")
    scored_by: str = Field(default="", description="Who gave the score.")
    scored_at: datetime | None = None
    head: int = Field(description="The position of the newest entry.")
    steps: int
    errors: int
    likely_failures: int = Field(
        default=0, description="Steps that were reported as a success but look like a failure."
    )
    tokens: int = Field(description="Tokens of the live entries, as Playhead counts them.")
    cost: float = Field(description="Cost in US dollars, as the source reported it; 0: none.")
    shown_tokens: int = Field(
        default=0,
        description="The tokens that the pages show: input as the provider billed it, otherwise `tokens`. In "
        "lists, those of a fork since the fork.",
    )
    token_source: str = Field(
        default="estimated",
        description="Where `shown_tokens` come from. `estimated`: no provider reported its usage.",
        json_schema_extra={"enum": ["reported", "estimated"]},
    )
    shown_cost: float = Field(
        default=0.0,
        description="The cost that the pages show, in US dollars: `cost`, otherwise the billed tokens at the "
        "prices of the price list; 0: none, or unknown. In lists, that of a fork since the fork.",
    )
    cost_is_minimum: bool = Field(
        default=False,
        description="Whether the true cost is higher than `shown_cost`: the price of a model is unknown, or "
        "the source reports too few output tokens.",
    )
    folder: str = Field(default="", description="The folder in which the agent worked; empty if unknown.")
    repository: str = Field(
        default="", description="The repository that the agent worked on; empty if unknown."
    )
    forked_from: UUID | None
    fork_position: int = Field(
        description="The parent's entries up to this position are shared; 0 without a parent."
    )
    spawned_by: UUID | None = Field(description="The session whose agent started this one.")
    spawned_position: int | None = Field(
        description="The position in that session of the output whose tool call started this one; null if "
        "unknown."
    )
    created_at: datetime | None = Field(
        description="When the run started; null if its transcript has no times."
    )
    last_entry_at: datetime | None = Field(
        description="When the newest entry happened, rewinds left out; null if it has no time."
    )
    duration: float | None = Field(
        default=None,
        description="Seconds that the model, tools and waiting for a person took: from the first prompt or "
        "step to the newest entry of the conversation that no rewind has cut off. The time until the run was "
        "continued after a rewind and the time between the entries that a fork shares and its own do not "
        "count. In lists, those of a fork from its own first entry. Null if unknown.",
    )


class ErasedOut(ResponseModel):
    """The receipt of a session that was deleted with all its data."""

    model_config = with_example({"session": examples.SESSION, "entries": 3, "steps": 1})

    session: UUID
    entries: int = Field(description="The number of deleted entries.")
    steps: int = Field(description="The number of deleted steps.")


class SettingsOut(ResponseModel):
    """How contexts are chosen and steps compressed; see :class:`historyapp.core.settings.SessionSettings`."""

    llm_name: str = Field(description="The summary model.")
    max_tokens: int | Literal["window"] | None = Field(
        description="Budget of a context in tokens. `window`: the model's window. Null: no limit."
    )
    spacy_language_model: str
    full_message_count: int
    window_size: int
    compression_batch_size: int
    compression_share: float | None = Field(description="Share of `max_tokens`; null: none.")
    compression_strategy: str
    max_summary_length: int
    summary_instruction: str | None = Field(
        description="The instruction of `ai_summary`. Null: the project's instruction, or the default."
    )
    compress_automatically: bool
    policy: str
    format: str | None = Field(
        description="The format of contexts. Null: the format of the model's provider."
    )


class SessionOut(SessionItem):
    model_config = with_example({
        **examples.SESSION_ITEM, "first_entry_at": examples.AT, "settings": SessionSettings().model_dump(),
        "metadata": {}, "instruction": None, "notebook": None,
    })  # fmt: skip

    first_entry_at: datetime | None = Field(
        default=None,
        description="When the first entry happened; null if unknown, or if a rewind has cut off everything.",
    )
    settings: SettingsOut
    metadata: dict[Text, Any]
    instruction: Text | None = Field(description="The current system instruction.")
    notebook: Text | None = Field(description="The current memory notebook.")


class SessionPage(Page[SessionItem]):
    model_config = with_example({"items": [examples.SESSION_ITEM], "next": None})


class SessionFacetValue(ResponseModel):
    """A value of a facet, and how many sessions have it."""

    model_config = with_example({"value": "fixer", "count": 3})

    value: str
    count: int


class SessionFacets(ResponseModel):
    """Each facet's values, the most frequent first, at most 100."""

    model_config = with_example(examples.SESSION_FACETS)

    total: int = Field(description="The number of sessions that match.")
    status: list[SessionFacetValue]
    agent: list[SessionFacetValue]
    model: list[SessionFacetValue]
    repository: list[SessionFacetValue]
    folder: list[SessionFacetValue]
    tag: list[SessionFacetValue]
    errors: list[SessionFacetValue] = Field(description="`true`: sessions with failed steps.")
    likely_failures: list[SessionFacetValue] = Field(description="`true`: sessions with likely failures.")
