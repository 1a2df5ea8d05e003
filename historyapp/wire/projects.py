"""The project that an API key belongs to."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Answer, shown


class CapOut(Answer):
    """The most that the project may spend on model calls in each day or month."""

    period: str = Field(json_schema_extra={"enum": ["day", "month"]})
    limit: float = Field(description="US dollars.")
    spent: float = Field(description="US dollars in this period; calls under way count with their estimate.")
    ends_at: datetime = Field(description="When the next period begins.")


class ProjectOut(Answer):
    model_config = shown(examples.PROJECT)

    id: UUID
    name: str
    created_at: datetime
    paid_automatic_compression: bool = Field(
        description="Whether automatic compression may call a provider's model. If not, it uses `local`."
    )
    caps: list[CapOut]
