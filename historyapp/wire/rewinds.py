"""Rewinds, and the takes that they leave."""

from datetime import datetime

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, RangeOut, ResponseModel, with_example

_CUT_OFF = "At most the newest 1,000 ranges."


class RewindOut(ResponseModel):
    """The result of a rewind."""

    model_config = with_example(examples.REWIND)

    position: int = Field(description="The position of the rewind's entry. Use it to undo the rewind.")
    to_position: int
    cut_off: list[RangeOut] = Field(description=_CUT_OFF)
    steps_cut: int
    head: int


class TakeOut(ResponseModel):
    """A rewind and what it cut off, which stays readable with `as_of` one less than its position."""

    model_config = with_example(examples.TAKE)

    position: int
    to_position: int
    reason: Text | None
    actor: Text | None
    created_at: datetime | None = Field(description="Null if the transcript has no times.")
    cut_off: list[RangeOut] = Field(description=_CUT_OFF)


class RewindPage(Page[TakeOut]):
    model_config = with_example({"items": [examples.TAKE], "next": None})
