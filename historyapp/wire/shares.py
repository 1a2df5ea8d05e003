"""Share links: read-only links to a session."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

STATES = ("usable", "expired", "revoked")


class ShareOut(ResponseModel):
    """A link that shows a session to anyone who has it."""

    model_config = with_example(examples.SHARE)

    id: UUID
    as_of: int | None = Field(
        description="The position that the link shows; null: the whole session, including later entries."
    )
    takes: bool = Field(description="Whether it shows steps that rewinds cut off.")
    inputs: bool = Field(description="Whether it shows text that people wrote, and system instructions.")
    state: str = Field(json_schema_extra={"enum": list(STATES)})
    actor: str = Field(description="Who created it.")
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    last_opened_at: datetime | None
    opened: int = Field(description="How often its page was opened.")


class NewShareOut(ShareOut):
    """A new link. Only this response contains its URL."""

    model_config = with_example({**examples.SHARE, "url": "https://playhead.example/s/AZfH2y4Ae…Zg=/"})

    url: str = Field(description="Anyone who has this URL can open the session.")


class SharePage(Page[ShareOut]):
    model_config = with_example({"items": [examples.SHARE], "next": None})
