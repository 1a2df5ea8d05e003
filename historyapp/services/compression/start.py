"""Starts compression runs, on request or because of a session's settings. Finds, cancels and retries them.

The session row stores the step and token counts at which an automatic run may be due, so an append only
compares numbers. Workers find such sessions, start runs and set the next counts.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.llm.router import LOCAL
from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.models.compressions import AUTOMATIC, RunQuerySet
from historyapp.models.database_clock import claim_now
from historyapp.models.history import History
from historyapp.services.append import check_open, lock_session
from historyapp.services.audit import add_audit_record
from historyapp.services.changes import record_run_change
from historyapp.services.compression.items import reset_failed
from historyapp.services.compression.locks import lock_run
from historyapp.services.compression.request import (
    AcceptedRun,
    ChosenModel,
    ResolvedRequest,
    RunRequest,
    choose_automatic_model,
    resolve_accepted,
    resolve_request,
)
from historyapp.services.disk_space import check_disk_space
from historyapp.services.prices import price_list
from historyapp.services.spending import OPERATOR, Spender, check_model
from historyapp.services.totals import count_ended_run
from historyapp.services.transactions import writing

log = logging.getLogger(__name__)

THRESHOLDS = ("compressed_to", "compress_at", "compress_at_tokens", "compression_due")
"""The columns of a session that say when an automatic run is due."""
MAX_DUE_SESSIONS = 100
MAX_AUTOMATIC_RUNS = 100
"""The maximum number of active automatic runs of a project. Each has rows and a message."""
MAX_UNCLAIMED_RUNS = 100


@dataclass(frozen=True, slots=True)
class RunStart:
    run: CompressionRun
    joined: bool
    """Whether the run was active before this request."""


def start_run(
    project: Project,
    session_id: UUID,
    request: RunRequest,
    *,
    actor: str = "",
    spender: Spender = OPERATOR,
    automatic: bool = False,
    accepted: AcceptedRun | None = None,
) -> RunStart:
    """Stores a run for the workers. If the session has an active run, returns that run.

    Args:
        accepted: what was accepted earlier. The run does not exceed it.

    Raises:
        NotFound: when the project has no such session.
        Invalid: as :func:`resolve_request` or :func:`resolve_accepted`.
        Conflict: when the session is archived, or the run would cost more than was accepted.
        ModelNotAllowed: when the project does not allow the model.
        SpendForbidden: when the run calls a provider's model and the spender may not spend.
        DiskLow: when the disk is nearly full and the run is not automatic.
    """
    if not automatic:
        check_disk_space()
    with writing():
        session = lock_session(project, session_id)
        check_open(session)
        active = session.compression_runs.active().filter(trial=False).first()
        if active is not None:
            return RunStart(active, joined=True)
        if accepted:
            resolved = resolve_accepted(session, request, accepted)
        else:
            resolved = resolve_request(session, request)
        if automatic:
            resolved = replace(resolved, model=choose_automatic_model(resolved.model, project))
        else:
            check_spender(spender, project, resolved)
        flags = {"again": request.again, "automatic": automatic, "api_key": spender.key}
        run = create_run(session, resolved, actor, **flags)
        detail = {"run": str(run.pk), "strategy": run.strategy, "from": run.from_step, "to": run.to_step}
        add_audit_record(project.pk, actor, "compress", session.pk, detail)
        return RunStart(run, joined=False)


def check_spender(spender: Spender, project: Project, resolved: ResolvedRequest) -> None:
    """Checks that the project allows the model of the run and that the spender may spend.

    Raises:
        ModelNotAllowed, SpendForbidden: as :func:`start_run`.
    """
    check_model(project, resolved.model.name)
    if resolved.calls_provider and resolved.steps:
        spender.check(f"This compression with {resolved.model.name}")


def create_run(session: Session, resolved: ResolvedRequest, actor: str, **flags: Any) -> CompressionRun:
    """Stores a run. ``flags``: more columns of the run, such as ``automatic``."""
    steps, model, prices = resolved.steps, resolved.model, price_list()
    run = CompressionRun(
        project_id=session.project_id,
        session=session,
        strategy=resolved.strategy.name,
        model=model.name,
        options=resolved.options,
        note=model.note,
        head=resolved.head,
        from_step=steps.start,
        to_step=steps.stop - 1,
        batch_size=resolved.settings.compression_batch_size,
        cost=0 if not resolved.calls_provider or prices.of(model.name) else None,
        prices_as_of=prices.as_of if resolved.calls_provider else "",
        actor=actor[:200],
        **flags,
    )
    if not steps:
        run.state, run.planned, run.finished_at = run.State.SUCCEEDED, True, timezone.now()
        detailed = resolved.settings.detailed_steps
        run.note = "There is nothing to compress: the session has no steps yet."
        if session.steps:
            run.note = (
                f"There is nothing to compress: all finished steps are among the newest {detailed}, which "
                f"stay in full. Name the steps to compress them too."
            )
    run.save(force_insert=True)
    record_run_change(run)
    if not run.active:
        count_ended_run(run)
    return run


def runs_of(session: Session, as_of: int | None = None) -> RunQuerySet:
    """A session's runs. ``as_of``: those requested up to this position.

    Raises:
        Invalid: when ``as_of`` lies beyond the head.
    """
    session.lineage(as_of)
    runs = CompressionRun.objects.filter(session=session)
    return runs if as_of is None else runs.filter(head__lte=as_of)


def find_run(session: Session, id: UUID, as_of: int | None = None) -> CompressionRun:
    """The session's run with this id.

    Raises:
        NotFound: when the session has no such run, or it was requested after ``as_of``.
        Invalid: when ``as_of`` lies beyond the head.
    """
    run = runs_of(session, as_of).filter(pk=id).first()
    if run is None:
        raise NotFound(f"There is no compression {id} in this session.")
    return run


def cancel_run(run: CompressionRun, *, actor: str = "") -> CompressionRun:
    """Cancels a run. Running model calls are finished and their summaries kept, because they are paid for.

    Raises:
        Conflict: when the run has already ended.
    """
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run.pk)
        if not run.active:
            ended = "was cancelled" if run.state == run.State.CANCELLED else f"has {run.get_state_display()}"
            raise Conflict(f"The compression has already ended: it {ended}.", state=run.state)
        run.state, run.finished_at = run.State.CANCELLED, timezone.now()
        run.note = f"Cancelled with {run.done} of {run.total} summaries made."
        run.note += " They are kept." if run.done else ""
        run.save()
        record_run_change(run)
        detail = {"run": str(run.pk)}
        add_audit_record(run.project_id, actor, "cancel compression", run.session_id, detail)
        count_ended_run(run)
    return run


def retry_run(run: CompressionRun, *, actor: str = "", spender: Spender = OPERATOR) -> CompressionRun:
    """Resumes a run with its failed items, or with the items that were left when it was cancelled.

    Raises:
        Conflict: when the run has not failed, another run of the session is active, or the session is
        archived. ModelNotAllowed: when the project does not allow the model. SpendForbidden: when the run
        calls a provider's model and the spender may not spend. DiskLow: when the disk is nearly full.
    """
    check_disk_space()
    with writing():
        run = lock_run(run.pk)
        session = run.session
        check_open(session)
        if run.active or run.state == run.State.SUCCEEDED:
            raise Conflict("There is nothing to retry: the compression has not failed.", state=run.state)
        if not run.trial and session.compression_runs.active().filter(trial=False).exists():
            raise Conflict("Another compression of this session is running. Try again when it has ended.")
        check_model(session.project, run.model)
        if ChosenModel(run.model).calls_provider:
            spender.check(f"This compression with {run.model}")
        reset_failed(run)  # a worker resets the others before it starts the run
        run.planning_until = None  # a worker that was planning it may not have released its claim
        run.started_at = run.started_at or timezone.now()
        run.state, run.finished_at, run.note = run.State.QUEUED, None, ""
        run.api_key, run.actor = spender.key, actor[:200] or run.actor
        run.prices_as_of = run.prices_as_of and price_list().as_of
        run.save()
        record_run_change(run)
        add_audit_record(session.project_id, actor, "retry compression", session.pk, {"run": str(run.pk)})
    return run


def set_thresholds(session: Session) -> None:
    """Computes ``THRESHOLDS`` from the settings and the last compressed step. The caller saves them."""
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
    """A run is due when the steps before the newest have this many tokens; None if only steps count."""
    budget = settings.budget(model)
    if settings.compression_share is None or budget is None:
        return None
    return max(1, round(settings.compression_share * budget))


def _tokens_to(session: Session, step: int) -> int:
    """The tokens of the live history up to the end of a step; 0 for step 0."""
    return History(session).row(step).total_tokens if step else 0


def set_thresholds_after(session: Session, run: CompressionRun) -> None:
    """Computes and saves ``THRESHOLDS`` when a run has ended."""
    not_done = run.items.filter(level__lt=3).exclude(state=CompressionItem.State.DONE)
    not_done = not_done.exclude(pk__in=run.items.not_repeated())
    first_not_done = not_done.order_by("number").first() if run.automatic else None
    if first_not_done is not None:
        session.compressed_to = min(session.compressed_to, first_not_done.first_step - 1)
    set_thresholds(session)
    if session.compress_at is not None and first_not_done is not None:
        # Failed items are retried together with the next steps, not at once in an endless loop.
        settings = load_settings(session.settings)
        session.compress_at = session.steps + settings.compression_batch_size
        session.compress_at_tokens = None
    elif session.compress_at is not None and session.status == Session.Status.LIVE:
        tokens = session.compress_at_tokens
        by_tokens = tokens is not None and session.tokens >= tokens
        session.compression_due = by_tokens or session.steps >= session.compress_at
    session.save(update_fields=THRESHOLDS)


def due_sessions() -> list[UUID]:
    """About ``MAX_DUE_SESSIONS`` sessions for which an automatic run may be due. Projects take turns and have
    equal shares.

    A project with ``MAX_AUTOMATIC_RUNS`` gets none. Its other sessions stay due until some of its runs end.
    """
    due = Session.objects.filter(compression_due=True).order_by("project_id", "id")
    projects = list(_projects_of(due))
    if not projects:
        return []
    runs = CompressionRun.objects.active().filter(automatic=True).order_by()
    active = dict(runs.values_list("project_id").annotate(Count("pk")))
    share = max(1, MAX_DUE_SESSIONS // len(projects))
    limits = {project: min(share, MAX_AUTOMATIC_RUNS - active.get(project, 0)) for project in projects}
    sessions = [
        due.filter(project=project).values_list("pk", flat=True)[:limit]
        for project, limit in limits.items()
        if limit > 0
    ]
    return [one for turn in zip_longest(*sessions) for one in turn if one is not None]


def _projects_of(due: QuerySet[Session]) -> Iterator[UUID]:
    """The projects of sessions that are ordered by project. Each statement reads one row of the index."""
    projects = due.values_list("project_id", flat=True)
    project = projects.first()
    while project is not None:
        yield project
        project = projects.filter(project_id__gt=project).first()


def unclaimed_runs() -> list[UUID]:
    """The active runs without an item that a worker has claimed, at most ``MAX_UNCLAIMED_RUNS``."""
    unclaimed = _unclaimed(CompressionRun.objects.active())
    return list(unclaimed.order_by("id").values_list("pk", flat=True)[:MAX_UNCLAIMED_RUNS])


def projects_with_unclaimed_runs(*, calls_model: bool) -> frozenset[UUID]:
    """The projects with such runs. ``calls_model``: as in :func:`active_runs`."""
    unclaimed = _unclaimed(active_runs(calls_model=calls_model))
    return frozenset(unclaimed.order_by().values_list("project_id", flat=True).distinct())


def active_runs(*, calls_model: bool) -> RunQuerySet:
    """The active runs that call a provider's model, or all others."""
    without_model = Q(model__in=("", LOCAL))
    return CompressionRun.objects.active().filter(~without_model if calls_model else without_model)


