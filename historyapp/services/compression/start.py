"""Starts compression runs: model, estimate, row. Finds, cancels and retries them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.utils import timezone
from pydantic import ValidationError
from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import strategy_named
from historyapp.core.strategies.base import Strategy
from historyapp.core.usage import Usage
from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.models.compressions import RunQuerySet
from historyapp.models.history import History
from historyapp.services.append import check_open, lock_session
from historyapp.services.audit import add_audit_record
from historyapp.services.changes import note_run
from historyapp.services.compression.model_choice import (
    ChosenModel,
    choose_automatic_model,
    choose_model,
)
from historyapp.services.prices import price_list
from historyapp.services.spending import OPERATOR, Spender, check_model
from historyapp.services.totals import count_end
from historyapp.services.transactions import writing

MOST_COMPARED = 500
"""Steps of a comparison."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request for a run. The session's settings decide what is null."""

    strategy: str | None = None
    from_step: int | None = None
    """Negative numbers count from the end. Without bounds: all but the newest detailed steps."""
    to_step: int | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the strategy."""
    again: bool = False
    """Whether steps that have a summary of this strategy are summarised again."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request with every default filled in."""

    strategy: Strategy
    options: dict[str, Any]
    model: ChosenModel
    settings: SessionSettings
    steps: range
    head: int

    @property
    def calls_provider(self) -> bool:
        return self.model.calls_provider


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The most that a run would do. Steps that have a summary already are included."""

    strategy: str
    model: str
    note: str
    first_step: int
    last_step: int
    summaries: int
    calls: int
    """Of the model; long steps may need more."""
    tokens_before: int
    tokens_in: int
    tokens_out: int
    cost: int | None
    """In millionths of a dollar; null: the model's price is not known."""
    prices_as_of: str
    """The date of the price list behind ``cost``."""

    @property
    def steps(self) -> int:
        return self.last_step - self.first_step + 1


@dataclass(frozen=True, slots=True)
class RunStart:
    run: CompressionRun
    joined: bool
    """Whether the run was active before this request."""


