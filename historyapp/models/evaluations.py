"""Evaluations of policies and budgets on recorded sessions. The rows store what is left to do, so any worker
can continue."""

from collections import Counter
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.evaluation.figures import Choice, StepFigures
from historyapp.models.compressions import MAX_CLAIM
from historyapp.models.fields import JSONText
from historyapp.models.projects import Project

MAX_EVALUATED = 100
"""The maximum number of sessions of one evaluation: a session takes about two seconds of processor time."""
MAX_BUDGETS = 4
"""The maximum number of budgets of one evaluation."""
MAX_RUNNING = 5
"""The maximum number of evaluations of one project that run at the same time."""


class EvaluationQuerySet(models.QuerySet["Evaluation"]):
    def active(self) -> Self:
        """Evaluations that a worker has not finished."""
        return self.filter(state=Evaluation.State.RUNNING)

    def newest(self, limit: int) -> list[tuple["Evaluation", Counter[str]]]:
        """The newest evaluations, each with the number of its sessions in each state.

        The sessions of other evaluations are not read: a project keeps thousands of evaluations.
        """
        evaluations = list(self.order_by("-id")[:limit])
        counts = {evaluation.pk: Counter[str]() for evaluation in evaluations}
        items = EvaluatedSession.objects.filter(evaluation__in=counts).order_by()
        states = items.values_list("evaluation", "state").annotate(models.Count("pk"))
        for id, state, count in states:
            counts[id][state] = count
        return [(evaluation, counts[evaluation.pk]) for evaluation in evaluations]


class Evaluation(models.Model):
    """One request to compare policies and budgets on some sessions of a project."""

    class State(models.TextChoices):
        RUNNING = "running", "running"
        FINISHED = "finished", "finished"
        CANCELLED = "cancelled", "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    policies = JSONText(default=list)
    budgets = JSONText(default=list)
    """In tokens, ascending."""
    model = models.CharField(max_length=200, blank=True)
    """The model whose tokens and prices apply. Empty: each session's own."""
    state = models.CharField(max_length=9, choices=State, default=State.RUNNING)
    actor = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    prices_as_of = models.CharField(max_length=40, blank=True)
    """The date of the price list when it ended."""
    results = JSONText(null=True)
    """The figures over all measured sessions. Null until it has ended; see
    :func:`historyapp.services.evaluations.results.compute_results`."""

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        indexes = (
            models.Index(fields=("project", "-id"), name="evaluation_newest"),
            models.Index(fields=("id",), name="evaluation_running", condition=models.Q(state="running")),
        )

    def __str__(self) -> str:
        return f"{', '.join(self.policies)} ({self.state})"

    @property
    def choices(self) -> list[Choice]:
        """Every policy with every budget."""
        return [Choice(policy, budget) for budget in self.budgets for policy in self.policies]


class EvaluatedQuerySet(models.QuerySet["EvaluatedSession"]):
    def claimable(self, now: datetime) -> Self:
        """Waiting sessions, and sessions with an expired claim."""
        expired = models.Q(claimed_until__lt=now) | models.Q(claimed_until__gt=now + MAX_CLAIM)
        free = models.Q(claim=None) | expired
        return self.filter(free, state=EvaluatedSession.State.WAITING).order_by("number")


class EvaluatedSession(models.Model):
    """One session of an evaluation: the figures of the measured steps."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DONE = "done", "done"
        SKIPPED = "skipped", "skipped"
        FAILED = "failed", "failed"

    evaluation = models.ForeignKey(Evaluation, models.CASCADE, related_name="items", db_index=False)
    number = models.PositiveSmallIntegerField()
    """1, 2, 3 … within the evaluation."""
    session_id = models.UUIDField()
    """Not a foreign key: the session may be deleted."""
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    """``waiting`` until all its steps are measured."""
    reason = models.CharField(max_length=1000, blank=True)
    """Why it was skipped or failed, or what the figures leave out."""
    head = models.PositiveIntegerField(null=True)
    """The session's head when its evaluation began. It is read as of this position."""
    model = models.CharField(max_length=200, blank=True)
    """The model whose prices were used; empty if its price is unknown."""
    steps = models.PositiveSmallIntegerField(default=0)
    """The number of steps to measure, 0 before it starts."""
    figures = JSONText(default=dict)
    """The figures of the measured steps, by step number and by the key of the choice."""
    claim = models.UUIDField(null=True)
    """The claim of the worker that measures it."""
    claimed_until = models.DateTimeField(null=True)

    objects = EvaluatedQuerySet.as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("evaluation", "number"), name="evaluated_once"),)

    def __str__(self) -> str:
        return f"{self.session_id}: {self.state}"

    @property
    def measured(self) -> int:
        """The number of measured steps."""
        return len(self.figures)

    def figures_of(self, choice: Choice) -> list[StepFigures]:
        """The figures of a choice, for each measured step in their order."""
        stored: dict[str, Any] = self.figures
        return [StepFigures(*stored[step][choice.key]) for step in sorted(stored, key=int)]
