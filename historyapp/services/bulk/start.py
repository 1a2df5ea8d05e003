"""Starts, finds and cancels actions on many sessions, and estimates the cost of compressing them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound, PlayheadError
from historyapp.core.usage import MICRO
from historyapp.models import BulkAction, BulkItem, CompressionRun, Project, Session
from historyapp.models.bulk_actions import MAX_RUNNING, MAX_SESSIONS
from historyapp.services.annotations import check_tag
from historyapp.services.append import check_open, hold_sessions
from historyapp.services.compression.request import RunEstimate, RunRequest, estimate
from historyapp.services.compression.start import cancel_run
from historyapp.services.short_transactions import short_transaction
from historyapp.services.spending import OPERATOR, Spender
from historyapp.services.transactions import writing

_TAGGING = (BulkAction.Kind.ADD_TAG, BulkAction.Kind.REMOVE_TAG)


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """An action and its sessions."""

    kind: str
    sessions: Sequence[UUID]
    tag: str = ""
    """The tag to add or to remove."""
    strategy: str = ""
    model: str = ""
    """For compressions. Empty: each session's settings decide."""

    @property
    def run_request(self) -> RunRequest:
        return RunRequest(self.strategy or None, model=self.model or None)


@dataclass(frozen=True, slots=True)
class RefusedSession:
    """A session that an action cannot change, and why."""

    session: UUID
    title: str
    reason: str


@dataclass(slots=True)
class BulkEstimate:
    """The maximum work and cost of compressing many sessions."""

    sessions: int = 0
    """The number of sessions with something to compress."""
    steps: int = 0
    summaries: int = 0
    calls: int = 0
    tokens_before: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int | None = 0
    """In millionths of a dollar; None if a model's price is not known."""
    prices_as_of: str = ""
    models: list[str] = field(default_factory=list)
    """The providers' models that would be called."""
    nothing_to_do: int = 0
    """The number of sessions without steps to compress."""
    refused: list[RefusedSession] = field(default_factory=list)
    runs: dict[UUID, RunEstimate] = field(default_factory=dict)
    """The estimate for each session that is not refused."""

    def add(self, session: UUID, run: RunEstimate) -> None:
        self.runs[session] = run
        if run.steps <= 0:
            self.nothing_to_do += 1
            return
        self.sessions += 1
        self.steps += run.steps
        self.summaries += run.summaries
        self.calls += run.calls
        self.tokens_before += run.tokens_before
        self.tokens_in += run.tokens_in
        self.tokens_out += run.tokens_out
        self.cost = None if self.cost is None or run.cost is None else self.cost + run.cost
        self.prices_as_of = run.prices_as_of
        if run.calls and run.model not in self.models:
            self.models.append(run.model)


def check_sessions(sessions: Sequence[UUID]) -> list[UUID]:
    """The ids without repetitions.

    Raises:
        Invalid: when there are no ids, or too many.
    """
    unique = list(dict.fromkeys(sessions))
    if not unique:
        raise Invalid("No session is chosen. Choose at least one.")
    if len(unique) > MAX_SESSIONS:
        raise Invalid(
            f"A bulk action can change at most {MAX_SESSIONS} sessions; this one names {len(unique):,}. "
            "Send several smaller ones."
        )
    return unique


def estimate_compressions(
    project: Project, request: BulkRequest, spender: Spender = OPERATOR
) -> BulkEstimate:
    """The maximum cost of compressing the sessions. Nothing is started.

    Raises:
        Invalid: for no sessions or too many of them.
    """
    ids = list(check_sessions(request.sessions))
    sessions = Session.objects.filter(project=project).in_bulk(ids)
    missing = [RefusedSession(id, "", f"There is no session {id}.") for id in ids if id not in sessions]
    total = BulkEstimate(refused=missing)
    for session in (sessions[id] for id in ids if id in sessions):
        session.project = project
        try:
            check_open(session)
            run = estimate(session, request.run_request)
            if run.calls:
                spender.check(f"A compression with {run.model}")
        except PlayheadError as error:
            total.refused.append(RefusedSession(session.pk, session.title, error.detail))
        else:
            total.add(session.pk, run)
    return total


