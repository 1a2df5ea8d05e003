"""The items of a run: creates them, reads what their summaries cover, in bounded memory, and changes the
state of many."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Length

from historyapp.core import entries as core
from historyapp.core.entries import ModelInput, text_of
from historyapp.core.episodes import abandon, group_episodes
from historyapp.core.json_memory import memory_of
from historyapp.core.person_inputs import begins_turn, typed_text
from historyapp.core.policies.clipping import fair_share
from historyapp.core.settings import load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import NOT_REPEATED, Material
from historyapp.core.strategies.digests import clip_summary, numbered
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.compressions import ItemQuerySet, adjacent_items
from historyapp.models.database_clock import claim_now
from historyapp.models.entries import spans_between
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.services.changes import record_run_change
from historyapp.services.compression.already_made import summarised_steps
from historyapp.services.lost_claims import end_claim
from historyapp.services.transactions import writing

PAGE_SIZE = 500
"""The number of steps that one transaction plans."""
MAX_BYTES = 1 << 26
"""The maximum number of bytes of an item's steps and inputs with their metadata, or of a digest's summaries,
and about that of the items that are read together. See :func:`historyapp.core.json_memory.memory_of`."""
TOO_LONG = (
    f"The texts to summarise have more than {MAX_BYTES:,} bytes, which is the maximum for one summary. "
    f"{NOT_REPEATED}"
)
MAX_BYTES_OF_ALL_RUNS = 4 * MAX_BYTES
"""From this number of bytes of items in memory, a run of this process holds no more than one item."""
_UNREAD = ("raw_message", "reasoning")
"""Fields of an output that no strategy uses. They may have many MB without a token."""
MAX_DIGEST_CHARACTERS = 2_000_000
"""The characters of a digest's summaries that are read. Writing it takes about 0.7 s of processor time."""
CHANGED_AT_ONCE = 2_000
"""The maximum number of items that one transaction changes, because a run may have a million."""
MAX_TASK_CHARACTERS = 2000
"""Each prompt repeats at most this many characters of the session's first input."""


def plan(run_id: UUID, should_stop: Callable[[], bool] = lambda: False) -> bool:
    """Creates the run's items, in pages. After a stop or a crash, continues without creating an item twice.

    Returns whether the run is planned: False if it has ended or was deleted, if the worker must stop, or if
    another worker plans it.
    """
    planner = _Planner(run_id)
    try:
        while not should_stop():
            if (planned := planner.plan_page()) is not None:
                return planned
    finally:
        end_claim(planner.release)
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
            free = CompressionRun.objects.not_in_planning(claim_now())
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
            claim = timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)
            self._claimed_until = None if locked.planned else claim_now() + claim
            locked.planning_until = self._claimed_until
            locked.save(update_fields=("total", "planned", "planned_to", "planning_until"))
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
        summarised = summarised_steps(run, history, rows)
    groups: list[list[Episode]] = []
    for row in rows:
        if row.number in summarised or history.is_open(row.number):
            continue
        if not groups or len(groups[-1]) == size or row.number != groups[-1][-1].number + 1:
            groups.append([])
        groups[-1].append(row)
    if last < run.to_step and groups and len(groups[-1]) < size and groups[-1][-1].number == last:
        last = groups.pop()[0].number - 1  # the next page may contain more steps of this group
    items = [
        CompressionItem(
            run=run,
            number=item_number,
            level=1 if size == 1 else 2,
            first_step=group[0].number,
            last_step=group[-1].number,
            first_position=group[0].first_position,
            last_position=group[-1].last_position,
            tokens_before=group[-1].total_tokens - group[0].total_tokens + group[0].tokens,
        )
        for item_number, group in enumerate(groups, start=number + 1)
    ]
    return items, max(last, after + 1)


class Job(NamedTuple):
    item: CompressionItem
    source: Material | list[str]
    """Steps; for a digest, the texts of its summaries, oldest first, long ones clipped."""
    size: int = 0
    """About the bytes that the source takes in memory."""


class ReadItems(NamedTuple):
    jobs: list[Job]
    too_long: list[CompressionItem]
    """Items with more than :data:`MAX_BYTES`."""
    unread: list[CompressionItem]
    """Items for a later call, because those before them were too many bytes."""


class _Source(NamedTuple):
    material: Material | list[str] | None
    """See :class:`Job`; None if the item is too long."""
    size: int
    """The bytes that were read."""
    bytes_in_memory: int = 0
    """The bytes that the material takes."""


class BytesInMemory:
    """The bytes of the items that are in memory, by the worker of a run that has them."""

    def __init__(self) -> None:
        self._bytes = dict[UUID, int]()
        self._lock = threading.Lock()

    def room(self, owner: UUID, jobs: Iterable[Job]) -> int | None:
        """The number of bytes that this worker may read now. 0: one item, as it has none. None: no item.

        Args:
            jobs: what it has in memory.
        """
        own = sum(job.size for job in jobs)
        with self._lock:
            self._bytes[owner] = own
            room = min(MAX_BYTES - own, MAX_BYTES_OF_ALL_RUNS - sum(self._bytes.values()))
        return room if room > 0 else None if own else 0

    def forget(self, owner: UUID) -> None:
        with self._lock:
            self._bytes.pop(owner, None)


BYTES_IN_MEMORY = BytesInMemory()
"""What the runs of this process have in memory."""


