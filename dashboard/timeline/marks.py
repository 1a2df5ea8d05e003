"""Marks of the timeline: inputs from a person, interruptions, bookmarks, compactions, rewinds, forks and
sub-agents.

Each mark has words and a link. Overlapping marks of one kind become one mark with a count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.urls import reverse

from dashboard.location import Location
from dashboard.rendering.text import visible
from dashboard.templatetags.playhead import short_figure
from dashboard.timeline.bars import TimelineBar, bar_at, percent, place_of
from historyapp.core.text import preview
from historyapp.models.relatives import steps_before
from historyapp.models.takes import Take

MarkKind = Literal["input", "interruption", "bookmark", "compaction", "rewind", "fork", "agent"]
KIND_WORDS: dict[MarkKind, str] = {
    "input": "input",
    "interruption": "interruption",
    "bookmark": "bookmark",
    "compaction": "compaction",
    "rewind": "rewind",
    "fork": "fork",
    "agent": "sub-agent",
}
"""The kinds in the order of the legend, with their words."""
BELOW = ("interruption", "compaction", "rewind", "fork", "agent")
"""Kinds that stand in a lane below the bars. The others stand above them."""
LEADING_AWAY = ("rewind", "fork", "agent")
"""Kinds whose marks lead to another page."""
NEAR = 0.02
"""A share of the width. Marks of one kind that are nearer to the first of them become one."""
LABEL = 120
"""Characters of a text in the words of a mark."""


@dataclass(frozen=True, slots=True)
class TimelineMark:
    kind: MarkKind
    step: int
    """The step to which the playhead moves; 0 if the link leads to another page."""
    x: str
    label: str
    href: str
    count: int = 1
    ends_here: bool = False
    """Whether the mark is drawn before ``x``, at the end of a step, and not after it."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """One thing to mark, or several at the same place."""

    kind: MarkKind
    place: float
    step: int
    label: str
    href: str
    count: int = 1
    ends_here: bool = False


def draw_marks(location: Location, bars: Sequence[TimelineBar], takes: Sequence[Take]) -> list[TimelineMark]:
    """The marks of the part that the bars show, by kind; a bounded number of queries."""
    if not bars:
        return []
    marks = [
        *_turns(location, bars),
        *_interruptions(location, bars),
        *_bookmarks(location, bars),
        *_compactions(location, bars),
        *_rewinds(location, bars, takes),
        *_forks(location, bars),
        *_agents(location, bars),
    ]
    order = list(KIND_WORDS)
    marks.sort(key=lambda mark: (order.index(mark.kind), mark.place))
    groups: list[list[_Mark]] = []
    for mark in marks:
        first = groups[-1][0] if groups else None
        if first and first.kind == mark.kind and mark.place - first.place < NEAR - 1e-9:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [_merged(group) for group in groups]


def _merged(group: list[_Mark]) -> TimelineMark:
    first, count = group[0], sum(mark.count for mark in group)
    label = first.label
    if len(group) > 1:
        word, last_mark = KIND_WORDS[first.kind], group[-1]
        label = f"{count:,} {word}s, from here on"
        if last_mark.step > first.step:
            label = f"{count:,} {word}s, steps {first.step:,}–{last_mark.step:,}"
    has_own_link = first.kind in LEADING_AWAY and len(group) == 1
    step = 0 if has_own_link else first.step
    return TimelineMark(first.kind, step, percent(first.place), label, first.href, count, first.ends_here)


def _turns(location: Location, bars: Sequence[TimelineBar]) -> Iterator[_Mark]:
    """Inputs of a person before each step. For several steps: the number of turns that begin in them."""
    for bar in bars:
        count, href = bar.share.turns, location.address_of(bar.first)
        if count and bar.share.steps == 1:
            words = visible(preview(bar.share.row.input_preview, LABEL))
            label = f"Input: {words}" if words or location.shows_inputs else "Input"
            yield _Mark("input", bar.place.start, bar.first, label, href)
        elif count:
            label = f"{count:,} input{'s' * (count != 1)}, steps {bar.first:,}–{bar.last:,}"
            yield _Mark("input", bar.place.start, bar.first, label, href, count)


def _interruptions(location: Location, bars: Sequence[TimelineBar]) -> Iterator[_Mark]:
    """Where a person interrupted the model: after the step to which each mark leads, or before step 1."""
    for bar in bars:
        count, step = bar.share.interruptions, max(1, bar.first - 1)
        if count and bar.share.steps == 1:
            yield _interruption(location, step, bar.place.start, before_first=bar.first == 1)
        elif count:
            label = (
                f"{count:,} interruption{'s' * (count != 1)} by the person, steps {bar.first:,}–{bar.last:,}"
            )
            href = location.address_of(bar.first)
            yield _Mark("interruption", bar.place.start, bar.first, label, href, count)
    if location.history.tail.is_interrupted and bars[-1].last == location.steps:
        yield _interruption(location, location.steps, bars[-1].place.end, ends_here=True)


def _interruption(
    location: Location, step: int, place: float, *, before_first: bool = False, ends_here: bool = False
) -> _Mark:
    label = f"Interrupted by the person {'before' if before_first else 'after'} step {step:,}"
    return _Mark("interruption", place, step, label, location.address_of(step), ends_here=ends_here)


def _bookmarks(location: Location, bars: Sequence[TimelineBar]) -> Iterator[_Mark]:
    for step, start in location.note_starts:
        place = place_of(bars, step) if bars[0].first <= step <= bars[-1].last else None
        if place is not None:
            text = f"Note: {visible(preview(start, LABEL))}" if start else "Bookmark"
            yield _Mark("bookmark", place, step, f"{text} · step {step:,}", location.address_of(step))


def _compactions(location: Location, bars: Sequence[TimelineBar]) -> Iterator[_Mark]:
    """Compactions before each step, with the sizes of the context. For several steps: their number."""
    size = 0
    for bar in bars:
        count, new_size, href = bar.share.compactions, bar.share.context, location.address_of(bar.first)
        if count and bar.share.steps == 1:
            sizes = f": {short_figure(size)} → {short_figure(new_size)} tokens" if size and new_size else ""
            label = f"Compacted before step {bar.first:,}{sizes}"
            yield _Mark("compaction", bar.place.start, bar.first, label, href)
        elif count:
            label = f"{count:,} compaction{'s' * (count != 1)}, steps {bar.first:,}–{bar.last:,}"
            yield _Mark("compaction", bar.place.start, bar.first, label, href, count)
        size = new_size or size


def _rewinds(location: Location, bars: Sequence[TimelineBar], takes: Sequence[Take]) -> Iterator[_Mark]:
    for take in takes:
        place = _place_after(bars, take.after_step)
        if place is not None:
            place = min(place, 1 - NEAR / 2)
            cut = f"{take.steps:,} step{'s' * (take.steps != 1)} cut off"
            label = f"Rewound to step {take.after_step:,}: {cut}"
            yield _Mark("rewind", place, max(1, take.after_step), label, location.address_of_take(take))


def _forks(location: Location, bars: Sequence[TimelineBar]) -> Iterator[_Mark]:
    """Forks at the end of the step after which they begin."""
    forks = location.relatives.forks
    for fork, step in zip(forks, steps_before(location.history, forks), strict=True):
        if step is not None:
            label = f"Fork after step {step:,}: {visible(preview(fork.title, LABEL)) or 'untitled'}"
            yield from _fork(bars, step, label, reverse("session", args=[fork.pk]))
    if location.session.forked_from_id is not None and not location.is_shared:
        step = location.shared_steps
        href = reverse("session", args=[location.session.forked_from_id])
        yield from _fork(bars, step, f"Forked from another session after step {step:,}", href)


def _fork(bars: Sequence[TimelineBar], step: int, label: str, href: str) -> Iterator[_Mark]:
    place = _place_after(bars, step)
    if place is not None:
        yield _Mark("fork", place, max(1, step), label, href, ends_here=step >= bars[0].first)


def _agents(location: Location, bars: Sequence[TimelineBar]) -> Iterator[_Mark]:
    """Sub-agents at the step that started them. If that is unknown: at the step during which they began."""
    begins = [bar.share.begin for bar in bars]
    dated = [begin for begin in begins if begin is not None]
    is_timed = len(dated) == len(bars)
    for agent in location.relatives.subagents:
        if agent.spawned_position is not None:
            bar = _bar_with(bars, agent.spawned_position)
        else:
            bar = _bar_during(bars, dated, agent.created_at) if is_timed else None
        if bar is not None:
            label = f"Sub-agent: {visible(preview(agent.title or agent.agent, LABEL)) or 'untitled'}"
            href = reverse("session", args=[agent.pk])
            yield _Mark("agent", bar.place.start, bar.first, label, href)


def _bar_with(bars: Sequence[TimelineBar], position: int) -> TimelineBar | None:
    """The bar that has the output at a position, or None if it lies outside of the bars."""
    index = bisect_left(bars, position, key=lambda bar: bar.share.row.anchor)
    if index == len(bars):
        return None
    bar = bars[index]
    if index == 0 and bar.share.row.anchor != position and not 0 <= bar.share.after < position:
        return None
    return bar


def _bar_during(
    bars: Sequence[TimelineBar], begins: Sequence[datetime], moment: datetime
) -> TimelineBar | None:
    """The bar that ran at a moment, or None if that lies outside of the bars."""
    index = bisect_right(begins, moment) - 1
    if index < 0:
        return None
    end = bars[index].share.end
    is_after_last_bar = index == len(bars) - 1 and end is not None and moment > end
    return None if is_after_last_bar else bars[index]


def _place_after(bars: Sequence[TimelineBar], step: int) -> float | None:
    """The place after a step, where the next one begins. None if the timeline does not show it."""
    if step < bars[0].first:
        return bars[0].place.start if step == bars[0].first - 1 else None
    bar = bar_at(bars, step)
    if bar is None:
        return None
    part = (step - bar.first + 1) / bar.share.steps
    return bar.place.start + part * (bar.place.end - bar.place.start)
