"""Plans a run: stores an item for each step or batch of steps that it has to summarise."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import accumulate
from uuid import UUID

from django.conf import settings

from historyapp.core.settings import load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.database_clock import database_now
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.services.compression.jobs import errors_not_repeated
from historyapp.services.transactions import writing

PAGE_SIZE = 500
"""The number of steps that one transaction plans."""


def plan(run_id: UUID, should_stop: Callable[[], bool] = lambda: False) -> bool:
    """Creates the run's items, in pages. After a stop or a crash, continues without creating an item twice.

    Returns whether the run is planned: False if it has ended or was deleted, if the worker must stop, or if
    another worker plans it.
    """
    planner = _Planner(run_id)
    while not should_stop():
        if (planned := planner.plan_page()) is not None:
            return planned
    planner.release()
    return False


class _Planner:
    """Plans a run page by page. From the second page on, it has a claim, so that no other worker does so."""

    def __init__(self, run_id: UUID) -> None:
        self._run_id = run_id
        self._claimed_until: datetime | None = None
        """The end of this worker's claim; None if it has none."""

    def plan_page(self) -> bool | None:
        """Plans the next page. Returns as :func:`plan`, or None: call it again."""
        # Steps and summaries are read before the lock. Agents append to the session meanwhile.
        run = CompressionRun.objects.select_related("session").filter(pk=self._run_id).first()
        if run is None:
            return False
        if run.planned or not run.active:
            return run.planned
        if run.planning_until and not self._claimed_until:
            free = CompressionRun.objects.not_in_planning(database_now())
            if not free.filter(pk=run.pk).exists():
                return False
        newest = run.items.order_by("-number").first()
        last_planned = newest.last_step if newest else run.from_step - 1
        after = max(last_planned, run.planned_to or 0)
        items, last = _next_items(run, after, newest.number if newest else 0)
        with writing():
            locked = CompressionRun.objects.select_for_update().filter(pk=run.pk).first()
            if locked is None:
                return False
            if locked.planned or not locked.active:
                return locked.planned
            if (locked.total, locked.planned_to) != (run.total, run.planned_to):
                self._claimed_until = None
                return None  # another worker has planned this page
            CompressionItem.objects.bulk_create(items)
            locked.total, locked.planned_to = run.total + len(items), last
            locked.planned = last >= run.to_step
            locked.failed += sum(item.state == item.State.FAILED for item in items)
            claim = timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)
            self._claimed_until = None if locked.planned else database_now() + claim
            locked.planning_until = self._claimed_until
            locked.save(update_fields=("total", "failed", "planned", "planned_to", "planning_until"))
        return True if locked.planned else None

    def release(self) -> None:
        """Lets another worker continue, unless one has claimed the planning already."""
        if self._claimed_until:
            with writing():
                claimed = CompressionRun.objects.filter(pk=self._run_id, planning_until=self._claimed_until)
                claimed.update(planning_until=None)


def _next_items(run: CompressionRun, after: int, number: int) -> tuple[list[CompressionItem], int]:
    """The items of the next steps, not stored yet, and the last planned step."""
    history = History(run.session, run.head)
    batch = run.batch_size or load_settings(run.session.settings).compression_batch_size
    size = batch if STRATEGIES[run.strategy].covers == "batch" else 1
    last = min(after + max(PAGE_SIZE, size), run.to_step)
    rows = history.rows(after + 1, last)
    summarised = set[int]()
    if rows and not run.again:
        summarised = _summarised_steps(run, history, rows, max(PAGE_SIZE, size))
    groups: list[list[Episode]] = []
    for row in rows:
        if row.number in summarised or history.is_open(row.number):
            continue
        if not groups or len(groups[-1]) == size or row.number != groups[-1][-1].number + 1:
            groups.append([])
        groups[-1].append(row)
    if last < run.to_step and groups and len(groups[-1]) < size and groups[-1][-1].number == last:
        last = groups.pop()[0].number - 1  # the next page may contain more steps of this group
    level, failed = 1 if size == 1 else 2, errors_not_repeated(run)
    items = []
    for item_number, group in enumerate(groups, start=number + 1):
        error = failed.get((level, group[0].first_position, group[-1].last_position), "")
        item = CompressionItem(
            run=run,
            number=item_number,
            level=level,
            first_step=group[0].number,
            last_step=group[-1].number,
            first_position=group[0].first_position,
            last_position=group[-1].last_position,
            tokens_before=group[-1].total_tokens - group[0].total_tokens + group[0].tokens,
            state=CompressionItem.State.FAILED if error else CompressionItem.State.WAITING,
            error=error,
        )
        items.append(item)
    return items, max(last, after + 1)


def _summarised_steps(run: CompressionRun, history: History, rows: list[Episode], reach: int) -> set[int]:
    """The numbers of the rows' steps that have a summary of the run's strategy. Finds summaries that end up
    to ``reach`` steps after the rows."""
    end = rows[-1].number + reach
    later = history.rows(min(end, history.steps), end)
    positions = rows[0].first_position, (later or rows)[-1].last_position
    made = Summary.objects.filter(strategy=run.strategy)
    ranges = made.live_ranges(run.session, history.lineage, positions)
    return _covered(ranges, rows[0].number, rows[-1].number)


def _covered(ranges: Iterable[tuple[int, int]], first: int, last: int) -> set[int]:
    """The numbers from ``first`` to ``last`` that are in a range, however long and many the ranges are."""
    changes = Counter[int]()
    for begin, end in ranges:
        changes[max(begin, first)] += 1
        changes[max(end + 1, first)] -= 1
    numbers = range(first, last + 1)
    covering = accumulate(changes[number] for number in numbers)
    return {number for number, count in zip(numbers, covering, strict=True) if count > 0}
