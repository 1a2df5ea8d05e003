"""API keys with their scopes, and sign-in links."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.fields import JSONText
from historyapp.models.projects import Project

SCOPES = ("read", "write", "admin", "spend")


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime) -> "ApiKeyQuerySet":
        """Keys that are neither revoked nor expired."""
        unexpired = models.Q(expires_at=None) | models.Q(expires_at__gt=now)
        return self.filter(unexpired, revoked_at=None)


class ApiKey(models.Model):
    """An agent's API key. Only its hash is stored; the prefix identifies it to users."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16)
    key_hash = models.CharField(max_length=64, unique=True)
    """SHA-256 in hex. Keys have 32 random bytes, so a slow hash would not add security."""
    scopes = JSONText(default=list)
    """Some of ``SCOPES``."""
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    """Null: never."""
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    """Updated once a minute, so that not every request writes."""

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def problem(self, now: datetime) -> str:
        """Why the key can no longer be used, to follow its name in a sentence; empty if it can."""
        if self.revoked_at is not None:
            return "has been revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return f"expired at {self.expires_at.isoformat()}"
        return ""


class SignInLink(models.Model):
    """A link that signs a person in once within 15 minutes. Only a hash of its token is stored."""

    token_hash = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, models.CASCADE)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.user}"
