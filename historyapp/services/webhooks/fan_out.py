"""Creates a webhook's deliveries from the changes since it last read the feed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from historyapp.core.dates import utc_text
from historyapp.core.json import dump_json
from historyapp.models import Webhook, WebhookDelivery
from historyapp.models.changes import Cursor, changes_since, newest_cursor
from historyapp.models.database_clock import database_now
from historyapp.models.webhooks import TEST_EVENT
from historyapp.services.append import hold_sessions
from historyapp.services.disk_space import check_disk_space
from historyapp.services.transactions import writing
from historyapp.services.webhooks.events import WebhookEvent, find_events
from historyapp.wire.problems import CursorExpired, DiskLow

PAGE_SIZE = 200
"""The number of changes that one transaction turns into deliveries."""
STORED_AT_ONCE = 500
"""Deliveries that one transaction stores. On PostgreSQL, no feed shows later changes before it ends."""
MAX_PENDING = 10_000
"""While a webhook has this many waiting deliveries, no further changes are read for it."""
_MISSED = "Events before {at:%Y-%m-%d %H:%M} UTC may be missing, because their changes were already deleted."


def add_deliveries(webhook: Webhook, claim: UUID) -> bool:
    """Reads one page of changes. Returns whether there are more.

    The last deliveries and the new cursor are stored together, so a killed worker loses no delivery. It
    creates none twice, because events have keys.
    """
    if WebhookDelivery.objects.pending(webhook).count() >= MAX_PENDING:
        return False
    try:
        check_disk_space()
    except DiskLow:
        return False  # a change of 250 bytes becomes 20 deliveries of KBs; the feed keeps it
    try:
        page = changes_since(webhook.project_id, webhook.cursor, limit=PAGE_SIZE)
    except CursorExpired:
        note = _MISSED.format(at=timezone.now())
        return _store(webhook, claim, [], newest_cursor(webhook.project_id), note=note)
    if page.cursor == webhook.cursor:
        return False
    selected_events = webhook.selected_events
    events = [
        event for event in find_events(webhook.project_id, page.changes) if event.event in selected_events
    ]
    return _store(webhook, claim, events, page.cursor) and page.has_more


def _store(
    webhook: Webhook, claim: UUID, events: Sequence[WebhookEvent], cursor: Cursor, *, note: str = ""
) -> bool:
    """Stores deliveries and the cursor. Returns False if another worker has claimed the webhook."""
    values: dict[str, Any] = {"transaction_id": cursor.transaction_id, "change_id": cursor.id}
    if note:
        values["note"] = note
    parts = [events[start : start + STORED_AT_ONCE] for start in range(0, len(events), STORED_AT_ONCE)]
    *first, last = parts or [[]]
    claimed = Webhook.objects.filter(pk=webhook.pk, claim=claim)
    for part in first:
        if not _store_part(webhook, part, lambda: claimed.update(claim=claim)):
            return False
    if not _store_part(webhook, last, lambda: claimed.update(**values)):
        return False
    webhook.transaction_id, webhook.change_id = cursor
    return True


def _store_part(webhook: Webhook, events: Sequence[WebhookEvent], update: Callable[[], int]) -> bool:
    """Stores deliveries in one transaction, if ``update`` changes a row in it."""
    due_at = database_now()
    rows = [_delivery(webhook, event, due_at) for event in events]
    with writing():
        if not update():
            return False
        existing = hold_sessions(webhook.project_id, {event.session for event in events})
        kept = [row for row in rows if row.session in existing]
        WebhookDelivery.objects.bulk_create(kept, ignore_conflicts=True)
    return True


def _delivery(webhook: Webhook, event: WebhookEvent, due_at: datetime) -> WebhookDelivery:
    return WebhookDelivery(
        webhook=webhook,
        event=event.event,
        key=event.key,
        session=event.session,
        body=body_of(webhook, event.event, event.at, event.data),
        due_at=due_at,
    )


def body_of(webhook: Webhook, event: str, at: datetime, data: Mapping[str, Any]) -> str:
    """The body of a delivery, in ASCII."""
    fields = {"project": str(webhook.project_id), **data}
    return dump_json({"type": event, "timestamp": utc_text(at), "data": fields})


def test_delivery(webhook: Webhook, key: str) -> WebhookDelivery:
    """A delivery with a test event."""
    message = {"message": "This is a test event from Playhead."}
    now = database_now()
    body = body_of(webhook, TEST_EVENT, now, message)
    return WebhookDelivery(webhook=webhook, event=TEST_EVENT, key=key, body=body, due_at=now)
