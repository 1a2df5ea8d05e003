"""Running totals that all processes share, so that ``/metrics`` sums nothing."""

from django.db import models


class Total(models.Model):
    """One total since the database was created. It only grows."""

    class Name(models.TextChoices):
        ENDED_RUNS = "ended runs"
        """By state. A run that is retried ends again."""
        MODEL_CALLS = "model calls"
        """By purpose and provider, failed ones included."""
        FAILED_MODEL_CALLS = "failed model calls"
        """Those of ``POST /calls``; a run counts failed items instead."""
        COST = "cost"
        """In millionths of a dollar, where the price is known."""

    name = models.CharField(max_length=40, choices=Name)
    label = models.CharField(max_length=100)
    """What is counted: a state, or a purpose and a provider."""
    value = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("name", "label"), name="total_once"),)

    def __str__(self) -> str:
        return f"{self.name} ({self.label}): {self.value}"
