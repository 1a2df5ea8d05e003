"""Reads what the summaries of a run's items cover, in bounded memory."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from historyapp.core import entries as core
from historyapp.core.entries import ModelInput, text_of
from historyapp.core.episodes import abandon, group_episodes
from historyapp.core.strategies.base import Material
from historyapp.core.strategies.digests import numbered
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.entries import spans_between
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.models.own_rows import OwnRow, own_rows

MAX_BYTES = 1 << 26
"""The maximum number of bytes of an item's steps and inputs with their metadata, and about that of the items
that are read together. See :func:`historyapp.models.fields.size_in_memory`."""
TOO_LONG = f"The steps have more than {MAX_BYTES:,} bytes, which is the maximum for one summary."
MAX_TASK_CHARACTERS = 2000
"""Each prompt repeats at most this many characters of the session's first input."""


class Job(NamedTuple):
    item: CompressionItem
    source: Material | list[str]
    """Steps; for a digest, the texts of its summaries, oldest first."""


class ReadItems(NamedTuple):
    jobs: list[Job]
    too_long: list[CompressionItem]
    """Items with more than :data:`MAX_BYTES`."""
    unread: list[CompressionItem]
    """Items for a later call: those before them reached :data:`MAX_BYTES`."""


class _Source(NamedTuple):
    material: Material | None
    """None if the item is too long."""
    size: int
    """The bytes that were read."""


def read_jobs(run: CompressionRun, items: Sequence[CompressionItem]) -> ReadItems:
    """The items with the texts to summarise, at least one. Items of adjacent steps are read together."""
    history = History(run.session, run.head)
    first = next(iter(history.entries(kinds=("model_input",), limit=1)), None)
    body = first.core().body if first else None
    task = text_of(body.content)[:MAX_TASK_CHARACTERS] if isinstance(body, ModelInput) else ""
    jobs, too_long, size = list[Job](), list[CompressionItem](), 0
    for item, source in _sources(history, items, task):
        if source.material is None:
            too_long.append(item)
            break  # what is left of it is not read
        jobs.append(Job(item, source.material))
        size += source.size
        if size > MAX_BYTES:
            break
    else:
        jobs += [Job(item, _parts(item)) for item in items if item.parts]
    read = {*too_long, *(job.item for job in jobs)}
    return ReadItems(jobs, too_long, [item for item in items if item not in read])


def _parts(item: CompressionItem) -> list[str]:
    parts = Summary.objects.filter(pk__in=item.parts).order_by("first_position", "level", "id")
    # The summary of a single step gets the step's number, as in contexts.
    return [
        numbered(part.text, part.first_step) if part.first_step == part.last_step else part.text
        for part in parts
    ]


def _sources(
    history: History, items: Sequence[CompressionItem], task: str
) -> Iterator[tuple[CompressionItem, _Source]]:
    adjacent: list[list[CompressionItem]] = []
    for item in items:
        if item.parts:
            continue
        if adjacent and item.first_step == adjacent[-1][-1].last_step + 1:
            adjacent[-1].append(item)
        else:
            adjacent.append([item])
    for group in adjacent:
        yield from _read_adjacent(history, group, task)


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
    in_steps, inputs, size = list[core.Entry](), list[str](), 0
    for row in entries:
        if row.kind not in core.STEP_KINDS and row.kind != "model_input":
            continue
        size += row.size
        if size > MAX_BYTES:
            return _Source(None, size)
        entry = row.core()
        if row.kind in core.STEP_KINDS:
            in_steps.append(entry)
        elif isinstance(body := entry.body, ModelInput) and body.channel == "user":
            text = text_of(body.content)
            inputs += [text] if text.strip() else []
    steps = [
        # Only the row shows that a later output abandoned the step.
        abandon(episode) if rows[episode.number].status == "abandoned" else episode
        for episode in group_episodes(in_steps, item.first_step)
    ]
    return _Source(Material(tuple(steps), tuple(inputs), task), size)
