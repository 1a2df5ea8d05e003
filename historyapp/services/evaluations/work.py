"""Carries out evaluations. Each measured step is stored at once, so a worker may die at any time.

A worker claims a session, measures it outside of transactions, and extends its claim while it works. Another
worker continues after the claim has expired, and does not measure any step again. A worker whose claim has
ended, because the evaluation was cancelled or another worker has the session, stops within seconds.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from uuid_utils.compat import uuid7

from historyapp.core.errors import PlayheadError
from historyapp.models import EvaluatedSession, Evaluation, Session
from historyapp.models.database_clock import claim_end, claim_now
from historyapp.models.projects import PURGED
from historyapp.services.evaluations.measuring import SessionEvaluation
from historyapp.services.evaluations.results import compute_results, end_evaluation
from historyapp.services.faults import concerns_data
from historyapp.services.lost_claims import end_claim
from historyapp.services.transactions import writing
from historyapp.wire.problems import StorageFailed

log = logging.getLogger(__name__)

SESSION_DELETED = "The session was deleted."
NO_IDENTIFIERS = "No step after the sixth uses an identifier that the agent had read before."
SERVER_FAILED = "The server failed to measure this session. The reason is in the server's log."
_CHECK_SECONDS = 1.0
"""Seconds between two checks whether the claim is valid."""


class _ClaimEnded(Exception):
    """The evaluation was cancelled or deleted, or another worker has claimed the session."""


def process_evaluation(evaluation_id: UUID, should_stop: Callable[[], bool]) -> bool:
    """Works on an evaluation. Returns whether there is more work that this worker can do now.

    Args:
        should_stop: called after each measured step.
    """
    while (item := claim(evaluation_id)) is not None:
        has_ended = False
        try:
            has_ended = _evaluate(item, should_stop)
        finally:
            if not has_ended:
                end_claim(partial(_release, item))
        if not has_ended:
            return True
        if should_stop():
            break
    return not _finish(evaluation_id) and _next_claimable(evaluation_id, claim_now()) is not None


def _evaluate(item: EvaluatedSession, should_stop: Callable[[], bool]) -> bool:
    """Measures a claimed session. Returns whether it has ended, also by an error that it caused."""
    try:
        return _measure(item, should_stop)
    except _ClaimEnded:
        return True
    except PlayheadError as error:
        if isinstance(error, StorageFailed):
            raise
        return _end(item, EvaluatedSession.State.FAILED, error.detail)
    except Exception as error:  # the other sessions must not wait for it
        if not concerns_data(error):
            raise
        log.exception("Session %s cannot be evaluated.", item.session_id)
        if Session.objects.filter(pk=item.session_id).exclude(project=PURGED).exists():
            return _end(item, EvaluatedSession.State.FAILED, SERVER_FAILED)
        # it was deleted meanwhile
        return _end(item, EvaluatedSession.State.SKIPPED, SESSION_DELETED)


def _release(item: EvaluatedSession) -> None:
    with writing():
        claimed = EvaluatedSession.objects.filter(pk=item.pk, claim=item.claim)
        claimed.update(claim=None, claimed_until=None)


def _next_claimable(evaluation_id: UUID, now: datetime) -> EvaluatedSession | None:
    items = EvaluatedSession.objects.claimable(now).filter(evaluation_id=evaluation_id)
    return items.filter(evaluation__state=Evaluation.State.RUNNING).select_related("evaluation").first()


def claim(evaluation_id: UUID) -> EvaluatedSession | None:
    with writing():
        if not Evaluation.objects.select_for_update().filter(pk=evaluation_id).exists():
            return None
        item = _next_claimable(evaluation_id, claim_now())
        if item is not None:
            item.claim, item.claimed_until = uuid7(), claim_end()
            item.save(update_fields=("claim", "claimed_until"))
    return item


def _measure(item: EvaluatedSession, should_stop: Callable[[], bool]) -> bool:
    """Measures the steps of a session that are not measured yet. Returns whether the session has ended."""
    states = EvaluatedSession.State
    session = Session.objects.filter(pk=item.session_id, project=item.evaluation.project_id).first()
    if session is None:
        return _end(item, states.SKIPPED, SESSION_DELETED)
    if item.head is None:
        item.head = session.head
    evaluation = item.evaluation
    evaluated = SessionEvaluation(
        session, item.head, evaluation.choices, model=evaluation.model, keep_alive=claim_check(item)
    )
    read = evaluated.read
    note = "" if read.is_whole else f"Only its first {len(read.episodes):,} steps were read."
    if not evaluated.steps:
        return _end(item, states.SKIPPED, f"{NO_IDENTIFIERS} {note}".rstrip())
    item.steps = len(evaluated.steps)
    item.model = evaluated.model if evaluated.price else ""
    is_resumed = bool(item.figures)
    for step in evaluated.steps:
        if str(step) in item.figures:
            continue
        item.figures[str(step)] = evaluated.measure(step)
        if not _store(item, head=item.head, steps=item.steps, model=item.model, figures=item.figures):
            return True  # the evaluation was cancelled, or another worker has claimed the session
        if should_stop() and len(item.figures) < item.steps:
            return False
    if not Session.objects.filter(pk=session.pk, project=session.project_id).exists():
        return _end(item, states.SKIPPED, SESSION_DELETED)
    if all(figures.refused for choice in item.evaluation.choices for figures in item.figures_of(choice)):
        for step in evaluated.steps if is_resumed else ():
            evaluated.measure(step)  # computes the smallest budget, which is not stored
        reason = f"All budgets are too small for this session; use at least {evaluated.smallest:,}."
        return _end(item, states.SKIPPED, reason)
    return _end(item, states.DONE, note)


def claim_check(item: EvaluatedSession) -> Callable[[], None]:
    """Returns a function that raises :class:`_ClaimEnded` if the claim is no longer valid.

    It extends the claim when a third of its time has passed, because some steps take longer than a claim.
    """
    checked_at = renewed_at = time.monotonic()

    def check() -> None:
        nonlocal checked_at, renewed_at
        now = time.monotonic()
        if now - renewed_at >= settings.PLAYHEAD_CLAIM_SECONDS / 3:
            is_valid, renewed_at = _store(item), now
        elif now - checked_at >= _CHECK_SECONDS:
            is_valid = _claimed(item).exists()
        else:
            return
        checked_at = now
        if not is_valid:
            raise _ClaimEnded

    return check


def _claimed(item: EvaluatedSession) -> QuerySet[EvaluatedSession]:
    """The row of a session, unless its claim is no longer valid."""
    running = EvaluatedSession.objects.filter(evaluation__state=Evaluation.State.RUNNING)
    return running.filter(pk=item.pk, claim=item.claim)


def _store(item: EvaluatedSession, **columns: object) -> bool:
    """Stores columns of a claimed session and extends the claim. Returns whether the claim was still
    valid."""
    with writing():
        return bool(_claimed(item).update(claimed_until=claim_end(), **columns))


def _end(item: EvaluatedSession, state: str, reason: str) -> bool:
    figures = {} if reason == SESSION_DELETED else item.figures
    _store(item, state=state, reason=reason[:1000], figures=figures)
    return True


def _finish(evaluation_id: UUID) -> bool:
    """Ends the evaluation if all its sessions have ended. Returns whether it has ended."""
    evaluation = Evaluation.objects.filter(pk=evaluation_id).first()
    if evaluation is None or evaluation.state != Evaluation.State.RUNNING:
        return True
    if evaluation.items.filter(state=EvaluatedSession.State.WAITING).exists():
        return False
    results = compute_results(evaluation)  # a session that has ended is not measured again
    with writing():
        locked = Evaluation.objects.select_for_update().filter(pk=evaluation_id).first()
        if locked is not None and locked.state == Evaluation.State.RUNNING:
            end_evaluation(locked, Evaluation.State.FINISHED, results)
    return True