def resolve_request(session: Session, request: RunRequest, as_of: int | None = None) -> ResolvedRequest:
    """The request with the session's settings filled in, in constant time.

    Raises:
        Invalid: for an unknown strategy, option or model, or steps that are not in the live history.
    """
    settings = load_settings(session.settings)
    strategy = strategy_named(request.strategy or settings.compression_strategy)
    try:
        options = strategy.options.model_validate(dict(request.options)).model_dump(exclude_defaults=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        raise Invalid(
            f"options.{'.'.join(map(str, wrong['loc']))} of the strategy {strategy.name}: {wrong['msg']}. "
            f"It knows {', '.join(strategy.options.model_fields) or 'no options'}."
        ) from error
    history = History(session, as_of)
    newest = history.tail.step
    finished = history.steps - (newest is not None and newest.status == "in_flight")
    if request.from_step is None and request.to_step is None:
        steps = range(1, max(0, min(finished, history.steps - settings.detailed_steps)) + 1)
    else:
        wanted = history.slice(request.from_step, request.to_step)
        steps = range(wanted.start, min(wanted.stop, finished + 1))
    model = choose_model(strategy, request.model, settings, session.project)
    return ResolvedRequest(strategy, options, model, settings, steps, session.head)


def estimate(session: Session, request: RunRequest, as_of: int | None = None) -> RunEstimate:
    """What the run would cost at most; with ``as_of``, what it would have cost then.

    Raises:
        Invalid: as :func:`resolve_request`.
        ModelNotAllowed: when the project does not allow the model.
    """
    resolved = resolve_request(session, request, as_of)
    check_model(session.project, resolved.model.name)
    steps, strategy, model = resolved.steps, resolved.strategy, resolved.model
    tokens = 0
    if steps:  # from the running totals, whatever the number of steps
        history = History(session, as_of)
        first, last = history.row(steps.start), history.row(steps.stop - 1)
        tokens = last.total_tokens - first.total_tokens + first.tokens
    batch = resolved.settings.compression_batch_size if strategy.covers == "batch" else 1
    summaries = -(-len(steps) // batch)
    calls = summaries if resolved.calls_provider else 0
    tokens_in = tokens + calls * strategy.instruction_tokens if resolved.calls_provider else 0
    tokens_out = calls * strategy.answer_tokens
    prices = price_list()
    price = prices.of(model.name)
    cost: int | None = 0
    if resolved.calls_provider:
        cost = price.cost(Usage(input=tokens_in, output=tokens_out)) if price else None
    return RunEstimate(
        strategy=strategy.name,
        model=model.name,
        note=model.note,
        first_step=steps.start,
        last_step=steps.stop - 1,
        summaries=summaries,
        calls=calls,
        tokens_before=tokens,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=cost,
        prices_as_of=prices.as_of,
    )


def start_run(
    project: Project,
    session_id: UUID,
    request: RunRequest,
    *,
    actor: str = "",
    spender: Spender = OPERATOR,
    automatic: bool = False,
) -> RunStart:
    """Stores a run for workers to carry out. Joins the session's active run where there is one.

    Raises:
        NotFound: when the project has no such session.
        Invalid: as :func:`resolve_request`.
        Conflict: when the session is archived.
        ModelNotAllowed: when the project does not allow the model.
        SpendForbidden: when the run calls a provider's model and the spender may not spend.
    """
    with writing():
        session = lock_session(project, session_id)
        check_open(session)
        active = session.compression_runs.active().filter(trial=False).first()
        if active is not None:
            return RunStart(active, joined=True)
        resolved = resolve_request(session, request)
        if automatic:
            resolved = replace(resolved, model=choose_automatic_model(resolved.model, project))
        else:
            _check_spender(spender, project, resolved)
        run = _create(session, resolved, actor, again=request.again, automatic=automatic, api_key=spender.key)
        detail = {"run": str(run.pk), "strategy": run.strategy, "from": run.from_step, "to": run.to_step}
        add_audit_record(project.pk, actor, "compress", session.pk, detail)
        return RunStart(run, joined=False)


def start_comparison(
    project: Project,
    session_id: UUID,
    requests: Sequence[RunRequest],
    *,
    actor: str = "",
    spender: Spender = OPERATOR,
) -> list[CompressionRun]:
    """Trial runs over the same steps. Their summaries are kept with the runs and never used in a context.

    Raises:
        NotFound: when the project has no such session.
        Invalid: as :func:`resolve_request`, and for more than 50 steps.
        Conflict: when the session is archived.
        ModelNotAllowed: when the project does not allow a side's model.
        SpendForbidden: when a side calls a provider's model and the spender may not spend.
    """
    with writing():
        session = lock_session(project, session_id)
        check_open(session)
        comparison = uuid7()
        runs = []
        for request in requests:
            resolved = resolve_request(session, request)
            steps = len(resolved.steps)
            if steps > MOST_COMPARED:
                raise Invalid(f"A comparison takes at most {MOST_COMPARED} steps; these are {steps}.")
            _check_spender(spender, project, resolved)
            trial = {"again": True, "trial": True, "comparison": comparison, "api_key": spender.key}
            runs.append(_create(session, resolved, actor, **trial))
        detail = {"comparison": str(comparison), "strategies": [run.strategy for run in runs]}
        add_audit_record(project.pk, actor, "compare strategies", session.pk, detail)
        return runs


def _check_spender(spender: Spender, project: Project, resolved: ResolvedRequest) -> None:
    check_model(project, resolved.model.name)
    if resolved.calls_provider and resolved.steps:
        spender.check(f"This compression with {resolved.model.name}")


def _create(session: Session, resolved: ResolvedRequest, actor: str, **flags: Any) -> CompressionRun:
    """``flags``: columns of the run that say why it was started."""
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
        cost=0 if not resolved.calls_provider or prices.of(model.name) else None,
        prices_as_of=prices.as_of if resolved.calls_provider else "",
        actor=actor[:200],
        **flags,
    )
    if not steps:
        run.state, run.planned, run.finished_at = run.State.SUCCEEDED, True, timezone.now()
        newest = resolved.settings.detailed_steps
        run.note = "There is nothing to compress: the session has no steps yet."
        if session.steps:
            run.note = (
                f"There is nothing to compress: all finished steps are among the newest {newest}, which stay "
                "as they are. Name the steps to compress them too."
            )
    run.save(force_insert=True)
    note_run(run)
    if not run.active:
        count_end(run)
    return run


def runs_of(session: Session, as_of: int | None = None) -> RunQuerySet:
    """A session's runs; with ``as_of`` those that were requested by then.

    Raises:
        Invalid: when ``as_of`` lies beyond the head.
    """
    session.lineage(as_of)
    runs = CompressionRun.objects.filter(session=session)
    return runs if as_of is None else runs.filter(head__lte=as_of)


def find_run(session: Session, id: UUID, as_of: int | None = None) -> CompressionRun:
    """One of a session's runs.

    Raises:
        NotFound: when the session has no run with this id, or had none yet at the position.
        Invalid: when ``as_of`` lies beyond the head.
    """
    found = runs_of(session, as_of).filter(pk=id).first()
    if found is None:
        raise NotFound(f"There is no compression {id} in this session.")
    return found


def find_comparison(session: Session, id: UUID, as_of: int | None = None) -> list[CompressionRun]:
    """The runs of a comparison, in the order in which they were requested. Raises as :func:`find_run`."""
    found = list(runs_of(session, as_of).filter(comparison=id).order_by("id"))
    if not found:
        raise NotFound(f"There is no comparison {id} in this session.")
    return found


def cancel_run(run: CompressionRun, *, actor: str = "") -> CompressionRun:
    """Ends a run. Model calls under way are finished and their summaries kept, since they are paid for.

    Raises:
        Conflict: when it has ended already.
    """
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run.pk)
        if not run.active:
            ended = "was cancelled" if run.state == run.State.CANCELLED else f"has {run.get_state_display()}"
            raise Conflict(f"The run has ended already: it {ended}.", state=run.state)
        run.state, run.finished_at = run.State.CANCELLED, timezone.now()
        run.note = f"Cancelled with {run.done} of {run.total} summaries made."
        run.note += " They are kept." if run.done else ""
        run.save()
        note_run(run)
        detail = {"run": str(run.pk)}
        add_audit_record(run.session.project_id, actor, "cancel compression", run.session_id, detail)
        count_end(run)
    return run


