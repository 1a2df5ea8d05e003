"""The project that an API key belongs to."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example
from historyapp.wire.caps import CapOut


class ProjectOut(ResponseModel):
    model_config = with_example(examples.PROJECT)

    id: UUID
    name: str
    created_at: datetime
    paid_automatic_compression: bool = Field(
        description="Whether automatic compression may call a provider's model. If not, it uses `local`."
    )
    allowed_models: list[str] = Field(description="The models that may be called; empty: all.")
    summary_instruction: str | None = Field(
        description="The instruction of `ai_summary` in sessions without their own. Null: the default."
    )
    caps: list[CapOut] = Field(description="The project's own caps; `GET /caps` lists all caps.")
