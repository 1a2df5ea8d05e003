"""The items of a run, each one summary to make: plan them, claim them, read what they summarise."""

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from historyapp.core.entries import ModelInput, text_of
from historyapp.core.settings import load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.services.changes import note_run
from historyapp.services.transactions import writing

PAGE = 500
"""Steps that one transaction plans."""
MOST_TOKENS = 200_000
"""Of the steps of several items that one claim takes: all of them are held in memory."""
LONGEST_TASK = 2000
"""Characters of the session's first input that each prompt repeats."""


def plan(run_id: UUID) -> bool:
    """Creates the run's items, in pages. After a crash, continues without creating an item twice.

    Returns whether the run is planned now. False when it has ended, or was deleted.
    """
    after: int | None = None
    while True:
        with writing():
            # The session is not locked: agents append to it meanwhile.
            runs = CompressionRun.objects.select_for_update(of=("self",)).select_related("session")
            run = runs.filter(pk=run_id).first()
            if run is None:
                return False
            if run.planned or not run.active:
                return run.planned
            newest = run.items.order_by("-number").first()
            known = newest.last_step if newest else run.from_step - 1
            after = _plan_page(run, max(known, after or 0), newest.number if newest else 0)
            if after >= run.to_step:
                run.planned = True
                run.save(update_fields=("planned",))
                return True


def _plan_page(run: CompressionRun, after: int, number: int) -> int:
    """Creates the items of the next steps. Returns the last step that was planned."""
    history = History(run.session, run.head)
    batch = load_settings(run.session.settings).compression_batch_size
    size = batch if STRATEGIES[run.strategy].covers == "batch" else 1
    last = min(after + max(PAGE, size), run.to_step)
    rows = history.rows(after + 1, last)
    summarised = set() if run.again or not rows else _summarised_steps(run, history, rows, max(PAGE, size))
    groups: list[list[Episode]] = []
    for row in rows:
        if row.number in summarised or history.is_open(row.number):
            continue
        if not groups or len(groups[-1]) == size or row.number != groups[-1][-1].number + 1:
            groups.append([])
        groups[-1].append(row)
    if last < run.to_step and groups and len(groups[-1]) < size and groups[-1][-1].number == last:
        last = groups.pop()[0].number - 1  # the next page may hold the rest of this group
    CompressionItem.objects.bulk_create(
        CompressionItem(
            run=run,
            number=number + place,
            level=1 if size == 1 else 2,
            first_step=group[0].number,
            last_step=group[-1].number,
            first_position=group[0].first_position,
            last_position=group[-1].last_position,
            tokens_before=group[-1].total_tokens - group[0].total_tokens + group[0].tokens,
        )
        for place, group in enumerate(groups, start=1)
    )
    run.total += len(groups)
    run.save(update_fields=("total",))
    return max(last, after + 1)


def _summarised_steps(run: CompressionRun, history: History, rows: list[Episode], reach: int) -> set[int]:
    """Numbers of the steps that have a summary of the run's strategy, which may end ``reach`` steps later."""
    end = rows[-1].number + reach
    later = history.rows(min(end, history.steps), end)
    positions = rows[0].first_position, (later or rows)[-1].last_position
    steps: set[int] = set()
    for summary in Summary.objects.live(run.session, history.lineage, positions):
        if summary.strategy == run.strategy:
            steps.update(range(summary.first_step, summary.last_step + 1))
    return steps


def claim(run_id: UUID, owner: UUID, most: int) -> list[CompressionItem]:
    """Takes up to ``most`` items, in order, that no other worker holds; none when the run has ended."""
    now = timezone.now()
    until = now + timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run_id)
        if not run.active or not run.planned:
            return []
        if run.state == run.State.QUEUED:
            run.state, run.started_at = run.State.RUNNING, run.started_at or now
            run.save(update_fields=("state", "started_at"))
            note_run(run)
        items: list[CompressionItem] = []
        tokens = 0
        for item in list(run.items.claimable(now)[:most]):
            tokens += item.tokens_before
            if tokens > MOST_TOKENS and items:
                break
            items.append(item)
        CompressionItem.objects.filter(pk__in=[item.pk for item in items]).update(
            state=CompressionItem.State.CLAIMED, claim=owner, claimed_until=until
        )
    return items


def renew(owner: UUID) -> None:
    """Extends the owner's claims."""
    with writing():
        until = timezone.now() + timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)
        claimed = CompressionItem.objects.filter(claim=owner, state=CompressionItem.State.CLAIMED)
        claimed.update(claimed_until=until)


def release(owner: UUID, items: Collection[int] | None = None) -> None:
    """Gives up the owner's claims on items that are not finished: on these, or on all."""
    with writing():
        claimed = CompressionItem.objects.filter(claim=owner, state=CompressionItem.State.CLAIMED)
        if items is not None:
            claimed = claimed.filter(pk__in=items)
        claimed.update(state=CompressionItem.State.WAITING, claim=None, claimed_until=None)


def runs_left() -> list[UUID]:
    """Active runs with no item that a worker holds."""
    claimed = CompressionItem.objects.under_way(timezone.now()).filter(run=OuterRef("pk"))
    runs = CompressionRun.objects.active().filter(~Exists(claimed)).order_by("id")
    return list(runs.values_list("pk", flat=True))


class Job(NamedTuple):
    item: CompressionItem
    source: Material | list[str]
    """Steps; for a digest the texts of its summaries, oldest first."""


def read_jobs(run: CompressionRun, items: Sequence[CompressionItem]) -> list[Job]:
    """The items with what they summarise. Steps that follow one another are read together."""
    history = History(run.session, run.head)
    first = next(iter(history.entries(kinds=("model_input",), limit=1)), None)
    body = first.core().body if first else None
    task = text_of(body.content)[:LONGEST_TASK] if isinstance(body, ModelInput) else ""
    neighbours: list[list[CompressionItem]] = []
    digests: list[Job] = []
    for item in items:
        if item.parts:
            parts = Summary.objects.filter(pk__in=item.parts).order_by("first_position", "level", "id")
            digests.append(Job(item, [summary.text for summary in parts]))
        elif neighbours and item.first_step == neighbours[-1][-1].last_step + 1:
            neighbours[-1].append(item)
        else:
            neighbours.append([item])
    return [job for some in neighbours for job in _read_neighbours(history, some, task)] + digests


def _read_neighbours(history: History, items: Sequence[CompressionItem], task: str) -> Iterator[Job]:
    first, last = items[0].first_step, items[-1].last_step
    episodes = {episode.number: episode for episode in history.episodes(first, last)}
    begin = history.row(first - 1).last_position if first > 1 else 0
    entries = history.entries(after=begin, before=episodes[last].last_position + 1, kinds=("model_input",))
    bodies = [(entry.position, entry.core().body) for entry in entries]
    inputs = [
        (position, text)
        for position, body in bodies
        if isinstance(body, ModelInput) and body.channel == "user" and (text := text_of(body.content)).strip()
    ]
    after = 0
    for item in items:
        steps = tuple(episodes[number] for number in range(item.first_step, item.last_step + 1))
        end = steps[-1].last_position
        texts = tuple(text for position, text in inputs if after < position <= end)
        yield Job(item, Material(steps, texts, task))
        after = end
