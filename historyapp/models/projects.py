"""Projects (the tenants), their members, API keys and sign-in links."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.fields import JSONText

SCOPES = ("read", "write", "admin", "spend")


class Project(models.Model):
    """Sessions and API keys belong to one project, and every query is scoped to it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")
    paid_automatic_compression = models.BooleanField(default=False)
    """Whether automatic compression may call a provider's model."""
    allowed_models = JSONText(default=list)
    """The allowed models, with or without the provider prefix. Empty: all."""
    summary_instruction = JSONText(default=str)
    """What ``ai_summary`` asks of the model in sessions without their own. Empty: the default."""

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person in a project. Owners may also manage keys and members."""

    project = models.ForeignKey(Project, models.CASCADE)
    user = models.ForeignKey(User, models.CASCADE)
    is_owner = models.BooleanField(default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "user"), name="membership_once"),)

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime) -> "ApiKeyQuerySet":
        """Keys that are neither revoked nor expired."""
        unexpired = models.Q(expires_at=None) | models.Q(expires_at__gt=now)
        return self.filter(unexpired, revoked_at=None)


class ApiKey(models.Model):
    """An agent's API key. Only its hash is stored; the prefix tells people which key it is."""

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

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class SignInLink(models.Model):
    """A link that signs a person in once within 15 minutes. Only a hash of its token is stored."""

    token_hash = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, models.CASCADE)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.user}"


class AuditRecord(models.Model):
    """The actor and time of a rewind, fork, export, import, purge, or change of a key or status."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE)
    created_at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=200)
    """``user:name`` or ``key:prefix``."""
    action = models.CharField(max_length=50)
    session = models.UUIDField(null=True)
    """Not a foreign key: the record stays when the session is deleted."""
    detail = JSONText(default=dict)

    class Meta:
        indexes = (models.Index(fields=("project", "-created_at"), name="audit_by_time"),)

    def __str__(self) -> str:
        return f"{self.actor} {self.action}"


class IdempotencyKey(models.Model):
    """The response to the first POST with a key. An equal request with this key gets the same response."""

    project = models.ForeignKey(Project, models.CASCADE)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    """SHA-256 of method, path and body."""
    status = models.PositiveSmallIntegerField()
    response = models.TextField()
    sessions = models.TextField(null=True)
    """The ids of the affected sessions, separated by spaces. Null in rows of earlier versions."""
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "key"), name="idempotency_key_once"),)

    def __str__(self) -> str:
        return self.key