def retry_run(run: CompressionRun, *, actor: str = "", spender: Spender = OPERATOR) -> CompressionRun:
    """Resumes a run: with the items that failed, or with what was left when it was cancelled.

    Raises:
        Conflict: when nothing is left, another run of the session is active, or the session is archived.
        ModelNotAllowed: when the project does not allow the model.
        SpendForbidden: when the run calls a provider's model and the spender may not spend.
    """
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run.pk)
        session = Session.objects.select_for_update().get(pk=run.session_id)
        check_open(session)
        if run.active or run.state == run.State.SUCCEEDED:
            raise Conflict("There is nothing to retry: the run has not failed.", state=run.state)
        if not run.trial and session.compression_runs.active().filter(trial=False).exists():
            raise Conflict("Another compression of this session is under way. Try again when it has ended.")
        check_model(session.project, run.model)
        if ChosenModel(run.model).calls_provider:
            spender.check(f"This compression with {run.model}")
        failed = run.items.filter(state=CompressionItem.State.FAILED)
        run.failed -= failed.update(state=CompressionItem.State.WAITING, error="", claim=None)
        run.state, run.finished_at, run.note = run.State.QUEUED, None, ""
        run.api_key, run.actor = spender.key, actor[:200] or run.actor
        run.prices_as_of = run.prices_as_of and price_list().as_of
        run.save()
        note_run(run)
        add_audit_record(session.project_id, actor, "retry compression", session.pk, {"run": str(run.pk)})
    return run
