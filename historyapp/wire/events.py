"""Events: changes in the sessions of a project."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

KINDS = (
    "session_created", "entries", "rewind", "summaries", "run", "budget", "notes", "session_changed",
    "session_deleted",
)  # fmt: skip


class EventOut(ResponseModel):
    model_config = with_example(examples.EVENT)

    cursor: str = Field(description="The cursor after this event. Send it as `after` or `Last-Event-ID`.")
    kind: str = Field(
        json_schema_extra={"enum": list(KINDS)},
        description="`entries`: entries were appended; `run`: a compression changed its state or progress; "
        "`budget`: a spending cap refused a model call, for the first time in its day or month; "
        "`notes`: notes of steps; `session_changed`: title, tags, note, score, status, settings …",
    )
    session: UUID
    first_position: int | None = Field(
        description="The first position of the appended entries; otherwise null."
    )
    position: int | None = Field(description="The last position of the appended entries.")
    run: UUID | None = Field(description="The compression, for `run`.")
    at: datetime


class EventPage(Page[EventOut]):
    model_config = with_example({"items": [examples.EVENT], "next": "0-18"})

    next: str | None = Field(
        description="The cursor after this page; never null. Send it as `after` to read newer events."
    )
