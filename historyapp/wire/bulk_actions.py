"""Actions on many sessions."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example

BulkState = Annotated[str, Field(json_schema_extra={"enum": ["running", "finished", "cancelled"]})]
BulkItemState = Annotated[
    str,
    Field(json_schema_extra={"enum": ["waiting", "under_way", "done", "unchanged", "failed", "cancelled"]}),
]


class BulkItemOut(ResponseModel):
    """The outcome for one session."""

    session: UUID
    title: str = Field(description="Also empty if the project has no such session.")
    state: BulkItemState = Field(
        description="`under_way`: its compression is running. `unchanged`: there was nothing to do."
    )
    reason: str = Field(description="Why it failed, or why there was nothing to do.")
    compression: UUID | None = Field(description="The compression that was started.")


class BulkActionOut(ResponseModel):
    """An action on many sessions, and the outcome for each."""

    model_config = with_example(examples.BULK_ACTION)

    id: UUID
    action: str
    tag: str = Field(description="The tag to add or remove.")
    state: BulkState = Field(description="`running` until all items have ended.")
    total: int = Field(description="The number of sessions.")
    done: int
    unchanged: int
    failed: int
    waiting: int = Field(
        description="Sessions that the action has not reached. If it is cancelled, they stay in this state."
    )
    under_way: int = Field(description="Compressions that are running.")
    cancelled: int = Field(description="Compressions that were cancelled.")
    actor: str
    created_at: datetime
    finished_at: datetime | None = Field(description="When the last session was started.")
    items: list[BulkItemOut] = Field(description="In the order of the request.")


class RefusedOut(ResponseModel):
    """A session that cannot be compressed, and why."""

    session: UUID
    title: str
    reason: str


class BulkEstimateOut(ResponseModel):
    """The maximum work of compressing sessions: steps that already have a summary are counted too."""

    model_config = with_example(examples.BULK_ESTIMATE)

    sessions: int = Field(description="Sessions with something to compress.")
    nothing_to_do: int = Field(description="Sessions without steps to compress.")
    steps: int
    summaries: int
    calls: int = Field(description="Model calls; long steps may need more.")
    models: list[str] = Field(description="The models of providers that would be called.")
    tokens_before: int = Field(description="Tokens of the steps.")
    tokens_in: int = Field(description="Input tokens of all model calls, at most.")
    tokens_out: int = Field(description="Output tokens of all model calls, at most.")
    money: float | str = Field(description="US dollars; `unknown` if the price of a model is not known.")
    prices_as_of: str = Field(default="", description="The date of the price list.")
    refused: list[RefusedOut] = Field(description="Sessions that cannot be compressed, and why.")
