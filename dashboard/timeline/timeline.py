"""The timeline: lanes above each other that share an axis.

From the top: inputs; bookmarks and matches of a search; a bar for each step, coloured by its kind of tool or
by its outcome; failures; the size of the context; rewinds, forks and sub-agents; and takes. In long sessions
a bar stands for an equal share of the steps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.location import Location
from dashboard.templatetags.playhead import duration, names, short_figure
from dashboard.timeline.axis import Pause, Tick, places_by_step, places_by_time, ticks_by_time
from dashboard.timeline.bars import (
    FAILURE,
    FAILURES,
    FLOOR,
    TimelineBar,
    draw_bars,
    legend_of,
    percent,
    place_of,
)
from dashboard.timeline.form import AXES, COLOURS, HEIGHTS
from dashboard.timeline.marks import BELOW, KIND_WORDS, TimelineMark, draw_marks
from dashboard.timeline.minimap import Minimap, draw_map
from dashboard.timeline.shares import MAX_SINGLE, read_shares, read_shares_ahead
from historyapp.models.takes import Take

CONTEXT, CONTEXT_HEIGHT = FAILURES + FAILURE + 5, 30
"""Where the lane of the context begins, and its height. Without reported sizes, the lane is left out."""
BRANCHES = 13
"""Height of the lane of rewinds, forks and sub-agents. Without any, the lane is left out."""
LANES, LANE = 3, 9
"""Lanes for takes, and the height of one in pixels."""
TIMES = 16
"""Height of the lane of times."""
FALL = 0.9
"""A fall is a place where less than this share of the context remains."""
MIN_FALL, MAX_FALLS = 5_000, 8
"""Tokens of the smallest fall that has a label, and the maximum number of labels."""
FALL_WIDTH = 0.12
"""The part of the width that a label takes. A fall has no label if it would cover that of a larger fall."""
MAX_TOOLS = 120
"""Characters of the tools in the label of a pause."""


@dataclass(frozen=True, slots=True)
class TakeBar:
    """A take, under the steps that replaced it."""

    take: Take
    x: str
    width: str
    lane: int
    y: int


@dataclass(frozen=True, slots=True)
class TimelineLabel:
    """Words at a part of the timeline."""

    x: str
    label: str
    step: int = 0
    width: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture."""

    location: Location
    bars: list[TimelineBar]
    takes: list[TakeBar]
    marks: list[TimelineMark]
    hits: list[str]
    """The places of steps that match the search; close places are merged."""
    falls: list[TimelineLabel]
    """Where the context shrank."""
    pauses: list[TimelineLabel]
    context: str
    """The path of the context's size, 1,000 units wide; empty without reported sizes."""
    first: int
    slots: int
    """The number of steps that its width represents."""
    height: int
    description: str
    """The text for screen readers."""
    playhead: str
    """The position of the playhead's step; empty if that is outside."""
    minimap: Minimap | None
    """None in short sessions."""
    branches_top: int
    """Where the lane of rewinds, forks and sub-agents begins."""
    ticks: list[tuple[str, Tick]]
    """Times below all lanes, with their places. Empty if the bars are placed by step."""
    lanes_height: int
    """Where the times begin."""
    floor: int = FLOOR
    context_top: int = CONTEXT
    context_height: int = CONTEXT_HEIGHT
    lane_height: int = LANE - 2

    @property
    def svg_bars(self) -> SafeString:
        """The bars, each a link to its first step."""
        before, after = escape(self.location.address_of(0)).split("step=0")
        before = f"{before.removeprefix(self.location.url)}step="
        links = (bar.svg(f"{before}{bar.first}{after}") for bar in self.bars)
        return mark_safe("\n".join(links))  # noqa: S308 labels are escaped

    @property
    def veil(self) -> str:
        """Where the steps after the playhead begin."""
        return self.playhead or ("0%" if self.location.step < self.first else "100%")

    @property
    def end(self) -> int:
        """The last step that it shows."""
        return self.bars[-1].last if self.bars else 0

    @property
    def axes(self) -> tuple[str, ...]:
        return AXES

    @property
    def height_names(self) -> tuple[str, ...]:
        """The values that the bars can show; money only if it is known."""
        has_cost = any(bar.share.cost for bar in self.bars) or self.location.timeline.height == "cost"
        return HEIGHTS if has_cost else HEIGHTS[:-1]

    @property
    def colours(self) -> tuple[str, ...]:
        return COLOURS

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Class and word of each colour that it uses."""
        bars = self.bars
        legend = list(legend_of(bars, self.location.timeline.colour))
        if self.location.timeline.colour == "tool":
            legend += [("key-failed", "error")] if any(bar.share.errors for bar in bars) else []
            legend += [("key-likely", "likely failed")] if any(bar.share.likely for bar in bars) else []
        legend += [("key-context", "context")] if self.context else []
        legend += [("key-pause", "pause")] if self.pauses else []
        return legend + ([("key-take", "take")] if self.takes else [])

    @property
    def signs(self) -> list[tuple[str, str]]:
        """Kind and word of each kind of mark that it has."""
        kinds = {mark.kind for mark in self.marks}
        return [(kind, word) for kind, word in KIND_WORDS.items() if kind in kinds]


def draw_timeline(
    location: Location,
    takes: list[Take],
    hits: Sequence[int] = (),
    searched: tuple[int, int] | None = None,
) -> Timeline:
    """The timeline of a history, by a few queries that cost the same for every length.

    Args:
        hits: steps that contain the search text. Scripts draw them again when the search changes.
        searched: the first and the last step that the search has covered; None: all.
    """
    form = location.timeline
    end = max(location.steps, *(take.last_step for take in takes), 1)
    first, last = (form.first, form.last) if form.last else (1, end)
    slots = last - first + 1
    if form.last and location.steps > MAX_SINGLE:
        read_shares_ahead(location.history, (first, last), (1, location.steps))  # the minimap shows the whole
    shares = read_shares(location.history, first, last)
    by_time, pauses = places_by_time(shares) if form.axis == "time" else ([], [])
    bars = list(draw_bars(shares, by_time or places_by_step(shares, first, slots), form))
    marks = draw_marks(location, bars, takes)
    context = _context_path(bars)
    branches_top = CONTEXT + (CONTEXT_HEIGHT + 4 if context else 0)
    top = branches_top + (BRANCHES if any(mark.kind in BELOW for mark in marks) else 0)
    below = list(_take_bars(takes, bars, first, slots, top))
    lanes_height = top + LANE * max((bar.lane + 1 for bar in below), default=0)
    ticks = ticks_by_time(shares) if by_time else []
    playhead = place_of(bars, location.step + 0.5)
    steps = location.steps
    description = f"{form.height.capitalize()} and outcome of {steps:,} step{'s' * (steps != 1)}"
    if takes:
        description += f", and {len(takes)} take{'s' * (len(takes) != 1)} below"
    hit_places = (place_of(bars, step + 0.5) for step in hits)
    return Timeline(
        location,
        bars=bars,
        takes=below,
        marks=marks,
        hits=list(dict.fromkeys(f"{100 * place:.1f}%" for place in hit_places if place is not None)),
        falls=_falls(bars),
        pauses=[
            TimelineLabel(percent(start), _pause_label(pause), width=percent(end - start))
            for pause in pauses
            for start, end in [pause.place]
        ],
        context=context,
        first=first,
        slots=slots,
        height=lanes_height + (TIMES if ticks else 0),
        description=description,
        playhead="" if playhead is None else percent(playhead),
        minimap=draw_map(location, form, shares, hits, searched),
        branches_top=branches_top,
        ticks=[(percent(tick.place), tick) for tick in ticks],
        lanes_height=lanes_height,
    )


def _pause_label(pause: Pause) -> str:
    """Says how long a pause was and what followed it."""
    share = pause.share
    tools = names(share.row.tool_names)[:MAX_TOOLS] if share.steps == 1 else ""
    return f"pause of {duration(pause.length)} before step {share.first:,}{f' ({tools})' if tools else ''}"


def _context_path(bars: Sequence[TimelineBar]) -> str:
    """The outline of the context's size. A step without reported usage keeps the previous size."""
    maximum = max((bar.share.context for bar in bars), default=0)
    if not maximum:
        return ""
    points, size = list[str](), 0
    for bar in bars:
        size = bar.share.context or size
        y = CONTEXT_HEIGHT - round((CONTEXT_HEIGHT - 2) * size / maximum, 1)
        points.append(f"{round(1000 * (bar.place.start + bar.place.end) / 2, 1):g} {y:g}")
    left, right = points[0].split()[0], points[-1].split()[0]
    return f"M{left} {CONTEXT_HEIGHT}L{'L'.join(points)}L{right} {CONTEXT_HEIGHT}z"


