"""Saved What ifs."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example


class WhatIfOut(ResponseModel):
    """How a context is built. Null: the session's setting."""

    model_config = with_example(examples.WHAT_IF)

    id: UUID
    name: str
    policy: str | None
    max_tokens: int | None = Field(description="Budget in tokens.")
    format: str | None
    model: str | None
    actor: str = Field(description="Who saved it last.")
    created_at: datetime
    updated_at: datetime


class WhatIfPage(Page[WhatIfOut]):
    model_config = with_example({"items": [examples.WHAT_IF], "next": None})
