"""Finds, creates, changes and deletes webhooks, and resends deliveries."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, F, QuerySet
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.models import Project, Webhook, WebhookDelivery
from historyapp.models.changes import newest_cursor
from historyapp.models.database_clock import database_now
from historyapp.models.webhooks import BOTH_SECRETS, EVENTS
from historyapp.services.audit import add_audit_record
from historyapp.services.short_transactions import delete_in_parts, delete_rows
from historyapp.services.transactions import writing
from historyapp.services.webhooks.fan_out import test_delivery
from historyapp.services.webhooks.targets import check_literal_address, parse_target

MAX_WEBHOOKS = 20
"""The maximum number of webhooks of one project."""
_MAX_URL = 2000
_MESSAGE_ID = re.compile(r"msg_[0-9a-f]{32}")


def create_webhook(
    project: Project, url: str, *, events: Sequence[str] = (), description: str = "", actor: str = ""
) -> Webhook:
    """Creates a webhook. It receives the events that happen from now on.

    Args:
        events: the events that it receives, from ``EVENTS``; empty: all.

    Raises:
        Invalid: for a URL that is not allowed, or an event that does not exist.
        Conflict: when the project has too many webhooks.
    """
    values = _checked_values({"url": url, "events": events, "description": description})
    with writing():
        project.locked()
        if Webhook.objects.filter(project=project).count() >= MAX_WEBHOOKS:
            raise Conflict(f"A project has at most {MAX_WEBHOOKS} webhooks. Delete one first.")
        cursor = newest_cursor(project.pk)
        webhook = Webhook(
            project=project, transaction_id=cursor.transaction_id, change_id=cursor.id, **values
        )
        webhook.save(force_insert=True)
        _audit(webhook, actor, "make webhook", url=webhook.url)
    return webhook


def change_webhook(
    project: Project, webhook_id: UUID, changes: Mapping[str, Any], *, actor: str = ""
) -> Webhook:
    """Changes a webhook. When it becomes active again, it continues where it stopped.

    Args:
        changes: any of ``url``, ``events``, ``description``, and ``state`` (``active`` or ``paused``).

    Raises:
        NotFound: when the project has no such webhook.
        Invalid: as :func:`create_webhook`.
    """
    with writing():
        webhook = _lock_webhook(project, webhook_id)
        for name, value in _checked_values(changes).items():
            setattr(webhook, name, value)
        if "state" in changes:
            webhook.claim = webhook.claimed_until = None
        if changes.get("state") == Webhook.State.ACTIVE:
            webhook.note, webhook.failures = "", 0
            webhook.failing_since = webhook.not_before = None
            webhook.next_at = database_now()
            # Waiting deliveries are due at once, with all their retries.
            pending = WebhookDelivery.objects.pending(webhook).filter(retries__gt=0)
            pending.update(due_at=webhook.next_at, retries=0)
        webhook.save()
        _audit(webhook, actor, "change webhook", **{**changes, "url": webhook.url})
        return webhook


def rotate_secret(project: Project, webhook_id: UUID, *, actor: str = "") -> Webhook:
    """Gives a webhook a new secret. For a day, deliveries are also signed with the previous secret.

    Raises:
        NotFound: when the project has no such webhook.
        Conflict: when the last rotation was less than a day ago, because the secret before it must sign for a
            whole day.
    """
    with writing():
        webhook = _lock_webhook(project, webhook_id)
        now = timezone.now()
        if len(webhook.generations(now)) > 1:
            raise Conflict(
                "The secret was rotated within the last day. Deliveries are signed with both secrets; "
                "wait until a day has passed."
            )
        webhook.generation += 1
        webhook.rotated_at = now
        webhook.save(update_fields=("generation", "rotated_at"))
        _audit(webhook, actor, "rotate webhook secret")
        return webhook


def delete_webhook(project: Project, webhook_id: UUID, *, actor: str = "") -> None:
    """Deletes a webhook with its deliveries, which it first pauses: there may be many deliveries, so they are
    deleted in several transactions.

    Raises:
        NotFound: when the project has no such webhook.
    """
    with writing():
        webhook = _lock_webhook(project, webhook_id)
        webhook.state = Webhook.State.PAUSED
        webhook.save(update_fields=["state"])
        _audit(webhook, actor, "delete webhook", url=webhook.url)
    deliveries = WebhookDelivery.objects.filter(webhook=webhook)
    delete_in_parts(deliveries, "id")
    with writing():
        Webhook.objects.filter(pk=webhook_id, project=project).delete()


def send_test(project: Project, webhook_id: UUID, *, actor: str = "") -> WebhookDelivery:
    """Adds a delivery with a test event.

    Raises:
        NotFound: when the project has no such webhook.
        Conflict: when the webhook is paused or switched off.
    """
    with writing():
        webhook = _lock_active_webhook(project, webhook_id)
        delivery = test_delivery(webhook, f"test:{uuid7()}")
        delivery.save(force_insert=True)
        _wake(webhook)
        _audit(webhook, actor, "test webhook")
        return delivery


def redeliver(project: Project, webhook_id: UUID, message_id: UUID, *, actor: str = "") -> WebhookDelivery:
    """Sends a delivery again, with the same id and body. A waiting delivery is sent at once.

    Raises:
        NotFound: when the webhook or the delivery does not exist.
        Conflict: when the webhook is paused or switched off.
    """
    with writing():
        webhook = _lock_active_webhook(project, webhook_id)
        delivery = find_delivery(webhook, message_id)
        delivery.state, delivery.retries, delivery.finished_at = WebhookDelivery.State.PENDING, 0, None
        delivery.due_at = database_now()
        delivery.save(update_fields=("state", "retries", "finished_at", "due_at"))
        _wake(webhook)
        _audit(webhook, actor, "redeliver webhook", delivery=delivery.message)
        return delivery


def prune_deliveries(older_than: timedelta) -> int:
    """Deletes old deliveries that have ended, in batches. Returns how many."""
    cutoff, deleted = database_now() - older_than, 0
    ended = WebhookDelivery.objects.filter(created_at__lt=cutoff).exclude(state=WebhookDelivery.State.PENDING)

    def delete(old: "QuerySet[WebhookDelivery]") -> None:
        nonlocal deleted
        deleted += delete_rows(old)  # except those that are redelivered meanwhile

    delete_in_parts(ended, "created_at", delete)
    return deleted


def find_webhook(project: Project, webhook_id: UUID) -> Webhook:
    """The project's webhook.

    Raises:
        NotFound: when the project has no webhook with this ID. Another project may have one.
    """
    webhook = Webhook.objects.filter(pk=webhook_id, project=project).first()
    if webhook is None:
        raise NotFound(f"There is no webhook {webhook_id}.")
    return webhook


def message_uuid(value: object) -> UUID:
    """The UUID in a ``webhook-id``, ``msg_…``.

    Raises:
        NotFound: for any other value, because no delivery has such an id.
    """
    if isinstance(value, str) and _MESSAGE_ID.fullmatch(value):
        return UUID(value.removeprefix("msg_"))
    raise NotFound(f"This webhook has no delivery {str(value)[:100]}.")


def find_delivery(webhook: Webhook, message_id: UUID) -> WebhookDelivery:
    """The webhook's delivery.

    Raises:
        NotFound: when the webhook has no delivery with this ID. Another webhook may have one.
    """
    delivery = WebhookDelivery.objects.filter(webhook=webhook, message_id=message_id).first()
    if delivery is None:
        raise NotFound(f"This webhook has no delivery msg_{message_id.hex}.")
    delivery.webhook = webhook
    return delivery


def deliveries_of(
    webhook: Webhook, limit: int, *, state: str | None = None, before: int | None = None
) -> list[WebhookDelivery]:
    """The newest deliveries without their bodies, the newest first.

    Args:
        limit: the maximum number.
        state: ``pending`` or ``failed``; None: all.
        before: only deliveries with a smaller primary key.
    """
    # With a state, an expression: otherwise the rows of all states would be read in the order of their keys,
    # until enough have this state. An index has the keys of a state.
    number = F("pk") if state is None else F("pk") + 0
    deliveries = WebhookDelivery.objects.filter(webhook=webhook).alias(number=number)
    if state is not None:
        deliveries = deliveries.filter(state=state)
    if before is not None:
        deliveries = deliveries.filter(number__lt=before)
    newest = deliveries.order_by("-number").values("pk")[:limit]
    found = WebhookDelivery.objects.filter(pk__in=newest)
    return list(found.defer("body").select_related("webhook").order_by("-pk"))


def waiting_counts(webhooks: Sequence[Webhook]) -> Mapping[UUID, int]:
    """The number of waiting deliveries of each webhook that has any."""
    pending = WebhookDelivery.objects.filter(webhook__in=webhooks, state=WebhookDelivery.State.PENDING)
    counted = pending.order_by().values("webhook").annotate(number=Count("pk"))
    return dict(counted.values_list("webhook", "number"))


def next_attempt(delivery: WebhookDelivery) -> datetime | None:
    """The earliest time of the next attempt; None if there is no next attempt."""
    webhook = delivery.webhook
    if delivery.state != WebhookDelivery.State.PENDING or webhook.state != Webhook.State.ACTIVE:
        return None
    return max(delivery.due_at, webhook.not_before or delivery.due_at)


def old_secret_until(webhook: Webhook) -> datetime | None:
    """The time until which the previous secret signs too; None if it does not sign."""
    if len(webhook.generations(timezone.now())) < 2 or webhook.rotated_at is None:
        return None
    return webhook.rotated_at + BOTH_SECRETS


def _lock_webhook(project: Project, webhook_id: UUID) -> Webhook:
    row = Webhook.objects.select_for_update().filter(pk=webhook_id, project=project).first()
    return row or find_webhook(project, webhook_id)


def _lock_active_webhook(project: Project, webhook_id: UUID) -> Webhook:
    webhook = _lock_webhook(project, webhook_id)
    if webhook.state != Webhook.State.ACTIVE:
        raise Conflict(f"The webhook is {webhook.get_state_display()}. Resume it first.")
    return webhook


def _wake(webhook: Webhook) -> None:
    """Makes the webhook's next delivery due at once, even after failures."""
    now = database_now()
    webhook.next_at, webhook.not_before = min(webhook.next_at or now, now), None
    webhook.save(update_fields=("next_at", "not_before"))


def _checked_values(values: Mapping[str, Any]) -> dict[str, Any]:
    checked = dict(values)
    if "url" in checked:
        checked["url"] = checked["url"].strip()
        if len(checked["url"]) > _MAX_URL:
            raise Invalid(f"The URL has more than {_MAX_URL:,} characters.")
        check_literal_address(parse_target(checked["url"]))
    if "events" in checked:
        unknown = sorted(set(checked["events"]) - set(EVENTS))
        if unknown:
            raise Invalid(f"There is no event {unknown[0][:100]}. Use {', '.join(EVENTS)}.")
        checked["events"] = [event for event in EVENTS if event in checked["events"]]
    if checked.get("state") == Webhook.State.OFF:
        raise Invalid("Only the server sets the state off. Use paused.")
    return checked


def _audit(webhook: Webhook, actor: str, action: str, **detail: Any) -> None:
    fields = {"webhook": str(webhook.pk), **detail}
    add_audit_record(webhook.project_id, actor, action, None, fields)
