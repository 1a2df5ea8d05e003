"""Summaries of steps."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import MONEY, Page, ResponseModel, with_example


class SummaryOut(ResponseModel):
    model_config = with_example(examples.SUMMARY)

    id: UUID
    from_step: int
    to_step: int
    first_position: int
    last_position: int
    level: int = Field(description="1: of one step. 2: of a range of steps. 3 or more: of other summaries.")
    text: Text
    key_points: list[Text]
    strategy: str
    model: str
    tokens_before: int
    tokens_after: int
    made_at: int = Field(description="The session's head when the summary was made.")
    money: float | str | None = Field(description=f"{MONEY} Null: no model was used.")
    run: UUID | None = Field(
        description="The compression that created the summary; null if a client wrote it."
    )
    created_at: datetime


class SummaryPage(Page[SummaryOut]):
    model_config = with_example({"items": [examples.SUMMARY], "next": None})
