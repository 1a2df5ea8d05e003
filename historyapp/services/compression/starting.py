"""Asking for a run: what it will do, what it will cost, and the row that says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.utils import timezone
from pydantic import ValidationError
from uuid_utils.compat import uuid7

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import strategy_named
from historyapp.core.strategies.base import Strategy
from historyapp.core.usage import Usage
from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.models.history import History
from historyapp.services.append import check_open, lock_session
from historyapp.services.audit import record
from historyapp.services.compression.models import ChosenModel, choose_model
from historyapp.services.prices import price_list
from historyapp.services.transactions import writing

MOST_COMPARED = 50
"""Steps of a comparison."""


@dataclass(frozen=True, slots=True)
class RunWish:
    """What somebody asks for; null where the session's settings are to decide."""

    strategy: str | None = None
    from_step: int | None = None
    """Negative ones count from the end. Without both: every step outside the newest detailed ones."""
    to_step: int | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the strategy."""
    again: bool = False
    """Whether steps are done again that have a summary of this strategy."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A wish with everything decided."""

    strategy: Strategy
    options: dict[str, Any]
    chosen: ChosenModel
    settings: SessionSettings
    steps: range
    head: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would do at most: steps that have their summary already are not counted out."""

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
class Started:
    run: CompressionRun
    joined: bool
    """Whether it had been under way already."""


def terms_of(session: Session, wish: RunWish, as_of: int | None = None) -> Terms:
    """What a wish comes to in this session, found in constant time.

    Raises:
        Invalid: for an unknown strategy, option or model, or steps that are not in the live history.
    """
    settings = load_settings(session.settings)
    strategy = strategy_named(wish.strategy or settings.compression_strategy)
    try:
        options = strategy.options.model_validate(dict(wish.options)).model_dump(exclude_defaults=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        raise Invalid(
            f"options.{'.'.join(map(str, wrong['loc']))} of the strategy {strategy.name}: {wrong['msg']}. "
            f"It knows {', '.join(strategy.options.model_fields) or 'no options'}."
        ) from error
    history = History(session, as_of)
    steps = _steps(history, wish, settings.detailed_steps)
    return Terms(
        strategy, options, choose_model(strategy, wish.model, settings), settings, steps, session.head
    )


def _steps(history: History, wish: RunWish, detailed: int) -> range:
    newest = history.tail.step
    finished = history.steps - (newest is not None and newest.status == "in_flight")
    if wish.from_step is None and wish.to_step is None:
        return range(1, max(0, min(finished, history.steps - detailed)) + 1)
    wanted = history.slice(wish.from_step, wish.to_step)
    return range(wanted.start, min(wanted.stop, finished + 1))


def estimate(session: Session, wish: RunWish, as_of: int | None = None) -> Estimate:
    """What the run would cost at most; with ``as_of``, what it would have cost then.

    Raises:
        Invalid: as :func:`terms_of`.
    """
    terms = terms_of(session, wish, as_of)
    steps, strategy = terms.steps, terms.strategy
    tokens = _tokens_of(History(session, as_of), steps)
    batch = terms.settings.compression_batch_size if strategy.covers == "batch" else 1
    summaries = -(-len(steps) // batch)
    asks = strategy.asks_model and terms.chosen.name != "local"
    calls = summaries if asks else 0
    usage = Usage(
        input=(tokens + calls * strategy.instruction_tokens) if asks else 0,
        output=calls * strategy.answer_tokens,
    )
    prices = price_list()
    price = prices.of(terms.chosen.name)
    cost = 0 if not asks else price.cost(usage) if price else None
    return Estimate(
        strategy.name,
        terms.chosen.name,
        terms.chosen.note,
        steps.start,
        steps.stop - 1,
        summaries,
        calls,
        tokens,
        usage.input,
        usage.output,
        cost,
        prices.as_of,
    )


def _tokens_of(history: History, steps: range) -> int:
    """By the running totals, whatever the number of steps."""
    if not steps:
        return 0
    first, last = history.row(steps.start), history.row(steps.stop - 1)
    return last.total_tokens - first.total_tokens + first.tokens


def start_run(
    project: Project, session_id: UUID, wish: RunWish, *, actor: str = "", automatic: bool = False
) -> Started:
    """Writes down that a run is wanted; workers carry it out. One that is under way is joined.

    Raises:
        NotFound: when the project has no such session.
        Invalid: as :func:`terms_of`.
        Conflict: when the session is archived.
    """
    with writing():
        session = lock_session(project, session_id)
        check_open(session)
        active = session.compression_runs.active().filter(trial=False).first()
        if active is not None:
            return Started(active, joined=True)
        terms = terms_of(session, wish)
        run = _create(session, terms, wish, actor=actor, automatic=automatic)
        detail = {"run": str(run.pk), "strategy": run.strategy, "from": run.from_step, "to": run.to_step}
        record(project.pk, actor, "compress", session.pk, detail)
        return Started(run, joined=False)


def start_comparison(
    project: Project, session_id: UUID, wishes: Sequence[RunWish], *, actor: str = ""
) -> list[CompressionRun]:
    """Trial runs over the same steps: their summaries are kept with the runs and stand for nothing.

    Raises:
        NotFound: when the project has no such session.
        Invalid: as :func:`terms_of`, and for more than 50 steps.
        Conflict: when the session is archived.
    """
    with writing():
        session = lock_session(project, session_id)
        check_open(session)
        comparison = uuid7()
        runs = []
        for wish in wishes:
            terms = terms_of(session, wish)
            if len(terms.steps) > MOST_COMPARED:
                raise Invalid(
                    f"A comparison takes at most {MOST_COMPARED} steps; these are {len(terms.steps)}."
                )
            runs.append(_create(session, terms, wish, actor=actor, comparison=comparison))
        detail = {"comparison": str(comparison), "strategies": [run.strategy for run in runs]}
        record(project.pk, actor, "compare strategies", session.pk, detail)
        return runs


def _create(
    session: Session,
    terms: Terms,
    wish: RunWish,
    *,
    actor: str,
    automatic: bool = False,
    comparison: UUID | None = None,
) -> CompressionRun:
    steps, asks, prices = terms.steps, terms.chosen.name not in ("", "local"), price_list()
    run = CompressionRun(
        session=session,
        strategy=terms.strategy.name,
        model=terms.chosen.name,
        options=terms.options,
        again=wish.again or comparison is not None,
        trial=comparison is not None,
        comparison=comparison,
        automatic=automatic,
        note=terms.chosen.note,
        head=terms.head,
        from_step=steps.start,
        to_step=steps.stop - 1,
        cost=0 if not asks or prices.of(terms.chosen.name) else None,
        prices_as_of=prices.as_of if asks else "",
        actor=actor[:200],
    )
    if not steps:
        run.state, run.planned, run.finished_at = run.State.SUCCEEDED, True, timezone.now()
        run.note = _nothing(session, terms)
    run.save(force_insert=True)
    return run


def _nothing(session: Session, terms: Terms) -> str:
    if not session.steps:
        return "There is nothing to compress: the session has no steps yet."
    return (
        "There is nothing to compress: all finished steps are among the newest "
        f"{terms.settings.detailed_steps}, which stay as they are. Name the steps to compress them too."
    )


def cancel_run(run: CompressionRun, *, actor: str = "") -> CompressionRun:
    """Ends a run. What is under way is finished and kept, as it is paid for; nothing more is begun.

    Raises:
        Conflict: when it has ended already.
    """
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run.pk)
        if not run.active:
            raise Conflict(f"The run has ended already: it {_ENDS[run.state]}.", state=run.state)
        run.state, run.finished_at = run.State.CANCELLED, timezone.now()
        run.note = f"Cancelled with {run.done} of {run.total} summaries made."
        run.note += " They are kept." if run.done else ""
        run.save()
        record(run.session.project_id, actor, "cancel compression", run.session_id, {"run": str(run.pk)})
    return run


_ENDS = {
    "succeeded": "has succeeded",
    "partly_failed": "has partly failed",
    "failed": "has failed",
    "cancelled": "was cancelled",
}


def retry_run(run: CompressionRun, *, actor: str = "") -> CompressionRun:
    """Takes up what failed, or what was left when the run was cancelled.

    Raises:
        Conflict: when nothing is left, another run of the session is under way, or the session is archived.
    """
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run.pk)
        session = Session.objects.select_for_update().get(pk=run.session_id)
        check_open(session)
        if run.active or run.state == run.State.SUCCEEDED:
            raise Conflict("There is nothing to try again: the run has not failed.", state=run.state)
        if not run.trial and session.compression_runs.active().filter(trial=False).exists():
            raise Conflict("Another compression of this session is under way. Try again when it has ended.")
        again = run.items.filter(state=CompressionItem.State.FAILED)
        run.failed -= again.update(state=CompressionItem.State.WAITING, error="", claim=None)
        run.state, run.finished_at, run.note = run.State.QUEUED, None, ""
        run.prices_as_of = run.prices_as_of and price_list().as_of
        run.save()
        record(session.project_id, actor, "retry compression", session.pk, {"run": str(run.pk)})
    return run
