"""Evaluations of policies and budgets on recorded sessions."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import MONEY, Page, ResponseModel, with_example

EvaluationState = Annotated[str, Field(json_schema_extra={"enum": ["running", "finished", "cancelled"]})]
EvaluatedState = Annotated[str, Field(json_schema_extra={"enum": ["waiting", "done", "skipped", "failed"]})]
ResampledUnit = Annotated[str, Field(json_schema_extra={"enum": ["sessions", "steps"]})]


class IntervalOut(ResponseModel):
    """A mean over measured steps with its 95 % interval. Shares are from 0 to 1."""

    mean: float
    low: float
    high: float


class ChoiceFiguresOut(ResponseModel):
    """The figures of a policy and a budget in one session, as means over the measured steps."""

    policy: str
    max_tokens: int
    recall: float = Field(description="The share of the needed identifiers that the contexts contain.")
    grounded: float = Field(
        description="The same share, but only of identifiers that the contexts contain with the words around "
        "them."
    )
    tokens: float = Field(description="Tokens of a whole request.")
    cached: float = Field(description="The share of these tokens that the provider's cache serves.")
    money: float | str = Field(description=f"Of the input of one request. {MONEY}")
    steps: int = Field(description="The number of measured steps.")
    refused: int = Field(
        description="The number of steps whose context cannot fit into the budget. They count as a recall of "
        "0, and not in tokens and money."
    )


class ChoiceResultOut(ResponseModel):
    """The figures of a policy and a budget over all measured sessions."""

    policy: str
    max_tokens: int
    recall: IntervalOut
    grounded: IntervalOut
    behind: IntervalOut = Field(description="Its recall minus the best recall, on the same steps.")
    tokens: float
    cached: float
    money: float | str = Field(description=f"Of the input of one request. {MONEY}")
    steps: int
    refused: int


class RecommendationOut(ResponseModel):
    policy: str
    max_tokens: int
    reason: str


class EvaluationResultsOut(ResponseModel):
    """The figures over all sessions that were measured completely."""

    sessions: int
    steps: int
    drawn: ResampledUnit = Field(
        description="The resampled units of the intervals: `sessions`, or the `steps` of the only session."
    )
    unpriced: int = Field(description="Sessions whose model has no known price. Money leaves them out.")
    choices: list[ChoiceResultOut]
    recommendation: RecommendationOut | None
    cautions: list[str] = Field(description="Reasons why these figures are less certain.")


class EvaluatedSessionOut(ResponseModel):
    """One session of an evaluation."""

    session: UUID
    title: str = Field(description="Also empty if the session was deleted.")
    state: EvaluatedState
    reason: str = Field(description="Why it was skipped or failed, or what the figures leave out.")
    model: str = Field(description="The model whose prices were used; empty if its price is unknown.")
    steps: int = Field(
        description="The number of steps to measure, at most 16; 0 until measuring the session starts."
    )
    measured: int
    figures: list[ChoiceFiguresOut] = Field(description="Empty until a step is measured.")


class EvaluationItem(ResponseModel):
    """An evaluation without its figures."""

    id: UUID
    state: EvaluationState
    policies: list[str]
    budgets: list[int] = Field(description="In tokens.")
    model: str = Field(
        description="The model whose tokens and prices apply; empty: each session's own `model`."
    )
    actor: str
    created_at: datetime
    finished_at: datetime | None
    prices_as_of: str | None = Field(description="The date of the price list; null while it runs.")
    total: int = Field(description="The number of sessions.")
    done: int
    skipped: int
    failed: int
    waiting: int


class EvaluationOut(EvaluationItem):
    """An evaluation, its progress and its results."""

    model_config = with_example(examples.EVALUATION)

    progress: float = Field(description="The share of the work that is done, from 0 to 1.")
    results: EvaluationResultsOut | None = Field(
        description="Null until the evaluation has ended, and if nothing could be measured."
    )
    items: list[EvaluatedSessionOut] = Field(description="In the order of the request.")


class EvaluationPage(Page[EvaluationItem]):
    model_config = with_example({"items": [examples.EVALUATION_ITEM], "next": None})
