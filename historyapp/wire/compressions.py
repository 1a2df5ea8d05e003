"""Compression runs, estimates and comparisons. Money is in US dollars."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import MONEY, Page, ResponseModel, with_example

_ACTIVE = ("queued", "running")
RunState = Annotated[
    str,
    Field(json_schema_extra={"enum": [*_ACTIVE, "succeeded", "partly_failed", "failed", "cancelled"]}),
]
ItemState = Annotated[str, Field(json_schema_extra={"enum": ["waiting", "claimed", "done", "failed"]})]


class RunItem(ResponseModel):
    """A compression run with its figures, which grow until it ends."""

    id: UUID
    strategy: str
    model: str = Field(description="`provider:model`, `local`, or empty if no model is used.")
    options: dict[Text, Any]
    again: bool
    trial: bool = Field(description="Whether it belongs to a comparison; contexts do not use its summaries.")
    comparison: UUID | None
    automatic: bool = Field(description="Whether the session's settings started it.")
    state: RunState
    note: str = Field(description="What happened, and what you can do; may be empty.")
    head: int = Field(description="The session's head when the run was requested.")
    from_step: int
    to_step: int = Field(description="Less than `from_step` if there was nothing to do.")
    total: int = Field(description="The number of summaries to make; 0 until the run is planned.")
    done: int
    failed: int
    calls: int = Field(description="Model calls.")
    tokens_in: int = Field(
        description="Input tokens of these model calls. Of failed attempts that the provider may bill, they "
        "are counted by Playhead."
    )
    tokens_out: int = Field(description="Output tokens of these model calls.")
    money: float | str = Field(description=MONEY)
    prices_as_of: str | None = Field(
        default=None, description="The date of the price list; null if no model is used."
    )
    tokens_before: int = Field(description="Tokens of the steps that have been summarised.")
    tokens_after: int = Field(description="Tokens of their summaries.")
    tokens_saved: int = Field(description="Negative if the summaries are longer than their steps.")
    actor: str = Field(description="Who requested it.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in _ACTIVE


class RunError(ResponseModel):
    from_step: int
    to_step: int
    error: str = Field(description="Why it failed, in one sentence.")


class RunOut(RunItem):
    """A compression run with its errors."""

    model_config = with_example({**examples.RUN, "errors": []})

    errors: list[RunError] = Field(description="The first 100.")


class StartedOut(RunItem):
    model_config = with_example({**examples.RUN, "joined": False})

    joined: bool = Field(
        description="Whether the run was already active: a session has one active run at a time."
    )


class RunPage(Page[RunItem]):
    model_config = with_example({"items": [examples.RUN], "next": None})


class EstimateOut(ResponseModel):
    """The maximum work of a run: steps that already have a summary are counted too."""

    model_config = with_example(examples.ESTIMATE)

    strategy: str
    model: str
    note: str = Field(description="Why `model` is not the default model; otherwise empty.")
    from_step: int
    to_step: int
    steps: int
    summaries: int
    calls: int = Field(description="Model calls; long steps may need more.")
    tokens_before: int = Field(description="Tokens of the steps.")
    tokens_in: int = Field(description="Input tokens of all model calls, at most.")
    tokens_out: int = Field(description="Output tokens of all model calls, at most.")
    money: float | str = Field(description=MONEY)
    prices_as_of: str = Field(default="", description="The date of the price list.")


class TrialOut(ResponseModel):
    """One summary of a comparison."""

    from_step: int
    to_step: int
    state: ItemState
    text: Text | None = Field(description="The summary; null until it is done.")
    error: str
    tokens_before: int
    tokens_after: int
    money: float | str = Field(default="unknown", description=MONEY)


class SideOut(RunItem):
    """A run of a comparison, with its summaries."""

    items: list[TrialOut]


class NeededNameOut(ResponseModel):
    """A name in the result of a compared step that a later step used in its arguments."""

    name: Text
    step: int = Field(description="The first compared step whose result contains it.")
    used_at: int = Field(description="The first later step that used it.")
    kept_by: list[str] = Field(
        description="The sides with a summary that contains it: `a`, `b`, both, or none.",
        json_schema_extra={"items": {"type": "string", "enum": ["a", "b"]}},
    )


class StrategyRecallOut(ResponseModel):
    """How well both strategies keep what the run needed next."""

    searched_steps: int = Field(
        description="The number of compared steps whose results were searched, from the first step on."
    )
    later_steps: int = Field(description="The number of later steps that were searched, at most 50.")
    names: list[NeededNameOut] = Field(description="The first 200.")
    kept: list[int] = Field(description="The number of names that each side keeps.")


class OriginalStepOut(ResponseModel):
    """A compared step with previews. `GET …/episodes/{number}` returns the whole step."""

    number: int
    first_position: int
    last_position: int
    status: str
    tool_names: list[Text]
    call_preview: Text
    result_preview: Text
    tokens: int


class StrategyCellOut(ResponseModel):
    """One side's summaries of the steps of a row."""

    items: list[TrialOut]
    tokens_after: int
    money: float | str = Field(description=MONEY)
    names_kept: int = Field(description="The number of the row's names that these summaries contain.")
    kept: list[Text] = Field(description="The row's needed names that any summary of the side contains.")
    lost: list[Text]


class StrategyRowOut(ResponseModel):
    """A range of steps and both sides' summaries of it. No summary extends beyond the range."""

    from_step: int
    to_step: int
    tokens: int
    steps: list[OriginalStepOut]
    names: int = Field(
        description="The number of different names in the tool calls and results of the steps that were read."
    )
    needed: list[NeededNameOut] = Field(
        description="Names that later steps needed and that these steps returned first."
    )
    sides: list[StrategyCellOut] = Field(description="In the order of the request.")


class StrategyRowsOut(Page[StrategyRowOut]):
    model_config = with_example({"items": [examples.STRATEGY_ROW], "next": None})


class ComparisonOut(ResponseModel):
    """Two strategies on the same steps. Contexts do not use their summaries."""

    model_config = with_example(examples.COMPARISON)

    id: UUID
    from_step: int
    to_step: int
    ended: bool = Field(description="Whether both sides have ended.")
    recall: StrategyRecallOut | None = Field(default=None, description="Null until both have ended.")
    sides: list[SideOut]
