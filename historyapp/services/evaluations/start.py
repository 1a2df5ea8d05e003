"""Starts, finds, cancels and deletes evaluations of policies and budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.policies import POLICIES, policy_named
from historyapp.models import EvaluatedSession, Evaluation, Project, Session
from historyapp.models.database_clock import claim_end, database_now
from historyapp.models.evaluations import MAX_BUDGETS, MAX_EVALUATED, MAX_RUNNING
from historyapp.models.what_ifs import MAX_TOKENS
from historyapp.services.append import hold_sessions
from historyapp.services.evaluations.results import compute_results, end_evaluation
from historyapp.services.short_transactions import short_transaction
from historyapp.services.transactions import writing

DEFAULT_BUDGETS = (2000, 8000)
MIN_BUDGET = 200
"""Tokens. Hardly any context is smaller."""
KEPT_FOR = timedelta(days=365)
"""Older evaluations are deleted."""
"""Evaluations of one deletion, with up to 2,000 sessions. Agents wait for each transaction."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The sessions, policies and budgets to evaluate."""

    sessions: Sequence[UUID]
    budgets: Sequence[int] = DEFAULT_BUDGETS
    policies: Sequence[str] = ()
    """Empty: all policies."""
    model: str = ""
    """The model whose tokens and prices apply. Empty: each session's own model."""


def start_evaluation(project: Project, request: EvaluationRequest, *, actor: str = "") -> Evaluation:
    """Stores an evaluation for workers to carry out.

    Raises:
        Invalid: for no sessions or too many, sessions that the project does not have, an unknown policy, and
            budgets that are too many, too small or too large.
        Conflict: when too many evaluations of the project are running.
    """
    sessions = _check_sessions(project, request.sessions)
    evaluation = Evaluation(
        project=project,
        policies=[policy_named(name).name for name in dict.fromkeys(request.policies)] or list(POLICIES),
        budgets=_check_budgets(request.budgets),
        model=request.model[:200],
        actor=actor[:200],
    )
    with writing():
        hold_sessions(project.pk, sessions)  # a stored response has their titles
        project.locked()
        if project.count_in(Evaluation.objects.active()) >= MAX_RUNNING:
            raise Conflict(
                f"{MAX_RUNNING} evaluations of this project are running. Wait for one to finish, or cancel "
                "one."
            )
        evaluation.save(force_insert=True)
        EvaluatedSession.objects.bulk_create(
            EvaluatedSession(evaluation=evaluation, number=number, session_id=id)
            for number, id in enumerate(sessions, 1)
        )
    return evaluation


def _check_sessions(project: Project, sessions: Sequence[UUID]) -> list[UUID]:
    unique = list(dict.fromkeys(sessions))
    if not unique:
        raise Invalid("No session is chosen. Choose at least one.")
    if len(unique) > MAX_EVALUATED:
        raise Invalid(
            f"An evaluation reads at most {MAX_EVALUATED} sessions; this one names {len(unique):,}. Choose "
            "fewer."
        )
    existing = set(Session.objects.filter(project=project, pk__in=unique).values_list("pk", flat=True))
    missing = [str(id) for id in unique if id not in existing]
    if missing:
        raise Invalid(
            f"The project has no session {missing[0]}"
            + (f", and {len(missing) - 1} more are missing." if len(missing) > 1 else ".")
            + " Name sessions of one project.",
            missing=missing,
        )
    return unique


def _check_budgets(budgets: Sequence[int]) -> list[int]:
    unique = sorted(set(budgets))
    if not 1 <= len(unique) <= MAX_BUDGETS:
        raise Invalid(f"An evaluation has 1 to {MAX_BUDGETS} budgets; this one has {len(unique)}.")
    invalid = [budget for budget in unique if not MIN_BUDGET <= budget <= MAX_TOKENS]
    if invalid:
        raise Invalid(
            f"A budget must be from {MIN_BUDGET} to {MAX_TOKENS:,} tokens; this one has {invalid[0]:,}.",
            budgets=invalid,
        )
    return unique


def find_evaluation(project: Project, id: UUID) -> Evaluation:
    """The project's evaluation. Raises ``NotFound`` when there is none with this id."""
    evaluation = Evaluation.objects.filter(project=project, pk=id).first()
    if evaluation is None:
        raise NotFound(f"There is no evaluation {id}.")
    return evaluation


def cancel_evaluation(evaluation: Evaluation) -> Evaluation:
    """Cancels an evaluation. The measured steps are kept.

    Raises:
        Conflict: when the evaluation has already ended.
    """
    with writing():
        _lock_running(evaluation.pk)
        waiting = evaluation.items.filter(state=EvaluatedSession.State.WAITING)
        waiting.update(claim=uuid7(), claimed_until=claim_end())  # so that no worker measures them meanwhile
    results = compute_results(evaluation)
    with writing():
        evaluation = _lock_running(evaluation.pk)
        sessions = evaluation.items.values_list("session_id", flat=True)
        hold_sessions(evaluation.project_id, list(sessions))  # as in start_evaluation
        end_evaluation(evaluation, Evaluation.State.CANCELLED, results)
    return evaluation


def _lock_running(evaluation_id: UUID) -> Evaluation:
    evaluation = Evaluation.objects.select_for_update().get(pk=evaluation_id)
    if evaluation.state != Evaluation.State.RUNNING:
        raise Conflict("There is nothing to cancel: the evaluation has ended.", state=evaluation.state)
    return evaluation


def prune_evaluations() -> None:
    """Deletes evaluations that were started long ago and have ended, each in a transaction of its own."""
    old = Evaluation.objects.exclude(state=Evaluation.State.RUNNING).filter(
        created_at__lt=database_now() - KEPT_FOR
    )
    for id in list(old.values_list("pk", flat=True)):
        with short_transaction():
            Evaluation.objects.filter(pk=id).delete()
