"""Finds steps that have a summary, and ends items whose model calls would be paid for nothing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

from django.db.models import F

from historyapp.core.live_spans import spans_at
from historyapp.core.settings import MAX_BATCH_SIZE
from historyapp.models import CompressionItem, CompressionRun, Session, Summary
from historyapp.models.compressions import AUTOMATIC, adjacent_items
from historyapp.models.episodes import Episode
from historyapp.models.families import SharedEntries
from historyapp.models.history import History
from historyapp.services.changes import record_run_change
from historyapp.services.compression.automatic_limit import check_limit
from historyapp.services.compression.request import ChosenModel
from historyapp.services.transactions import writing

MIN_LATER = 5_000
"""Of the summaries that end after some steps, at least this many are searched for one that covers them."""
MAX_RUNS = 100
"""The number of runs with failed items, the newest ones, in which an automatic run looks for its steps."""


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


class _FailedItem(NamedTuple):
    """An item that is not repeated, of a session of the family."""

    session: UUID
    level: int
    first_step: int
    last_step: int
    last_position: int
    error: str

    def predicts_failure_of(self, item: CompressionItem) -> bool:
        """Whether it covers a step of the item, or if both are digests, at least half of its steps."""
        first, last = max(self.first_step, item.first_step), min(self.last_step, item.last_step)
        if item.parts:
            return self.level >= 3 and 2 * (last - first + 1) >= len(_steps(item))
        return self.level < 3 and first <= last


class ItemsLeft(NamedTuple):
    items: list[CompressionItem]
    error: str
    """The error with which all waiting items of the run fail, too; otherwise empty."""


def leave_out_needless(run: CompressionRun, owner: UUID, items: Sequence[CompressionItem]) -> ItemsLeft:
    """Ends claimed items that other runs have made, or that would fail as in other runs. Returns the others.

    A run is planned once. Other runs of its session, or of forks, may have worked on its steps meanwhile.
    """
    made = _made_items(run, items)
    left = [item for item in items if item.pk not in made]
    errors, limit_error = dict[int, str](), ""
    if left and _is_automatic(run):
        family = SharedEntries(run.session_id)
        errors = _errors_not_repeated(run, left, family)
        left = [item for item in left if item.pk not in errors]
        if ChosenModel(run.model).calls_provider:
            limit_error, excess = check_limit(left, family)
            errors |= dict.fromkeys((item.pk for item in excess), limit_error)
    if made or errors:
        with writing():
            locked = CompressionRun.objects.select_for_update().get(pk=run.pk)
            claimed = run.items.filter(claim=owner, state=CompressionItem.State.CLAIMED)
            free = {"claim": None, "claimed_until": None}
            done = claimed.filter(pk__in=made).update(state=CompressionItem.State.DONE, error="", **free)
            failed = sum(
                claimed.filter(pk=pk).update(state=CompressionItem.State.FAILED, error=error, **free)
                for pk, error in errors.items()
            )
            counts = {"done": F("done") + done, "failed": F("failed") + failed}
            CompressionRun.objects.filter(pk=run.pk).update(**counts)
            record_run_change(locked)
    return ItemsLeft([item for item in left if item.pk not in errors], limit_error)


def _made_items(run: CompressionRun, items: Sequence[CompressionItem]) -> set[int]:
    """The primary keys of the items whose steps have a summary of the run's strategy by now, and of digests
    whose steps are in another one."""
    if not ChosenModel(run.model).calls_provider or run.again or run.trial:
        return set()
    steps, history = set[int](), History(run.session, run.head)
    for group in adjacent_items(items):
        rows = history.rows(group[0].first_step, group[-1].last_step)
        steps |= summarised_steps(run, history, rows)
    return {
        item.pk
        for item in items
        if (_is_digested(run.session, item) if item.parts else steps.issuperset(_steps(item)))
    }


def _is_digested(session: Session, item: CompressionItem) -> bool:
    """Whether a digest covers the steps of another one, so that contexts would not use that one."""
    lineage = session.lineage()
    digests = Summary.objects.filter(level__gte=item.level, first_position__lte=item.first_position)
    ends = item.last_position, lineage.last
    return bool(digests.live_ranges(session, lineage, ends, until=lineage.last, max_later=0))


def _is_automatic(run: CompressionRun) -> bool:
    """Whether nobody has retried the run, also not since it was read."""
    return run.actor == AUTOMATIC and CompressionRun.objects.filter(pk=run.pk, actor=AUTOMATIC).exists()


def _errors_not_repeated(
    run: CompressionRun, items: Sequence[CompressionItem], family: SharedEntries
) -> dict[int, str]:
    """The errors of items whose steps have failed with the same model so that automatic runs do not repeat
    them.

    Such an item takes long or costs money, and a session may get a new automatic run each second.
    """
    others = CompressionRun.objects.filter(session__in=family.sessions, model=run.model).exclude(pk=run.pk)
    others = others.exclude(state=CompressionRun.State.SUCCEEDED).order_by("-pk")
    newest = list(others.values_list("pk", flat=True)[:MAX_RUNS])
    if not newest:
        return {}
    found = CompressionItem.objects.not_repeated().filter(
        run__in=newest,
        first_step__lte=max(item.last_step for item in items),
        last_step__gte=min(item.first_step for item in items),
    )
    failed = [_FailedItem._make(row) for row in found.values_list("run__session", *_FailedItem._fields[1:])]
    spans = spans_at(run.session.lineage(run.head), (row.last_position for row in failed))
    live = [
        row
        for row in failed
        if (span := spans.get(row.last_position)) is not None
        and span.session == str(family.owner(row.session, row.last_position))
    ]
    concerned = ((item, next((row for row in live if row.predicts_failure_of(item)), None)) for item in items)
    return {
        # A longer digest is tried when it has twice the steps of the one that was tried last.
        item.pk: f"{row.error} It was not tried again." if item.parts else row.error
        for item, row in concerned
        if row is not None
    }


def _steps(item: CompressionItem) -> range:
    return range(item.first_step, item.last_step + 1)