def _unclaimed(runs: RunQuerySet) -> RunQuerySet:
    now = claim_now()
    claimed = CompressionItem.objects.in_progress(now).filter(run=OuterRef("pk"))
    return runs.filter(~Exists(claimed)).not_in_planning(now)


def compress_if_due(session_id: UUID) -> CompressionRun | None:
    """Starts the automatic run of a session, if one is due and no other transaction has locked its row."""
    with writing():
        sessions = Session.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        sessions = sessions.select_related("project")
        session = sessions.filter(pk=session_id).first()
        if session is None or not session.compression_due:
            return None
        run = None
        if not session.compression_runs.active().filter(trial=False).exists():
            run = _start_automatically(session)
        session.compression_due = False  # an active run sets the thresholds when it ends
        session.save(update_fields=THRESHOLDS)
        return run


def postpone_compression(session_id: UUID) -> None:
    """Makes a session not due until its next append, because its run cannot be started."""
    with writing():
        Session.objects.filter(pk=session_id).update(compression_due=False)


def _start_automatically(session: Session) -> CompressionRun | None:
    settings = load_settings(session.settings)
    set_thresholds(session)
    if not settings.compress_automatically or session.status == Session.Status.ARCHIVED:
        return None
    try:
        first, last = _automatic_range(session, settings)
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


def _automatic_range(session: Session, settings: SessionSettings) -> tuple[int, int]:
    """The first and last step to compress now. The first is greater than the last if there are too few."""
    history, first = History(session), session.compressed_to + 1
    last = session.steps - settings.detailed_steps
    newest = history.tail.step
    if newest is not None and newest.status == "in_flight":
        last = min(last, session.steps - 1)
    count, batch_size = last - first + 1, settings.compression_batch_size
    if count >= batch_size:
        strategy = STRATEGIES.get(settings.compression_strategy)
        takes_batches = strategy is not None and strategy.covers == "batch"
        return first, last - count % batch_size if takes_batches else last
    share = _token_share(settings, session.model)
    if count <= 0 or share is None:
        return 1, 0
    missing = share - (_tokens_to(session, last) - _tokens_to(session, first - 1))
    if missing > 0:
        session.compress_at_tokens = session.tokens + missing
        return 1, 0
    return first, last
