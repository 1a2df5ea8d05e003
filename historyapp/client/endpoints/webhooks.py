"""Webhooks and their deliveries. All these API calls need the scope ``admin``."""

from collections.abc import Sequence
from typing import Literal

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, get, pages, path_of, post
from historyapp.wire.webhooks import (
    DeliveryOut,
    DeliveryPage,
    FullDeliveryOut,
    NewWebhookOut,
    WebhookOut,
    WebhookPage,
)


def webhooks(*, limit: int | None = None) -> Pages[WebhookOut]:
    """The webhooks of the project, oldest first."""
    return pages("/webhooks", WebhookPage, limit=limit)


def create_webhook(
    url: str,
    *,
    events: Sequence[str] | None = None,
    description: str | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[NewWebhookOut]:
    """Sends events from now on to a URL. Only this response contains the ``secret``.

    Args:
        events: the events to send; None: all.

    Raises:
        Invalid: for a URL that cannot be used; ``AddressNotAllowed`` for a private address.
        Conflict: when the project has 20 webhooks.
    """
    fields = {"url": url, "events": events, "description": description}
    return post("/webhooks", NewWebhookOut, fields, key=idempotency_key)


def webhook(webhook_id: Id) -> ApiCall[WebhookOut]:
    """One webhook, and whether its deliveries arrive."""
    return get(path_of("webhooks", webhook_id), WebhookOut)


def change_webhook(
    webhook_id: Id,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = None,
    state: Literal["active", "paused"] | None = None,
) -> ApiCall[WebhookOut]:
    """Changes the given fields.

    Args:
        events: an empty list means all events.
        state: ``active`` also resumes a webhook that the server switched off.
    """
    fields = {"url": url, "events": events, "description": description, "state": state}
    return ApiCall(
        "PATCH", path_of("webhooks", webhook_id), WebhookOut.model_validate, body=drop_nulls(fields)
    )


def delete_webhook(webhook_id: Id) -> ApiCall[None]:
    """Deletes a webhook with its deliveries."""
    return ApiCall("DELETE", path_of("webhooks", webhook_id), lambda _: None)


def rotate_webhook_secret(webhook_id: Id, *, idempotency_key: str | None = None) -> ApiCall[NewWebhookOut]:
    """Gives a webhook a new secret. For a day, deliveries are signed with both secrets.

    Raises:
        Conflict: when the last rotation is less than a day ago.
    """
    return post(path_of("webhooks", webhook_id, "secrets"), NewWebhookOut, {}, key=idempotency_key)


def send_test_event(webhook_id: Id, *, idempotency_key: str | None = None) -> ApiCall[DeliveryOut]:
    """Sends an event ``webhook.test``.

    Raises:
        Conflict: when the webhook is paused or switched off.
    """
    return post(path_of("webhooks", webhook_id, "tests"), DeliveryOut, {}, key=idempotency_key)


def webhook_deliveries(
    webhook_id: Id, *, state: Literal["pending", "failed"] | None = None, limit: int | None = None
) -> Pages[DeliveryOut]:
    """The deliveries of a webhook, newest first.

    Args:
        state: only pending deliveries, or only permanently failed deliveries.
    """
    return pages(path_of("webhooks", webhook_id, "deliveries"), DeliveryPage, state=state, limit=limit)


def webhook_delivery(webhook_id: Id, delivery_id: str) -> ApiCall[FullDeliveryOut]:
    """One delivery with its body and its newest attempts.

    Args:
        delivery_id: the value of the header ``webhook-id``.
    """
    return get(path_of("webhooks", webhook_id, "deliveries", delivery_id), FullDeliveryOut)


def redeliver(
    webhook_id: Id, delivery_id: str, *, idempotency_key: str | None = None
) -> ApiCall[DeliveryOut]:
    """Sends a delivery again, with the same body and the same ``webhook-id``.

    Raises:
        Conflict: when the webhook is paused or switched off.
    """
    path = path_of("webhooks", webhook_id, "deliveries", delivery_id, "redeliveries")
    return post(path, DeliveryOut, {}, key=idempotency_key)
