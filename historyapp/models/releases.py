"""The versions of Playhead that migrated the database, so that an older version can name the needed one."""

from django.db import models
from django.utils import timezone


class Release(models.Model):
    """A version of Playhead that migrated this database."""

    version = models.CharField(max_length=40, primary_key=True)
    migrated_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.version
