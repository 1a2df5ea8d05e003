"""Finds steps that have a summary, and leaves out items whose summaries a later run has made."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from uuid import UUID

from django.db.models import F

from historyapp.core.settings import MAX_BATCH_SIZE
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.compressions import adjacent_items
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.services.changes import record_run_change
from historyapp.services.compression.request import ChosenModel
from historyapp.services.transactions import writing

MIN_LATER = 5_000
"""Of the summaries that end after some steps, at least this many are searched for one that covers them."""


def summarised_steps(run: CompressionRun, history: History, rows: list[Episode]) -> set[int]:
    """The numbers of the rows' steps that have a summary of the run's strategy. Finds summaries that end up
    to the largest batch after the rows: the session's batch size may have been larger when they were made."""
    end = min(rows[-1].number + MAX_BATCH_SIZE, history.steps)
    until = history.row(end).last_position
    positions = rows[0].first_position, rows[-1].last_position
    made = Summary.objects.filter(strategy=run.strategy)
    max_later = max(MIN_LATER, len(rows))
    ranges = made.live_ranges(run.session, history.lineage, positions, until=until, max_later=max_later)
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


def leave_out_summarised(
    run: CompressionRun, owner: UUID, items: Sequence[CompressionItem]
) -> list[CompressionItem]:
    """Ends claimed items whose steps have a summary of the run's strategy by now, and returns the others.

    A run is planned once. When it is retried, another run may have summarised what was left of it.
    """
    made = set[int]()
    if ChosenModel(run.model).calls_provider and not run.again and not run.trial:
        history = History(run.session, run.head)
        for group in adjacent_items(items):
            rows = history.rows(group[0].first_step, group[-1].last_step)
            made |= summarised_steps(run, history, rows)
    ended = [item.pk for item in items if not item.parts and made.issuperset(_steps(item))]
    if ended:
        with writing():
            locked = CompressionRun.objects.select_for_update().get(pk=run.pk)
            claimed = run.items.filter(pk__in=ended, claim=owner, state=CompressionItem.State.CLAIMED)
            done = claimed.update(state=CompressionItem.State.DONE, error="", claim=None, claimed_until=None)
            CompressionRun.objects.filter(pk=run.pk).update(done=F("done") + done)
            record_run_change(locked)
    return [item for item in items if item.pk not in ended]


def _steps(item: CompressionItem) -> range:
    return range(item.first_step, item.last_step + 1)
