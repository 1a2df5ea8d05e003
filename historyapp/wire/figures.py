"""Figures of a project over a span of days. Money is in US dollars."""

from datetime import date

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example


class FiguresOut(ResponseModel):
    """Totals of a range of days. Except `recorded_tokens`, tokens are as providers reported them."""

    sessions: int = Field(description="Sessions that started. Each counts for one model, and for no tool.")
    steps: int
    errors: int = Field(description="Steps that ended in a reported error.")
    likely_failures: int = Field(description="Steps reported as a success that look like a failure.")
    recorded_tokens: int = Field(
        description="Tokens of the entries by Playhead's own count, each entry once."
    )
    model_calls: int = Field(description="Model calls that reported their usage.")
    uncached: int
    cache_read: int
    cache_write: int
    output: int
    seconds: float = Field(description="The time between tool calls and their results.")
    money: float = Field(description="Cost as reported, otherwise by the price list.")
    money_is_minimum: bool = Field(
        description="Whether the true cost is higher than `money`: `unpriced_models` has a model, or at "
        "least 1 % of the output tokens is not reported."
    )
    unpriced_models: list[str] = Field(description="Models without a known price, which `money` leaves out.")
    unpriced_tokens: int = Field(
        description="Tokens of these model calls, of those in `uncached`, `cache_read`, `cache_write` and "
        "`output`."
    )


class FiguresGroupOut(FiguresOut):
    name: str | None = Field(
        description="The day, agent, model or tool. Empty: no name, or no tool; null: steps that called "
        "several different tools."
    )


class ProjectFiguresOut(ResponseModel):
    """A project's figures. Days are in UTC."""

    model_config = with_example(examples.FIGURES)

    first: date = Field(description="The first day of the range.")
    last: date = Field(description="The last day of the range, included.")
    by: str = Field(json_schema_extra={"enum": ["day", "agent", "model", "tool"]})
    total: FiguresOut
    before: FiguresOut = Field(description="The previous range of the same length.")
    undated: FiguresOut = Field(description="Entries without a time. No range contains them.")
    items: list[FiguresGroupOut] = Field(
        description="Days by date, others with the most steps first, or as `sort` says. At most 200 names."
    )
    item_count: int = Field(
        description="The number of days, agents, models or tools. `items` has at most the first 200 agents, "
        "models or tools; the totals count all."
    )
    is_current: bool = Field(
        description="Whether everything recorded so far is counted. If not, send the request again soon."
    )