def read_jobs(run: CompressionRun, items: Sequence[CompressionItem], room: int | None = None) -> ReadItems:
    """The items with the texts to summarise, at least one. Items of adjacent steps are read together.

    Args:
        room: the maximum number of bytes; None: :data:`MAX_BYTES`. The last item may exceed it.
    """
    room = MAX_BYTES if room is None else room
    history = History(run.session, run.head)
    first = next(iter(history.entries(kinds=("model_input",), limit=1)), None)
    body = first.core().body if first else None
    task = text_of(body.content)[:MAX_TASK_CHARACTERS] if isinstance(body, ModelInput) else ""
    jobs, too_long, size = list[Job](), list[CompressionItem](), 0
    for item, source in _sources(history, items, task):
        if source.material is None:
            too_long.append(item)
            break  # what is left of it is not read
        jobs.append(Job(item, source.material, source.bytes_in_memory))
        size += source.size
        if size > room:
            break
    read = {*too_long, *(job.item for job in jobs)}
    return ReadItems(jobs, too_long, [item for item in items if item not in read])


def read_parts(item: CompressionItem) -> _Source:
    """The texts that a digest combines, read one at a time: an imported summary may have many MB.

    If they have more than :data:`MAX_DIGEST_CHARACTERS`, the longest keep their beginning and their end.
    """
    summaries = Summary.objects.filter(pk__in=item.parts).order_by("first_position", "level", "id")
    lengths = dict(summaries.values_list("pk", Length("text")))
    share = fair_share(list(lengths.values()), MAX_DIGEST_CHARACTERS)
    texts, size = list[str](), 0
    for id in lengths:
        for part in Summary.objects.filter(pk=id).defer("key_points"):
            size += memory_of(part.text)
            if size > MAX_BYTES:
                return _Source(None, size)
            # The summary of a single step gets the step's number, as in contexts.
            is_step = part.first_step == part.last_step
            text = clip_summary(part.text, share)
            texts.append(numbered(text, part.first_step) if is_step else text)
    return _Source(texts, size, sum(map(memory_of, texts)))


def _sources(
    history: History, items: Sequence[CompressionItem], task: str
) -> Iterator[tuple[CompressionItem, _Source]]:
    for group in adjacent_items(items):
        yield from _read_adjacent(history, group, task)
    for item in items:
        if item.parts:
            yield item, read_parts(item)


def _read_adjacent(
    history: History, items: Sequence[CompressionItem], task: str
) -> Iterator[tuple[CompressionItem, _Source]]:
    first, last = items[0].first_step, items[-1].last_step
    rows = {row.number: row for row in history.rows(first, last)}
    before = history.row(first - 1).last_position if first > 1 else 0
    ends = [rows[item.last_step].last_position for item in items]
    entries = (
        entry
        for span in spans_between(history.lineage, before, ends[-1] + 1)
        for entry in own_rows(UUID(span.session), span.first, span.last, metadata=())
    )
    for index, in_item in groupby(entries, key=lambda entry: bisect_left(ends, entry.position)):
        yield items[index], _source(items[index], in_item, rows, task)


def _source(
    item: CompressionItem, entries: Iterable[OwnRow], rows: Mapping[int, Episode], task: str
) -> _Source:
    in_steps, inputs, size, unread = list[core.Entry](), list[str](), 0, 0
    for row in entries:
        if row.kind not in core.STEP_KINDS and row.kind != "model_input":
            continue
        size += row.size
        if size > MAX_BYTES:
            return _Source(None, size)
        for name in _UNREAD:
            unread += memory_of(row.body.pop(name, None))
        entry = row.core()
        if row.kind in core.STEP_KINDS:
            in_steps.append(entry)
        elif isinstance(body := entry.body, ModelInput) and begins_turn(body.channel, body.content):
            text = typed_text(body.channel, body.content)
            inputs += [text] if text.strip() else []
    steps = [
        # Only the row shows that a later output abandoned the step.
        abandon(episode) if rows[episode.number].status == "abandoned" else episode
        for episode in group_episodes(in_steps, item.first_step)
    ]
    return _Source(Material(tuple(steps), tuple(inputs), task), size, size - unread)


def fail_waiting(run: CompressionRun, error: str) -> int:
    """Fails the first waiting items of a run, within the caller's transaction, which has locked it.

    The caller saves ``run.failed``. Returns how many items failed.
    """
    waiting = run.items.filter(state=CompressionItem.State.WAITING)
    failed = _update_first(waiting, state=CompressionItem.State.FAILED, error=error)
    run.failed += failed
    return failed


def fail_more_waiting(run_id: UUID, error: str) -> bool:
    """Fails the next waiting items of an active run in one transaction. Returns whether there may be more."""
    with writing():
        run = CompressionRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active or not fail_waiting(run, error):
            return False
        run.save(update_fields=("failed",))
        record_run_change(run)
        return True


def reset_failed(run: CompressionRun) -> bool:
    """Makes the first failed items of a run wait again, within the caller's transaction, which has locked it.

    The caller saves ``run.failed``. Returns whether there were any.
    """
    failed = run.items.filter(state=CompressionItem.State.FAILED)
    reset = _update_first(failed, state=CompressionItem.State.WAITING, error="", claim=None)
    run.failed -= reset
    return reset > 0


def waits_for_reset(run: CompressionRun) -> bool:
    """Whether failed items of a retried run must be reset before a worker may start or end it."""
    is_retried = run.state == run.State.QUEUED and run.started_at is not None
    return is_retried and run.items.filter(state=CompressionItem.State.FAILED).exists()


def _update_first(items: ItemQuerySet, **columns: object) -> int:
    numbers = items.order_by("number").values_list("number", flat=True)[:CHANGED_AT_ONCE]
    found = list(numbers)
    return items.filter(number__lte=found[-1]).update(**columns) if found else 0
