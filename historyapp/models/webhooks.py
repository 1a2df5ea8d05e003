"""Webhooks: URLs that receive a project's events, and the deliveries to each."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, get_args
from uuid import UUID

from django.db import connection, models
from django.db.models import Min
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.changes import Cursor, is_after
from historyapp.models.database_clock import claim_now
from historyapp.models.fields import JSONText, PackedJSON, PackedText, as_uuid, read_compact_time
from historyapp.models.projects import Project
from historyapp.models.sql import as_aware, fetch_all

EventName = Literal[
    "session.started", "session.ended", "session.error", "session.loop", "budget.reached",
    "compression.finished",
]  # fmt: skip
EVENTS: tuple[str, ...] = get_args(EventName)
TEST_EVENT = "webhook.test"
BOTH_SECRETS = timedelta(days=1)
"""The time after a rotation during which the old secret also signs."""
MAX_CLAIM = timedelta(hours=1)
"""A claim that expires later than this was made before the clock was set back or the machine restarted."""
RETRY_SECONDS = (5, 30, 120, 600, 3600, 3 * 3600, 8 * 3600, 12 * 3600)
"""The seconds to wait after each failed attempt. After the last attempt, a day later, a delivery is given
up."""
MAX_PAUSE, MAX_RETRY = timedelta(hours=1), timedelta(seconds=RETRY_SECONDS[-1])
"""The longest pause of a webhook and the longest wait of a delivery. Times further ahead than these were
stored before the clock was set back, so they count as reached."""
_ENDED_AHEAD = "(webhook.claim IS NULL AND webhook.claimed_until > %s)"
"""The clock was set back since the last claim ended, so the webhook's times may be too far ahead."""
_READY = (
    "FROM historyapp_webhook webhook WHERE webhook.state = 'active' "
    "AND (webhook.claim IS NULL OR webhook.claimed_until < %s OR webhook.claimed_until > %s) "
    "AND (webhook.not_before IS NULL OR webhook.not_before <= %s OR webhook.not_before > %s "
    f"OR {_ENDED_AHEAD})"
)
_UNREAD = "FROM historyapp_change WHERE historyapp_change.project_id = webhook.project_id AND {is_after}"
_DUE = (
    f"SELECT webhook.id {_READY} "
    f"AND (webhook.next_at <= %s OR webhook.next_at > %s OR {_ENDED_AHEAD} OR EXISTS (SELECT 1 {_UNREAD}))"
)
_TIMES = (
    "SELECT webhook.next_at, webhook.not_before, webhook.claimed_until, "
    f"(SELECT historyapp_change.at {_UNREAD} "
    f"ORDER BY historyapp_change.transaction_id, historyapp_change.id LIMIT 1) {_READY}"
)


class WebhookQuerySet(models.QuerySet["Webhook"]):
    def due(self, now: datetime) -> Sequence[UUID]:
        """Webhooks with changes to read or deliveries to send that no worker has claimed."""
        moments = [*_moments(now), now, now + MAX_RETRY, now]
        return [as_uuid(id) for (id,) in _fetch(_DUE, moments)]

    def ready(self, now: datetime) -> Self:
        """As :data:`_READY`, in any state."""
        claimed = claim_now()
        expired = models.Q(claimed_until__lt=claimed) | models.Q(claimed_until__gt=claimed + MAX_CLAIM)
        past = models.Q(not_before__lte=now) | models.Q(not_before__gt=now + MAX_PAUSE)
        ended_ahead = models.Q(claim=None, claimed_until__gt=now)
        free = models.Q(claim=None) | expired
        return self.filter(free, models.Q(not_before=None) | past | ended_ahead)

    def waiting_since(self, now: datetime) -> datetime | None:
        """Since when the webhook that has waited longest is due and no worker works on it, or None.

        A webhook whose target is slow or unreachable does not wait: a worker has just worked on it, or will
        when its pause has ended.
        """
        began = list[datetime]()
        for next_at, *ends, changed_at in _fetch(_TIMES, _moments(now)):
            due = [as_aware(next_at)] if next_at is not None else []
            due += [read_compact_time(changed_at)] if changed_at is not None else []
            if due:
                began.append(max([min(due), *(as_aware(end) for end in ends if end is not None)]))
        return min((since for since in began if since < now), default=None)


def _moments(now: datetime) -> list[datetime]:
    """The parameters of :data:`_READY`."""
    claimed = claim_now()
    return [claimed, claimed + MAX_CLAIM, now, now + MAX_PAUSE, now]


def _fetch(statement: str, moments: Sequence[datetime]) -> list[Any]:
    filled = statement.format(is_after=is_after("webhook.transaction_id", "webhook.change_id"))
    return fetch_all(filled, [connection.ops.adapt_datetimefield_value(moment) for moment in moments])