def start_bulk_action(
    project: Project,
    request: BulkRequest,
    *,
    actor: str = "",
    spender: Spender = OPERATOR,
    accepted: BulkEstimate | None = None,
) -> BulkAction:
    """Stores an action for workers to carry out.

    Args:
        accepted: required for compressions: the estimate that :func:`check_cost` has checked. Workers start
            only what it contains.

    Raises:
        Invalid: for an unknown action, a tag that no session can have, and no sessions or too many of them.
        Conflict: when too many actions of the project are running.
    """
    if request.kind not in BulkAction.Kind:
        raise Invalid(f"`action` must be one of {', '.join(BulkAction.Kind)}.")
    if request.kind in _TAGGING:
        check_tag(request.tag)
    elif request.tag:
        raise Invalid("Only the actions `add_tag` and `remove_tag` take a tag.")
    if request.kind != BulkAction.Kind.COMPRESS and (request.strategy or request.model):
        raise Invalid("Only the action `compress` takes a strategy or a model.")
    sessions = check_sessions(request.sessions)
    action = BulkAction(
        project=project,
        kind=request.kind,
        tag=request.tag,
        strategy=request.strategy,
        model=request.model,
        actor=actor[:200],
        api_key=spender.key if spender.key and not spender.key._state.adding else None,
        is_member=spender.is_member,
    )
    with writing():
        hold_sessions(project.pk, sessions)  # a stored response has their titles
        if project.count_in(BulkAction.objects.active()) >= MAX_RUNNING:
            raise Conflict(
                f"{MAX_RUNNING} bulk actions of this project are running or waiting. Wait until one has "
                f"ended, or cancel one. One action can change up to {MAX_SESSIONS} sessions."
            )
        action.save(force_insert=True)
        items = [
            BulkItem(action=action, number=number, session_id=id) for number, id in enumerate(sessions, 1)
        ]
        if request.kind == BulkAction.Kind.COMPRESS:
            _add_accepted(items, accepted or BulkEstimate())
        BulkItem.objects.bulk_create(items)
    return action


def _add_accepted(items: Sequence[BulkItem], accepted: BulkEstimate) -> None:
    """Stores in each item what was accepted. An item that was refused fails now, whatever changes later."""
    reasons = {refused.session: refused.reason for refused in accepted.refused}
    for item in items:
        run = accepted.runs.get(item.session_id)
        if run is None:
            reason = reasons.get(item.session_id, "Nobody has accepted the cost of this compression.")
            item.state, item.reason = BulkItem.State.FAILED, reason[:1000]
        else:
            item.accepted_strategy, item.accepted_model = run.strategy, run.model
            item.accepted_step, item.accepted_cost = run.last_step, run.cost


def check_cost(bulk_estimate: BulkEstimate, accepted: int | None, *, accepts_unknown: bool = False) -> None:
    """Checks that the cost of compressions does not exceed the cost that the caller has accepted.

    Args:
        accepted: in millionths of a dollar; None: the caller has accepted no cost.

    Raises:
        Conflict: when the estimate is higher, or unknown and that was not accepted.
    """
    if not bulk_estimate.calls or (bulk_estimate.cost is None and accepts_unknown):
        return
    models = ", ".join(bulk_estimate.models)
    if bulk_estimate.cost is None:
        raise Conflict(
            f'These compressions call {models}, whose price is unknown. Send max_cost: "unknown" to accept '
            "that, or use the model local, which costs nothing.",
            money="unknown",
        )
    if accepted is None or bulk_estimate.cost > accepted:
        limit = "no max_cost was given" if accepted is None else f"max_cost is {accepted / MICRO:.6g}"
        raise Conflict(
            f"These compressions call {models} and cost up to {bulk_estimate.cost / MICRO:.6g} US dollars; "
            f"{limit}. Send a max_cost that covers them, or use the model local, which costs nothing.",
            money=bulk_estimate.cost / MICRO,
        )


def find_bulk_action(project: Project, id: UUID) -> BulkAction:
    """The project's action. Raises ``NotFound`` when there is none with this id."""
    action = BulkAction.objects.filter(project=project, pk=id).first()
    if action is None:
        raise NotFound(f"There is no bulk action {id}.")
    return action


def cancel_bulk_action(action: BulkAction, *, actor: str = "") -> BulkAction:
    """Cancels the waiting items of an action and the compressions that it has started. Finished items stay.

    Raises:
        Conflict: when all items have ended already.
    """
    with writing():
        action = BulkAction.objects.select_for_update().get(pk=action.pk)
        was_running = action.state == BulkAction.State.RUNNING
        if was_running:
            action.state, action.finished_at = BulkAction.State.CANCELLED, timezone.now()
            action.save(update_fields=("state", "finished_at"))
    started = action.items.exclude(run_id=None).values_list("run_id", flat=True)
    runs = list(CompressionRun.objects.active().filter(pk__in=list(started)))
    if not was_running and not runs:
        raise Conflict("There is nothing to cancel: the action has ended.", state=action.state)
    for run in runs:
        try:
            cancel_run(run, actor=actor)
        except Conflict:
            continue  # it has just ended
    if not was_running:
        BulkAction.objects.filter(pk=action.pk).update(state=BulkAction.State.CANCELLED)
        action.refresh_from_db()
    return action


def prune_bulk_actions(before: datetime) -> None:
    """Deletes actions that ended before this time, each in a transaction of its own."""
    for id in list(BulkAction.objects.older_than(before).values_list("pk", flat=True)):
        with short_transaction():
            BulkAction.objects.filter(pk=id).delete()
