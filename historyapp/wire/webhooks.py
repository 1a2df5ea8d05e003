"""Webhooks: URLs to which a project's events are sent, and their deliveries."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

WEBHOOK_STATES = ("active", "paused", "off")
DELIVERY_STATES = ("pending", "succeeded", "failed")


class WebhookOut(ResponseModel):
    """A URL, the events that are sent to it, and whether they arrive."""

    model_config = with_example(examples.WEBHOOK)

    id: UUID
    url: str
    description: str
    events: list[str] = Field(description="Empty: all.")
    state: str = Field(
        json_schema_extra={"enum": list(WEBHOOK_STATES)},
        description="`off`: the server switched it off, because every attempt of three days failed or the "
        "target responded with 410. `note` says which.",
    )
    note: str = Field(description="Why the webhook was switched off, or which events it missed.")
    waiting: int = Field(description="Deliveries that have not arrived yet and will be retried.")
    failures: int = Field(description="Failed attempts since the last success.")
    failing_since: datetime | None
    last_success_at: datetime | None
    created_at: datetime
    secret_generation: int = Field(description="1 for the first secret; each rotation adds 1.")
    old_secret_until: datetime | None = Field(
        description="After a rotation: the time until which deliveries are also signed with the previous "
        "secret. Otherwise null."
    )


class NewWebhookOut(WebhookOut):
    """A webhook with its secret, which no other response has."""

    model_config = with_example(
        {**examples.WEBHOOK, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw9TXHzFLZEsA="}
    )

    secret: str = Field(description="The key with which the receiver verifies signatures. Keep it secret.")


class WebhookPage(Page[WebhookOut]):
    model_config = with_example({"items": [examples.WEBHOOK], "next": None})


class AttemptOut(ResponseModel):
    """One request to the webhook's URL."""

    model_config = with_example(examples.WEBHOOK_ATTEMPT)

    at: datetime
    status: int | None = Field(description="The status of the target's response; null: no response.")
    milliseconds: int
    error: str = Field(description="What went wrong; empty after a success.")
    answer: str = Field(description="The first 1,024 bytes of the response body: untrusted text.")


class DeliveryOut(ResponseModel):
    """One event that is sent to a webhook."""

    model_config = with_example(examples.DELIVERY)

    id: str = Field(description="The header `webhook-id`, the same at every attempt.")
    event: str
    session: UUID | None = Field(description="Null for a test event.")
    state: str = Field(json_schema_extra={"enum": list(DELIVERY_STATES)})
    attempts: int
    next_attempt_at: datetime | None = Field(
        description="The earliest time of the next attempt: a delivery waits for earlier deliveries of its "
        "session. Null: the delivery has ended, or the webhook is not active."
    )
    created_at: datetime
    finished_at: datetime | None
    last_attempt: AttemptOut | None


class FullDeliveryOut(DeliveryOut):
    """A delivery with its body and its attempts."""

    model_config = with_example({**examples.DELIVERY, **examples.DELIVERY_BODY})

    body: str = Field(description="The body of every attempt, exactly as it is signed.")
    log: list[AttemptOut] = Field(description="The newest 10 attempts, oldest first.")


class DeliveryPage(Page[DeliveryOut]):
    model_config = with_example({"items": [examples.DELIVERY], "next": None})
