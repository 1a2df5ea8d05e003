"""Running totals that all processes share, so that ``/metrics`` does not have to sum rows."""

from django.db import models


class Total(models.Model):
    """One total since the database was created. It only grows."""

    class Name(models.TextChoices):
        ENDED_RUNS = "ended runs"
        """By state. A retried run is counted again when it ends."""
        MODEL_CALLS = "model calls"
        """By purpose and provider, including failed model calls."""
        FAILED_MODEL_CALLS = "failed model calls"
        """Model calls of ``POST /calls``. Runs count failed items instead."""
        COST = "cost"
        """In millionths of a dollar, as the spending counters have it. Model calls without a known price are
        left out, and those that still run."""

    name = models.CharField(max_length=40, choices=Name)
    label = models.CharField(max_length=100)
    """The counted kind: a state, or a purpose and a provider."""
    value = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("name", "label"), name="total_once"),)

    def __str__(self) -> str:
        return f"{self.name} ({self.label}): {self.value}"
