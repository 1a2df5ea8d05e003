"""Share links: read-only links to a session, or to a moment of it."""

from datetime import datetime

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.sessions import Session
from historyapp.models.visibility import Visibility

MOST_SHARES = 100
"""The most usable links of one session."""
LONGEST_DAYS = 365
"""The longest time for which a link can be opened."""


class ShareQuerySet(models.QuerySet["ShareLink"]):
    def usable(self, now: datetime) -> "ShareQuerySet":
        """Links that are neither revoked nor expired."""
        return self.filter(revoked_at=None, expires_at__gt=now)


class ShareLink(models.Model):
    """A link that shows a session to whoever has it. It goes with its session.

    Its token is not stored: it is the id, signed with ``SECRET_KEY``.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="shares")
    as_of = models.PositiveIntegerField(null=True)
    """The link shows the session as it was at this position. Null: as it is, and as it grows."""
    with_takes = models.BooleanField(default=False)
    """Whether the link shows what rewinds cut off."""
    with_inputs = models.BooleanField(default=False)
    """Whether the link shows inputs, system instructions and other text that people wrote."""
    actor = models.CharField(max_length=200, blank=True)
    """Who made it: ``user:name`` or ``key:prefix``."""
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_opened_at = models.DateTimeField(null=True)
    opened = models.PositiveIntegerField(default=0)
    """How often its page was opened."""

    objects = ShareQuerySet.as_manager()

    def __str__(self) -> str:
        return f"link to {self.session_id}"

    @property
    def visible(self) -> Visibility:
        """What it shows."""
        return Visibility(self.with_takes, self.with_inputs)

    @property
    def state(self) -> str:
        """``usable``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "usable" if self.expires_at > timezone.now() else "expired"
