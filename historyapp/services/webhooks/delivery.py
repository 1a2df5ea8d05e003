"""Sends the due deliveries of one webhook, in order within each session.

A failed delivery blocks the later deliveries of its session until it succeeds or is given up. The row of a
delivery is stored before sending and updated after the response. So if a worker is killed, the delivery is
sent again with the same id. One worker at a time works on a webhook. If it stalls for longer than its claim,
another worker continues, and one delivery may arrive twice.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from math import inf
from uuid import UUID, uuid4

from django.conf import settings
from django.db.models import Exists, OuterRef, Q

from historyapp.core.dates import utc_text
from historyapp.models import Session, Webhook, WebhookDelivery
from historyapp.models.database_clock import claim_now, database_now
from historyapp.models.webhooks import MAX_PAUSE, RETRY_SECONDS
from historyapp.services.audit import add_audit_record
from historyapp.services.connections import release_connection
from historyapp.services.lost_claims import end_claim
from historyapp.services.short_transactions import delete_in_parts
from historyapp.services.transactions import writing
from historyapp.services.webhooks.fan_out import add_deliveries
from historyapp.services.webhooks.sending import Attempt, send
from historyapp.services.webhooks.signing import headers_of
from historyapp.wire.problems import TransactionTooLong

log = logging.getLogger(__name__)

MAX_BACKOFF = 300
"""After failed attempts, a target gets pauses of 1, 2, 4, 8 … seconds, up to this many."""
MAX_RETRY_AFTER = int(MAX_PAUSE.total_seconds())
OFF_AFTER, OFF_FAILURES = timedelta(days=3), 10
"""A webhook is switched off if all its attempts have failed for this time and there were at least this
many."""
MIN_CLAIM = 15
"""The minimum length of a claim, in seconds. Sending one attempt and storing its result takes less."""
TURN_SECONDS = 20.0
"""After this many seconds, the worker continues with another webhook."""
BATCH_SIZE = 20
"""The maximum number of deliveries that are read together."""
_PAUSE_STATUSES = (None, 429, 503)
"""The statuses that end a turn: no response, or a response that requests a pause."""
QUICK_MILLISECONDS = 200
"""If the last attempt took less, the connection to the database stays open during the next one."""
MAX_LOGGED = 10
"""The number of the newest attempts that are stored for a delivery."""


def process_webhook(webhook_id: UUID, should_stop: Callable[[], bool]) -> None:
    """Reads the feed and sends due deliveries, until none is left or the turn ends.

    If the target needs a pause, only the feed is read.
    """
    claim, must_end = uuid4(), True
    try:
        webhook = _claim(webhook_id, claim)
        must_end = webhook is not None
        end = time.monotonic() + TURN_SECONDS
        sent: int | None = 0
        while webhook is not None and not should_stop() and time.monotonic() < end:
            has_more = add_deliveries(webhook, claim)
            if sent is not None:
                sent = _send_due(webhook, claim, lambda: should_stop() or time.monotonic() >= end)
            if not sent and not has_more:
                break
    except TransactionTooLong:
        must_end = False  # the webhook waits until its claim expires: others cannot write meanwhile
        raise
    finally:
        if must_end:
            end_claim(partial(_release, webhook_id, claim))


def _claim(webhook_id: UUID, claim: UUID) -> Webhook | None:
    """Claims the webhook. Returns None if it is not active, has a pause, or another worker has claimed it."""
    with writing():
        now = database_now()  # the lock may have taken long, and another worker's claim may have ended
        active = Webhook.objects.ready(now).filter(pk=webhook_id, state=Webhook.State.ACTIVE)
        # If this worker is killed, the webhook is due when the claim has expired.
        if not active.update(claim=claim, claimed_until=claim_now() + _claim_time(), next_at=now):
            return None
    return Webhook.objects.filter(pk=webhook_id, claim=claim).first()


def _claim_time() -> timedelta:
    return timedelta(seconds=max(settings.PLAYHEAD_CLAIM_SECONDS, MIN_CLAIM))


def _release(webhook_id: UUID, claim: UUID) -> None:
    """Ends the claim and stores when the next delivery is due."""
    with writing():
        claimed = Webhook.objects.select_for_update().filter(pk=webhook_id, claim=claim)
        if (webhook := claimed.first()) is not None:
            now, first = database_now(), WebhookDelivery.objects.first_of_sessions(webhook)
            next_at = first.order_by("due_at").values_list("due_at", flat=True).first()
            if next_at is not None and next_at > now and first.due(now).exists():
                next_at = now  # the clock was set back
            claimed.update(claim=None, claimed_until=now, next_at=next_at)


def _send_due(webhook: Webhook, claim: UUID, should_stop: Callable[[], bool]) -> int | None:
    """Sends the first due delivery of each session. Returns how many succeeded.

    Stops and returns None if the target cannot be reached or requests a pause, or another worker claimed the
    webhook during an attempt. After any other error it continues with the other sessions.
    """
    due = WebhookDelivery.objects.first_of_sessions(webhook).due(database_now()).order_by("due_at", "pk")
    succeeded, milliseconds = 0, inf
    for id in list(due.values_list("pk", flat=True)[:BATCH_SIZE]):
        if should_stop():
            break
        delivery = _current_delivery(id, claim)
        if delivery is None:
            continue
        started_at = database_now()
        if milliseconds > QUICK_MILLISECONDS:
            release_connection()  # because PostgreSQL limits their number
        headers = headers_of(delivery, started_at)
        attempt = send(delivery.webhook.url, headers, delivery.body, webhook.project_id)
        milliseconds = attempt.milliseconds
        if not _store_attempt(delivery, claim, attempt, started_at) or attempt.status in _PAUSE_STATUSES:
            return None
        succeeded += attempt.succeeded
    return succeeded


def _current_delivery(id: int, claim: UUID) -> WebhookDelivery | None:
    """The delivery and its webhook as they are now: sending others may have taken twenty seconds.

    None if it must not be sent any more. If its session was purged, its deliveries are deleted here,
    because the purge may still need minutes to reach them.
    """
    pending = WebhookDelivery.objects.filter(pk=id, state=WebhookDelivery.State.PENDING)
    active = pending.filter(webhook__claim=claim, webhook__state=Webhook.State.ACTIVE)
    session = Session.objects.filter(pk=OuterRef("session"), project=OuterRef("webhook__project"))
    delivery = active.filter(Q(session=None) | Exists(session)).select_related("webhook").first()
    if delivery is None and (purged := active.select_related("webhook").first()):
        deliveries = WebhookDelivery.objects.filter(webhook=purged.webhook, session=purged.session)
        delete_in_parts(deliveries, "id")
    return delivery


def _store_attempt(delivery: WebhookDelivery, claim: UUID, attempt: Attempt, started_at: datetime) -> bool:
    """Stores the result of an attempt. Returns whether this worker still has the claim."""
    with writing():
        webhook = Webhook.objects.select_for_update().filter(pk=delivery.webhook_id, claim=claim).first()
        if webhook is None:
            return False
        now = database_now()
        _log_attempt(delivery, attempt, started_at)
        if attempt.succeeded:
            delivery.state, delivery.finished_at = WebhookDelivery.State.SUCCEEDED, now
            webhook.failures, webhook.failing_since, webhook.not_before = 0, None, None
            webhook.last_success_at = now
        else:
            _apply_failure(webhook, delivery, attempt, now)
        webhook.claimed_until = claim_now() + _claim_time()
        if webhook.state != Webhook.State.ACTIVE:
            webhook.claim = webhook.claimed_until = None
        webhook.save(update_fields=_ATTEMPT_COLUMNS)
        # The row is gone if its session was purged meanwhile.
        values = {name: getattr(delivery, name) for name in _DELIVERY_COLUMNS}
        WebhookDelivery.objects.filter(pk=delivery.pk).update(**values)
        return webhook.claim is not None


_ATTEMPT_COLUMNS = (
    "state", "note", "failures", "failing_since", "last_success_at", "not_before", "claim", "claimed_until",
)  # fmt: skip
"""The columns of a webhook that an attempt changes."""
_DELIVERY_COLUMNS = ("state", "attempts", "retries", "due_at", "log", "finished_at")


def _log_attempt(delivery: WebhookDelivery, attempt: Attempt, started_at: datetime) -> None:
    entry = {
        "at": utc_text(started_at),
        "status": attempt.status,
        "milliseconds": attempt.milliseconds,
        "error": attempt.error,
        "answer": attempt.answer,
    }
    delivery.log = [*delivery.log, entry][-MAX_LOGGED:]
    delivery.attempts += 1


def _apply_failure(webhook: Webhook, delivery: WebhookDelivery, attempt: Attempt, now: datetime) -> None:
    requested_pause = min(attempt.retry_after, MAX_RETRY_AFTER)
    if attempt.status == 410 or delivery.retries >= len(RETRY_SECONDS):
        delivery.state, delivery.finished_at = WebhookDelivery.State.FAILED, now
    else:
        delivery.due_at = now + timedelta(seconds=max(RETRY_SECONDS[delivery.retries], requested_pause))
        delivery.retries += 1
    pause = max(min(2 ** min(webhook.failures, 20), MAX_BACKOFF), requested_pause)
    webhook.not_before = now + timedelta(seconds=pause)
    webhook.failures += 1
    webhook.failing_since = webhook.failing_since or now
    if attempt.status == 410:
        _switch_off(webhook, "The target responded with 410 Gone, which ends its deliveries.")
    elif now - webhook.failing_since >= OFF_AFTER and webhook.failures >= OFF_FAILURES:
        _switch_off(webhook, f"All attempts of the last three days failed. The last error: {attempt.error}")


def _switch_off(webhook: Webhook, reason: str) -> None:
    webhook.state, webhook.note = Webhook.State.OFF, reason[:500]
    log.warning("The webhook %s is switched off. %s", webhook.pk, reason)
    detail = {"webhook": str(webhook.pk), "reason": webhook.note}
    add_audit_record(webhook.project_id, "webhooks", "switch off webhook", None, detail)