class Webhook(models.Model):
    """A URL, the events that it subscribes to, and its cursor in the project's feed of changes."""

    class State(models.TextChoices):
        ACTIVE = "active", "active"
        PAUSED = "paused", "paused"
        OFF = "off", "switched off"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=2000)
    description = models.CharField(max_length=200, blank=True)
    events = JSONText(default=list)
    """Some of ``EVENTS``; empty: all."""
    state = models.CharField(max_length=6, choices=State, default=State.ACTIVE)
    note = models.CharField(max_length=500, blank=True)
    """Why it was disabled, or which events it missed."""
    created_at = models.DateTimeField(default=timezone.now)
    generation = models.PositiveIntegerField(default=1)
    """The version of the secret, which is derived and not stored, see ``services.webhooks.signing``."""
    rotated_at = models.DateTimeField(null=True)
    transaction_id = models.BigIntegerField(default=0)
    change_id = models.BigIntegerField(default=0)
    """Changes up to here have become deliveries, see :class:`historyapp.models.changes.Cursor`."""
    next_at = models.DateTimeField(null=True)
    """When the next delivery is due. Null: no delivery waits."""
    not_before = models.DateTimeField(null=True)
    """No delivery is sent before this time, because the last attempts failed."""
    failures = models.PositiveIntegerField(default=0)
    """The number of failed attempts since the last success."""
    failing_since = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    claim = models.UUIDField(null=True)
    """The id of a worker's claim."""
    claimed_until = models.DateTimeField(null=True)
    """When the claim expires, see :func:`historyapp.models.database_clock.claim_now`. Without a claim: when
    the last one ended, by the database's clock."""

    objects = WebhookQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("state", "project"), name="webhook_by_state"),)

    def __str__(self) -> str:
        return self.url

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.transaction_id, self.change_id)

    @property
    def selected_events(self) -> Sequence[str]:
        """The events that it subscribes to."""
        return self.events or EVENTS

    def generations(self, now: datetime) -> list[int]:
        """The versions of the secrets that sign: the current one, and for a day after a rotation the previous
        one.
        """
        if self.rotated_at is not None and now < self.rotated_at + BOTH_SECRETS:
            return [self.generation, self.generation - 1]
        return [self.generation]


class DeliveryQuerySet(models.QuerySet["WebhookDelivery"]):
    def pending(self, webhook: Webhook) -> Self:
        return self.filter(webhook=webhook, state=WebhookDelivery.State.PENDING)

    def due(self, now: datetime) -> Self:
        """Only failed attempts make a delivery wait. If the clock was set back, its time may be too late.

        See :data:`RETRY_SECONDS` and :data:`MAX_PAUSE` for the longest waits.
        """
        due = models.Q(due_at__lte=now) | models.Q(retries=0)
        for retries, seconds in enumerate(RETRY_SECONDS, start=1):
            longest = max(timedelta(seconds=seconds), MAX_PAUSE)
            due |= models.Q(retries=retries, due_at__gt=now + longest)
        return self.filter(due)

    def first_of_sessions(self, webhook: Webhook) -> Self:
        """The oldest pending delivery of each session. Later deliveries wait for it."""
        oldest = self.pending(webhook).order_by().values("session").annotate(first=Min("pk")).values("first")
        return self.filter(pk__in=oldest)


class WebhookDelivery(models.Model):
    """One event for one webhook: the message and the attempts to send it."""

    class State(models.TextChoices):
        PENDING = "pending", "pending"
        SUCCEEDED = "succeeded", "delivered"
        FAILED = "failed", "failed"

    message_id = models.UUIDField(default=uuid7, unique=True, editable=False)
    """The ``webhook-id`` header, the same in every attempt. The primary key gives the order."""
    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries", db_index=False)
    event = models.CharField(max_length=40)
    key = models.CharField(max_length=200)
    """Identifies the event, so that it never becomes two deliveries."""
    session = models.UUIDField(null=True)
    """Deliveries of one session are sent in order. Not a foreign key: the test event has no session."""
    body = PackedText()
    state = models.CharField(max_length=9, choices=State, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    retries = models.PositiveIntegerField(default=0)
    """The number of failed attempts since it was created or redelivered manually."""
    due_at = models.DateTimeField(default=timezone.now)
    log = PackedJSON(default=list)
    """The newest attempts, oldest first: ``at``, ``status``, ``milliseconds``, ``error``, ``answer``."""
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("webhook", "key"), name="delivery_once"),)
        indexes = (
            models.Index(fields=("webhook", "id"), name="delivery_by_webhook"),
            models.Index(fields=("webhook", "state", "session", "id"), name="delivery_by_session"),
            models.Index(fields=("session",), name="delivery_of_session"),
            models.Index(fields=("created_at",), name="delivery_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.event} {self.state}"

    @property
    def message(self) -> str:
        return f"msg_{self.message_id.hex}"
