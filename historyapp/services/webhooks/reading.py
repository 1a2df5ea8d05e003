"""Reading webhooks and their deliveries."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Count
from django.utils import timezone

from historyapp.core.errors import NotFound
from historyapp.models import Project, Webhook, WebhookDelivery
from historyapp.models.webhooks import BOTH_SECRETS, DeliveryQuerySet

_MESSAGE = re.compile(r"msg_[0-9a-f]{32}")


def find_webhook(project: Project, webhook_id: UUID) -> Webhook:
    """The project's webhook.

    Raises:
        NotFound: when the project has none of this id, even if another project has.
    """
    webhook = Webhook.objects.filter(pk=webhook_id, project=project).first()
    if webhook is None:
        raise NotFound(f"There is no webhook {webhook_id}.")
    return webhook


def message_uuid(value: object) -> UUID:
    """The UUID in a ``webhook-id``.

    Raises:
        NotFound: for anything else: nothing has such an id.
    """
    if isinstance(value, str) and _MESSAGE.fullmatch(value):
        return UUID(value.removeprefix("msg_"))
    raise NotFound(f"This webhook has no delivery {str(value)[:100]}.")


def find_delivery(webhook: Webhook, message_id: UUID) -> WebhookDelivery:
    """The webhook's delivery.

    Raises:
        NotFound: when the webhook has none of this id, even if another webhook has.
    """
    delivery = WebhookDelivery.objects.filter(webhook=webhook, message_id=message_id).first()
    if delivery is None:
        raise NotFound(f"This webhook has no delivery msg_{message_id.hex}.")
    delivery.webhook = webhook
    return delivery


def deliveries_of(
    webhook: Webhook, *, state: str | None = None, before: int | None = None
) -> DeliveryQuerySet:
    """The deliveries without their bodies, the newest first.

    Args:
        state: ``pending`` or ``failed``, of which there are few; None: all.
        before: only those with a smaller primary key.
    """
    found = WebhookDelivery.objects.filter(webhook=webhook).defer("body").select_related("webhook")
    if state is not None:
        found = found.filter(state=state)
    if before is not None:
        found = found.filter(pk__lt=before)
    return found.order_by("-pk")


def waiting_of(webhooks: Sequence[Webhook]) -> Mapping[UUID, int]:
    """How many deliveries of each webhook have not arrived; a webhook without any is left out."""
    pending = WebhookDelivery.objects.filter(webhook__in=webhooks, state=WebhookDelivery.State.PENDING)
    counted = pending.order_by().values("webhook").annotate(number=Count("pk"))
    return dict(counted.values_list("webhook", "number"))


def next_attempt(delivery: WebhookDelivery) -> datetime | None:
    """When a delivery is tried next, at the earliest; None when it is not."""
    webhook = delivery.webhook
    if delivery.state != WebhookDelivery.State.PENDING or webhook.state != Webhook.State.ACTIVE:
        return None
    return max(delivery.due_at, webhook.not_before or delivery.due_at)


def old_secret_until(webhook: Webhook) -> datetime | None:
    """Until when the secret before the last rotation signs, too; None when it does not."""
    if len(webhook.generations(timezone.now())) < 2 or webhook.rotated_at is None:
        return None
    return webhook.rotated_at + BOTH_SECRETS
