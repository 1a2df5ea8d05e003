"""Compression that starts by itself, as a session's settings wish."""

import logging
from uuid import UUID

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Session
from historyapp.models.history import History
from historyapp.services.compression.marks import MARKS, arm, tokens_to, wanted_tokens
from historyapp.services.compression.starting import RunWish, start_run
from historyapp.services.transactions import writing

log = logging.getLogger(__name__)

AT_ONCE = 100
"""Sessions that one look finds."""


def rearm(session: Session, run: CompressionRun) -> None:
    """Sets the marks after a run has ended, and saves them."""
    left = run.items.filter(level__lt=3).exclude(state=CompressionItem.State.DONE)
    failed = left.order_by("number").first()
    if run.automatic and failed is not None:
        session.compressed_to = min(session.compressed_to, failed.first_step - 1)
    arm(session)
    if session.compress_at is not None and run.automatic and failed is not None:
        # What failed is tried again with the next steps, not at once and for ever.
        settings = load_settings(session.settings)
        session.compress_at = session.steps + settings.compression_batch_size
        session.compress_at_tokens = None
    elif session.compress_at is not None and session.status == Session.Status.LIVE:
        tokens = session.compress_at_tokens
        session.compression_due = session.steps >= session.compress_at or (
            tokens is not None and session.tokens >= tokens
        )
    session.save(update_fields=MARKS)


def due_sessions() -> list[UUID]:
    """Some sessions whose steps want compression."""
    return list(Session.objects.filter(compression_due=True).values_list("pk", flat=True)[:AT_ONCE])


def compress_if_due(session_id: UUID) -> CompressionRun | None:
    """Starts the run that a session's settings want now; None when they want none."""
    with writing():
        sessions = Session.objects.select_for_update(of=("self",)).select_related("project")
        session = sessions.filter(pk=session_id).first()
        if session is None or not session.compression_due:
            return None
        run = None
        if not session.compression_runs.active().filter(trial=False).exists():
            run = _start(session)
        session.compression_due = False  # a run that is under way sets the marks when it ends
        session.save(update_fields=MARKS)
        return run


def _start(session: Session) -> CompressionRun | None:
    settings = load_settings(session.settings)
    arm(session)
    if not settings.compress_automatically or session.status == Session.Status.ARCHIVED:
        return None
    try:
        first, last = _range(session, settings)
        if first > last:
            return None
        wish = RunWish(from_step=first, to_step=last)
        run = start_run(session.project, session.pk, wish, actor="automatic", automatic=True).run
    except (Invalid, Conflict) as error:
        log.warning("Session %s cannot be compressed by itself: %s", session.pk, error.detail)
        session.compress_at = session.compress_at_tokens = None  # until its settings change
        return None
    session.compressed_to = last
    arm(session)
    return run


def _range(session: Session, settings: SessionSettings) -> tuple[int, int]:
    """The steps to compress now; the first after the last when there are too few of them."""
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
    wanted = wanted_tokens(settings, session.model)
    if count <= 0 or wanted is None:
        return 1, 0
    missing = wanted - (tokens_to(session, last) - tokens_to(session, first - 1))
    if missing > 0:
        session.compress_at_tokens = session.tokens + missing
        return 1, 0
    return first, last
