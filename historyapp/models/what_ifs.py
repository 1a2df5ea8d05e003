"""Saved What ifs: named settings for building a context, for every session of a project."""

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.projects import Project

MAX_WHAT_IFS = 100
"""The maximum number of What ifs of one project: the panel lists all of them."""
MAX_NAME = 100
"""Characters."""
MAX_TOKENS = 2_000_000
"""The largest budget of a What if, in tokens: twice the largest window of a model."""


class WhatIf(models.Model):
    """A policy, budget, format and model for contexts. An empty field stands for the session's setting."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="what_ifs", db_index=False)
    name = models.CharField(max_length=MAX_NAME)
    policy = models.CharField(max_length=50, blank=True)
    max_tokens = models.PositiveIntegerField(null=True)
    """Null: the session's budget."""
    format = models.CharField(max_length=50, blank=True)
    model = models.CharField(max_length=200, blank=True)
    actor = models.CharField(max_length=200, blank=True)
    """The actor that saved it last."""
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="what_if_by_name"),)

    def __str__(self) -> str:
        return self.name
