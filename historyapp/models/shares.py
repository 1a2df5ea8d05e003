"""Share links: read-only links to a session, live or as of a position."""

from datetime import datetime

from django.db import models
from django.utils import timezone
from django.utils.functional import cached_property
from uuid_utils.compat import uuid7

from historyapp.models.samples import count_steps
from historyapp.models.sessions import Session
from historyapp.models.visibility import Visibility

MAX_SHARES = 100
"""The maximum number of usable links of a session."""
MAX_DAYS = 365
"""The longest lifetime of a link."""


class ShareQuerySet(models.QuerySet["ShareLink"]):
    def usable(self, now: datetime) -> "ShareQuerySet":
        """Links that are neither revoked nor expired."""
        return self.filter(revoked_at=None, expires_at__gt=now)


class ShareLink(models.Model):
    """A link that shows a session to anyone who has it. It is deleted with the session.

    The token is not stored. It is the id, signed with ``SECRET_KEY``.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="shares")
    as_of = models.PositiveIntegerField(null=True)
    """The link shows the session as of this position. Null: the live session."""
    with_takes = models.BooleanField(default=False)
    """Whether the link shows takes."""
    with_inputs = models.BooleanField(default=False)
    """Whether the link shows inputs, system instructions and other texts of people."""
    actor = models.CharField(max_length=200, blank=True)
    """The actor that created it: ``user:name`` or ``key:prefix``."""
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_opened_at = models.DateTimeField(null=True)
    opened = models.PositiveIntegerField(default=0)
    """The number of times that its page was opened."""

    objects = ShareQuerySet.as_manager()

    def __str__(self) -> str:
        return f"link to {self.session_id}"

    @cached_property
    def steps(self) -> int:
        """The number of steps that it shows, without takes."""
        return count_steps(self.session.lineage(self.as_of))

    @property
    def visible(self) -> Visibility:
        """The part of the session that the link shows."""
        return Visibility(self.with_takes, self.with_inputs)

    @property
    def state(self) -> str:
        """``usable``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "usable" if self.expires_at > timezone.now() else "expired"