def _falls(bars: Sequence[TimelineBar]) -> list[TimelineLabel]:
    """Where the context became much smaller: the largest drops that have room for a label, in order."""
    falls: list[tuple[int, TimelineBar, str]] = []
    before, compactions = 0, 0
    for bar in bars:
        size, compactions = bar.share.context, compactions + bar.share.compactions
        if size and before * FALL > size and before - size >= MIN_FALL:
            # A compaction late in a share only lowers the average of the next share.
            word = "compacted " if compactions else ""
            label = f"{word}{short_figure(before)} → {short_figure(size)}"
            falls.append((before - size, bar, label))
        before, compactions = size or before, bar.share.compactions
    shown: list[tuple[TimelineBar, str]] = []
    for _, bar, label in sorted(falls, key=lambda fall: -fall[0]):
        is_free = all(abs(bar.place.start - other.place.start) >= FALL_WIDTH for other, _ in shown)
        if is_free and len(shown) < MAX_FALLS:
            shown.append((bar, label))
    shown.sort(key=lambda fall: fall[0].first)
    return [TimelineLabel(bar.x, label, bar.first) for bar, label in shown]


def _take_bars(
    takes: Iterable[Take], bars: Sequence[TimelineBar], first: int, slots: int, top: int
) -> Iterator[TakeBar]:
    """Takes in lanes, so that they do not hide each other while there is room."""
    ends = [0.0] * LANES
    by_step = {bar.first: bar.place.start for bar in bars if bar.share.steps == 1}
    for take in sorted(takes, key=lambda take: take.after_step):
        if take.last_step < first or take.after_step >= first + slots:
            continue
        start = by_step.get(take.after_step + 1, (take.after_step + 1 - first) / slots)
        width = max(take.steps / slots, 1 / 120)
        start = max(0.0, min(start, 1 - width))
        free = (lane for lane, end in enumerate(ends) if end <= start + 1e-9)
        lane = next(free, LANES - 1)
        ends[lane] = max(ends[lane], start + width)
        yield TakeBar(take, percent(start), percent(width), lane, top + lane * LANE)
