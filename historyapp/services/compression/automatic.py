"""Runs that a session's settings start.

The session row holds the step and token counts at which a run may be due, so that an append only compares.
Workers look for sessions that are due, decide, and set the next counts.
"""

import logging
from uuid import UUID

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Session
from historyapp.models.compressions import AUTOMATIC
from historyapp.models.history import History
from historyapp.services.compression.start import RunRequest, start_run
from historyapp.services.transactions import writing

log = logging.getLogger(__name__)

THRESHOLDS = ("compressed_to", "compress_at", "compress_at_tokens", "compression_due")
"""Columns of the session."""
AT_ONCE = 100
"""Sessions that one query finds."""


def set_thresholds(session: Session) -> None:
    """Computes ``THRESHOLDS`` from the settings and from what has been compressed. The caller saves them."""
    settings = load_settings(session.settings)
    session.compressed_to = min(session.compressed_to, session.steps)
    session.compression_due = False
    session.compress_at = session.compress_at_tokens = None
    if not settings.compress_automatically:
        return
    session.compress_at = session.compressed_to + settings.detailed_steps + settings.compression_batch_size
    share = _token_share(settings, session.model)
    if share is not None:
        session.compress_at_tokens = _tokens_to(session, session.compressed_to) + share


def _token_share(settings: SessionSettings, model: str) -> int | None:
    """Tokens older than the newest steps that make a run due; None: their number does not matter."""
    budget = settings.budget(model)
    if settings.compression_share is None or budget is None:
        return None
    return max(1, round(settings.compression_share * budget))


def _tokens_to(session: Session, step: int) -> int:
    """Of the live history up to the end of a step; 0 for step 0."""
    return History(session).row(step).total_tokens if step else 0


def set_thresholds_after(session: Session, run: CompressionRun) -> None:
    """Computes and saves ``THRESHOLDS`` when a run has ended."""
    left = run.items.filter(level__lt=3).exclude(state=CompressionItem.State.DONE)
    failed = left.order_by("number").first() if run.automatic else None
    if failed is not None:
        session.compressed_to = min(session.compressed_to, failed.first_step - 1)
    set_thresholds(session)
    if session.compress_at is not None and failed is not None:
        # Failed items are retried with the next steps, not at once and for ever.
        settings = load_settings(session.settings)
        session.compress_at = session.steps + settings.compression_batch_size
        session.compress_at_tokens = None
    elif session.compress_at is not None and session.status == Session.Status.LIVE:
        tokens = session.compress_at_tokens
        by_tokens = tokens is not None and session.tokens >= tokens
        session.compression_due = by_tokens or session.steps >= session.compress_at
    session.save(update_fields=THRESHOLDS)


def due_sessions() -> list[UUID]:
    """Sessions that may be due, at most ``AT_ONCE``."""
    return list(Session.objects.filter(compression_due=True).values_list("pk", flat=True)[:AT_ONCE])


def compress_if_due(session_id: UUID) -> CompressionRun | None:
    """Starts the run that a session's settings ask for now; None when they ask for none."""
    with writing():
        sessions = Session.objects.select_for_update(of=("self",)).select_related("project")
        session = sessions.filter(pk=session_id).first()
        if session is None or not session.compression_due:
            return None
        run = None
        if not session.compression_runs.active().filter(trial=False).exists():
            run = _start(session)
        session.compression_due = False  # an active run sets the thresholds when it ends
        session.save(update_fields=THRESHOLDS)
        return run


def _start(session: Session) -> CompressionRun | None:
    settings = load_settings(session.settings)
    set_thresholds(session)
    if not settings.compress_automatically or session.status == Session.Status.ARCHIVED:
        return None
    try:
        first, last = _range(session, settings)
        if first > last:
            return None
        request = RunRequest(from_step=first, to_step=last)
        run = start_run(session.project, session.pk, request, actor=AUTOMATIC, automatic=True).run
    except (Invalid, Conflict) as error:
        log.warning("Session %s cannot be compressed automatically: %s", session.pk, error.detail)
        session.compress_at = session.compress_at_tokens = None  # until its settings change
        return None
    session.compressed_to = last
    set_thresholds(session)
    return run


def _range(session: Session, settings: SessionSettings) -> tuple[int, int]:
    """The first and last step to compress now; the first is after the last when there are too few."""
    history, first = History(session), session.compressed_to + 1
    last = session.steps - settings.detailed_steps
    newest = history.tail.step
    if newest is not None and newest.status == "in_flight":
        last = min(last, session.steps - 1)
    count, batch = last - first + 1, settings.compression_batch_size
    if count >= batch:
        strategy = STRATEGIES.get(settings.compression_strategy)
        whole = strategy is not None and strategy.covers == "batch"
        return first, last - count % batch if whole else last
    share = _token_share(settings, session.model)
    if count <= 0 or share is None:
        return 1, 0
    missing = share - (_tokens_to(session, last) - _tokens_to(session, first - 1))
    if missing > 0:
        session.compress_at_tokens = session.tokens + missing
        return 1, 0
    return first, last
