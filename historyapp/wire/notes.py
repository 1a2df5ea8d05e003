"""Bookmarks and notes of steps."""

from datetime import datetime

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example


class NoteOut(ResponseModel):
    model_config = with_example(examples.NOTE)

    number: int = Field(description="The step's number.")
    position: int = Field(description="The position of the step's output, to which the note belongs.")
    text: str = Field(description="Empty for a bookmark without a note.")
    actor: str = Field(description="Who wrote it last.")
    created_at: datetime
    updated_at: datetime


class NotePage(Page[NoteOut]):
    model_config = with_example({"items": [examples.NOTE], "next": None})
