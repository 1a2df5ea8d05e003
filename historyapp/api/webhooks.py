"""Webhooks, their deliveries and their tests. All endpoints need the scope ``admin``, because webhook URLs
often contain tokens."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, Field, PlainValidator, WithJsonSchema

from historyapp.api.auth import ApiRequest, actor, check_scope
from historyapp.api.cursors import Cursor, Limit, cut_page, decode_cursor
from historyapp.api.fields import UUID_SCHEMA, Line, Name, RequestBody, id_of
from historyapp.api.idempotency import concerns_sessions, handles_own_key, once_per_key
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import AddressNotAllowed, Conflict, Invalid, NotFound
from historyapp.models import Webhook, WebhookDelivery
from historyapp.models.webhooks import EventName
from historyapp.services.webhooks.endpoints import (
    change_webhook,
    create_webhook,
    delete_webhook,
    deliveries_of,
    find_delivery,
    find_webhook,
    message_uuid,
    next_attempt,
    old_secret_until,
    redeliver,
    rotate_secret,
    send_test,
    waiting_counts,
)
from historyapp.services.webhooks.signing import secret_of
from historyapp.wire.base import with_example
from historyapp.wire.webhooks import (
    AttemptOut,
    DeliveryOut,
    DeliveryPage,
    FullDeliveryOut,
    NewWebhookOut,
    WebhookOut,
    WebhookPage,
)

router = Router(tags=["webhooks"])

_LIST, _DELIVERIES = "webhooks", "deliveries"
WebhookId = Annotated[UUID, id_of("webhook"), UUID_SCHEMA]
DeliveryId = Annotated[
    UUID, PlainValidator(message_uuid), WithJsonSchema({"type": "string", "pattern": "^msg_[0-9a-f]{32}$"})
]
WebhookUrl = Annotated[Line, Field(max_length=2000)]


class WebhookIn(RequestBody):
    model_config = with_example(
        {"url": "https://hooks.example.com/playhead", "events": ["session.error", "session.loop"]}
    )

    url: WebhookUrl = Field(description="Begins with `https://`. Redirects are not followed.")
    description: Name = ""
    events: list[EventName] | None = Field(default=None, max_length=50, description="Null or empty: all.")


class WebhookPatch(RequestBody):
    """Only the given fields change."""

    model_config = with_example({"state": "active"})

    url: WebhookUrl | None = Field(default=None, description="Null: unchanged, as for the other fields.")
    description: Name | None = None
    events: list[EventName] | None = Field(default=None, max_length=50, description="Empty: all.")
    state: Literal["active", "paused"] | None = Field(
        default=None,
        description="`active` also resumes a webhook that the server switched off. It continues where it "
        "stopped.",
    )


class WebhookFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None


class DeliveryFilter(BaseModel):
    state: Literal["pending", "failed"] | None = Field(
        default=None, description="Only deliveries that are pending, or that failed permanently."
    )
    limit: Limit = 50
    cursor: Cursor | None = None


@router.get("/webhooks", response=WebhookPage, summary="List webhooks")
def list_webhooks(request: ApiRequest, filter: Query[WebhookFilter]) -> HttpResponse:
    """Webhooks, oldest first. Every endpoint below `/webhooks` needs the scope `admin`."""
    check_scope(request.auth, "admin")
    webhooks = Webhook.objects.filter(project=request.auth.project).order_by("pk")
    if filter.cursor is not None:
        (last_id,) = decode_cursor(_LIST, filter.cursor, UUID)
        webhooks = webhooks.filter(pk__gt=last_id)
    page, cursor = cut_page(_LIST, list(webhooks[: filter.limit + 1]), filter.limit, lambda row: (row.pk,))
    waiting = waiting_counts(page)
    return json_response(WebhookPage(items=[_webhook_out(row, waiting) for row in page], next=cursor))


@router.post("/webhooks", response={201: NewWebhookOut}, summary="Create a webhook")
@raises(Conflict, Invalid, AddressNotAllowed)
@handles_own_key
def post_webhook(request: ApiRequest, webhook: WebhookIn) -> HttpResponse:
    """Sends events from now on to a URL. Only this response contains the `secret`."""
    check_scope(request.auth, "admin")

    def create() -> Webhook:
        return create_webhook(
            request.auth.project,
            webhook.url,
            events=webhook.events or (),
            description=webhook.description,
            actor=actor(request),
        )

    return _with_secret(request, create)


@router.get("/webhooks/{webhook_id}", response=WebhookOut, summary="Read a webhook")
@raises(NotFound)
def read_webhook(request: ApiRequest, webhook_id: WebhookId) -> HttpResponse:
    return _webhook_response(_find_webhook(request, webhook_id))


@router.patch("/webhooks/{webhook_id}", response=WebhookOut, summary="Change a webhook")
@raises(NotFound, Invalid, AddressNotAllowed)
def patch_webhook(request: ApiRequest, webhook_id: WebhookId, changes: WebhookPatch) -> HttpResponse:
    """Changes the URL or the events, pauses a webhook, or switches it on again."""
    check_scope(request.auth, "admin")
    fields = changes.model_dump(exclude_none=True)
    return _webhook_response(change_webhook(request.auth.project, webhook_id, fields, actor=actor(request)))


@router.delete("/webhooks/{webhook_id}", response={204: None}, summary="Delete a webhook")
@raises(NotFound)
def remove_webhook(request: ApiRequest, webhook_id: WebhookId) -> HttpResponse:
    """Deletes the webhook and its deliveries. Pending deliveries are not sent."""
    delete_webhook(request.auth.project, webhook_id, actor=actor(request))
    return HttpResponse(status=204)


@router.post(
    "/webhooks/{webhook_id}/secrets", response={201: NewWebhookOut}, summary="Rotate a webhook's secret"
)
@raises(NotFound, Conflict)
@handles_own_key
def post_secret(request: ApiRequest, webhook_id: WebhookId) -> HttpResponse:
    """Gives the webhook a new secret. For a day, deliveries are signed with both secrets."""
    check_scope(request.auth, "admin")
    project = request.auth.project
    return _with_secret(request, lambda: rotate_secret(project, webhook_id, actor=actor(request)))


@router.post("/webhooks/{webhook_id}/tests", response={201: DeliveryOut}, summary="Send a test event")
@raises(NotFound, Conflict)
@handles_own_key
def post_test(request: ApiRequest, webhook_id: WebhookId) -> HttpResponseBase:
    """Sends an event `webhook.test`. Read the delivery to see whether it arrived."""
    check_scope(request.auth, "admin")

    def send() -> HttpResponse:
        delivery = send_test(request.auth.project, webhook_id, actor=actor(request))
        return json_response(_delivery_out(delivery), 201)

    return once_per_key(request, send)


@router.get("/webhooks/{webhook_id}/deliveries", response=DeliveryPage, summary="List deliveries")
@raises(NotFound)
def list_deliveries(
    request: ApiRequest, webhook_id: WebhookId, filter: Query[DeliveryFilter]
) -> HttpResponse:
    """Deliveries, newest first."""
    before = None
    if filter.cursor is not None:
        (before,) = decode_cursor(_DELIVERIES, filter.cursor, int)
    webhook = _find_webhook(request, webhook_id)
    rows = deliveries_of(webhook, filter.limit + 1, state=filter.state, before=before)
    page, cursor = cut_page(_DELIVERIES, rows, filter.limit, lambda row: (row.pk,))
    return json_response(DeliveryPage(items=[_delivery_out(row) for row in page], next=cursor))


@router.get(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}", response=FullDeliveryOut, summary="Read a delivery"
)
@raises(NotFound)
def read_delivery(request: ApiRequest, webhook_id: WebhookId, delivery_id: DeliveryId) -> HttpResponse:
    """The body of a delivery, and the outcome of its newest attempts."""
    row = find_delivery(_find_webhook(request, webhook_id), delivery_id)
    attempts = [AttemptOut.model_validate(entry) for entry in row.log]
    return json_response(fill(FullDeliveryOut, row, **_delivery_fields(row), log=attempts))


@router.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliveries",
    response={201: DeliveryOut},
    summary="Send a delivery again",
)
@raises(NotFound, Conflict)
@handles_own_key
def post_redelivery(request: ApiRequest, webhook_id: WebhookId, delivery_id: DeliveryId) -> HttpResponseBase:
    """Sends the same body with the same `webhook-id`. A pending delivery is sent at once."""
    check_scope(request.auth, "admin")

    def send() -> HttpResponse:
        row = redeliver(request.auth.project, webhook_id, delivery_id, actor=actor(request))
        concerns_sessions(request, [row.session] if row.session else [])
        return json_response(_delivery_out(row), 201)

    return once_per_key(request, send)


def _find_webhook(request: ApiRequest, webhook_id: UUID) -> Webhook:
    """The webhook, for a key with the scope ``admin``."""
    check_scope(request.auth, "admin")
    return find_webhook(request.auth.project, webhook_id)


def _with_secret(request: ApiRequest, write: Callable[[], Webhook]) -> HttpResponse:
    """The response with the secret. It is stored for the Idempotency-Key without the secret."""
    response = once_per_key(request, lambda: _webhook_response(write(), 201))
    assert isinstance(response, HttpResponse)
    fields = json.loads(response.content)
    secret = secret_of(UUID(fields["id"]), fields["secret_generation"])
    response.content = json_response({**fields, "secret": secret}).content
    return response


def _webhook_response(row: Webhook, status: int = 200) -> HttpResponse:
    return json_response(_webhook_out(row, waiting_counts([row])), status)


def _webhook_out(row: Webhook, waiting: Mapping[UUID, int]) -> WebhookOut:
    return fill(
        WebhookOut,
        row,
        waiting=waiting.get(row.pk, 0),
        secret_generation=row.generation,
        old_secret_until=old_secret_until(row),
    )


def _delivery_out(row: WebhookDelivery) -> DeliveryOut:
    return fill(DeliveryOut, row, **_delivery_fields(row))


def _delivery_fields(row: WebhookDelivery) -> dict[str, Any]:
    last_attempt = AttemptOut.model_validate(row.log[-1]) if row.log else None
    return {"id": row.message, "next_attempt_at": next_attempt(row), "last_attempt": last_attempt}
