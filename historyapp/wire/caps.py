"""Spending caps, and the amount that each leaves."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example


class CapOut(ResponseModel):
    """The maximum that a project, session or API key may spend on model calls in a day or month (UTC)."""

    model_config = with_example(examples.CAP)

    subject: str = Field(json_schema_extra={"enum": ["project", "session", "key"]})
    session: UUID | None = Field(description="Its forks and sub-agents count too. Null: not a session's cap.")
    key: str | None = Field(description="The beginning of the API key. Null: not a key's cap.")
    period: str = Field(json_schema_extra={"enum": ["day", "month"]})
    limit: float = Field(description="In US dollars, like the amounts below.")
    spent: float = Field(
        description="Spent in this period. Model calls of unknown cost count with their estimate."
    )
    reserved: float = Field(description="The sum of the estimates of running model calls.")
    left: float
    ends_at: datetime = Field(description="When the next period begins.")


class CapPage(Page[CapOut]):
    model_config = with_example({"items": [examples.CAP], "next": None})
