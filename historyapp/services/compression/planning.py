"""What a run has to do: its items, made by a worker because looking through a long session takes time."""

from collections.abc import Iterator
from uuid import UUID

from historyapp.core.settings import load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.services.transactions import writing

PAGE = 500
"""Steps looked at in one transaction."""


def plan(run_id: UUID) -> bool:
    """Makes the run's items, in pages; going on after a crash makes none twice.

    Returns whether the run is planned now; False when it has ended meanwhile, or is no more.
    """
    after: int | None = None
    while True:
        with writing():
            run = _locked(run_id)
            if run is None:
                return False
            if run.planned or not run.active:
                return run.planned
            newest = run.items.order_by("-number").first()
            known = newest.last_step if newest else run.from_step - 1
            after = max(known, after or 0)
            after = _plan_page(run, after, newest.number if newest else 0)
            if after >= run.to_step:
                run.planned = True
                run.save(update_fields=("planned",))
                return True


def _locked(run_id: UUID) -> CompressionRun | None:
    """The run, but not its session: agents append to it meanwhile. None when it has been purged."""
    runs = CompressionRun.objects.select_for_update(of=("self",)).select_related("session")
    return runs.filter(pk=run_id).first()


def _plan_page(run: CompressionRun, after: int, number: int) -> int:
    """Makes the items of the next steps; returns the last step that has been looked at."""
    history = History(run.session, run.head)
    batch = load_settings(run.session.settings).compression_batch_size
    size = batch if STRATEGIES[run.strategy].covers == "batch" else 1
    last = min(after + max(PAGE, size), run.to_step)
    rows = history.rows(after + 1, last)
    wanted = _wanted(run, history, rows, size)
    groups = list(_groups([row for row in rows if row.number in wanted], size))
    if last < run.to_step and groups and len(groups[-1]) < size and groups[-1][-1].number == last:
        last = groups.pop()[0].number - 1  # the next page may hold the rest of it
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


def _wanted(run: CompressionRun, history: History, rows: list[Episode], size: int) -> set[int]:
    """Numbers of the finished steps that have no summary of the run's strategy yet."""
    wanted = {row.number for row in rows if not history.is_open(row.number)}
    if run.again or not rows:
        return wanted
    reach = rows[-1].number + max(PAGE, size)  # ranges that begin here may end there
    beyond = history.rows(min(reach, history.steps), reach)
    end = (beyond or rows)[-1].last_position
    known = Summary.objects.live(run.session, history.lineage, (rows[0].first_position, end))
    for summary in known:
        if summary.strategy == run.strategy:
            wanted -= set(range(summary.first_step, summary.last_step + 1))
    return wanted


def _groups(rows: list[Episode], size: int) -> Iterator[list[Episode]]:
    """Consecutive steps, up to ``size`` together."""
    group: list[Episode] = []
    for row in rows:
        if group and (len(group) == size or row.number != group[-1].number + 1):
            yield group
            group = []
        group.append(row)
    if group:
        yield group
