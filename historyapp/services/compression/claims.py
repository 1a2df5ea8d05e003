"""Who works on what: claims on items, and the one transaction that turns a result into a summary."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from historyapp.core.strategies.base import Written
from historyapp.core.text import preview
from historyapp.models import CompressionItem, CompressionRun, Session, Summary
from historyapp.services.statements import update_items
from historyapp.services.summaries import touch
from historyapp.services.transactions import writing

MOST_TOKENS = 200_000
"""Of the steps that one claim takes together, where these are several: so much is held in memory."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one item's model calls used."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int | None = 0
    """In millionths of a dollar; null: the price is not known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went with one item."""

    item: int
    """Its primary key."""
    written: Written | None = None
    """Null: it failed."""
    error: str = ""
    tokens: int = 0
    """Of what was written."""
    spent: Spent = Spent()
    hopeless: bool = False
    """Whether the other items would fail for the same reason: no key, no such model, no money."""
    silent: bool = False
    """Whether the provider did not answer. Where it has answered nothing yet, the run ends too."""


def claim(run_id: UUID, owner: UUID, most: int) -> list[CompressionItem]:
    """Takes up to ``most`` items, in order, that nobody else is at work on; none when the run has ended."""
    now = timezone.now()
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run_id)
        if not run.active or not run.planned:
            return []
        if run.state == run.State.QUEUED:
            run.state, run.started_at = run.State.RUNNING, run.started_at or now
            run.save(update_fields=("state", "started_at"))
        items = _few(list(run.items.claimable(now)[:most]))
        CompressionItem.objects.filter(pk__in=[item.pk for item in items]).update(
            state=CompressionItem.State.CLAIMED, claim=owner, claimed_until=_lease_end()
        )
    return items


def _few(items: list[CompressionItem]) -> list[CompressionItem]:
    tokens = 0
    for place, item in enumerate(items):
        tokens += item.tokens_before
        if tokens > MOST_TOKENS and place:
            return items[:place]
    return items


def renew(owner: UUID) -> None:
    """Says that the owner of these claims lives."""
    with writing():
        CompressionItem.objects.filter(claim=owner, state=CompressionItem.State.CLAIMED).update(
            claimed_until=_lease_end()
        )


def release(owner: UUID, items: Collection[int] | None = None) -> None:
    """Gives back what has been claimed and not finished: these items, or all that are the owner's."""
    with writing():
        claimed = CompressionItem.objects.filter(claim=owner, state=CompressionItem.State.CLAIMED)
        if items is not None:
            claimed = claimed.filter(pk__in=items)
        claimed.update(state=CompressionItem.State.WAITING, claim=None, claimed_until=None)


def _lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)


def store(run_id: UUID, owner: UUID, outcomes: Sequence[Outcome]) -> int:
    """Keeps results, in one short transaction; of what is no longer the owner's only what it cost.

    Returns the session's head, which tells whether an agent is at work on it.
    """
    told = {outcome.item: outcome for outcome in outcomes}
    with writing():
        run = CompressionRun.objects.select_for_update(of=("self",)).select_related("session").get(pk=run_id)
        items = run.items.filter(pk__in=told, claim=owner, state=CompressionItem.State.CLAIMED)
        mine = list(items.order_by("number"))
        for item in mine:
            _decide(item, told[item.pk])
        head = Session.objects.values_list("head", flat=True).get(pk=run.session_id)
        changed = _keep_texts(mine, told) if run.trial else _keep_summaries(run, mine, told, head)
        update_items(mine)
        _account(run, mine, outcomes)
        answered = run.done or any(outcome.written for outcome in outcomes)
        last = next((o for o in outcomes if o.hopeless or (o.silent and not answered)), None)
        if last is not None and run.active:
            _give_up(run, last.error)
        if changed:
            touch(run.session_id, changed)  # last: from here on, agents that append wait
        return head


def _decide(item: CompressionItem, outcome: Outcome) -> None:
    item.claim = item.claimed_until = None
    if outcome.written is None:
        item.state, item.error = item.State.FAILED, preview(outcome.error, 1000)
    else:
        item.state, item.error = item.State.DONE, ""
        item.tokens_after = outcome.tokens


def _keep_texts(items: Iterable[CompressionItem], told: Mapping[int, Outcome]) -> set[UUID]:
    for item in items:
        written = told[item.pk].written
        item.text = written.text if written else None
    return set()


def _keep_summaries(
    run: CompressionRun, items: Iterable[CompressionItem], told: Mapping[int, Outcome], made_at: int
) -> set[UUID]:
    """Summaries for the positions that the steps had when the run was asked for.

    If a rewind has cut them off meanwhile, they stand for that take. Returns the sessions that this changes.
    """
    lineage = run.session.lineage(run.head)
    summaries = []
    for item in items:
        outcome = told[item.pk]
        if outcome.written is None:
            continue
        item.summary = Summary(
            session_id=UUID(lineage.session_at(item.last_position)),
            made_in=run.session,
            made_at=made_at,
            first_position=item.first_position,
            last_position=item.last_position,
            first_step=item.first_step,
            last_step=item.last_step,
            level=item.level,
            text=outcome.written.text,
            key_points=list(outcome.written.key_points),
            strategy=run.strategy,
            model=run.model,
            tokens_before=item.tokens_before,
            tokens_after=item.tokens_after,
            cost=outcome.spent.cost,
            run=run,
            actor=run.actor,
        )
        summaries.append(item.summary)
    Summary.objects.bulk_create(summaries)
    return {summary.session_id for summary in summaries}


def _account(run: CompressionRun, mine: Sequence[CompressionItem], outcomes: Sequence[Outcome]) -> None:
    done = [item for item in mine if item.state == item.State.DONE]
    costs = [outcome.spent.cost for outcome in outcomes]
    CompressionRun.objects.filter(pk=run.pk).update(
        done=F("done") + len(done),
        failed=F("failed") + len(mine) - len(done),
        calls=F("calls") + sum(outcome.spent.calls for outcome in outcomes),
        tokens_in=F("tokens_in") + sum(outcome.spent.tokens_in for outcome in outcomes),
        tokens_out=F("tokens_out") + sum(outcome.spent.tokens_out for outcome in outcomes),
        cost=None if None in costs else F("cost") + sum(cost or 0 for cost in costs),
        tokens_before=F("tokens_before") + sum(item.tokens_before for item in done if item.level < 3),
        tokens_after=F("tokens_after") + sum(item.tokens_after for item in done if item.level < 3),
    )


def _give_up(run: CompressionRun, error: str) -> None:
    """Fails what has not been begun: asking 1,000 times with a wrong key helps nobody."""
    waiting = run.items.filter(state=CompressionItem.State.WAITING)
    failed = waiting.update(state=CompressionItem.State.FAILED, error=preview(error, 1000))
    CompressionRun.objects.filter(pk=run.pk).update(failed=F("failed") + failed)
