"""The timeline: lanes above each other that share an axis.

From the top: the inputs; a bar for each step, coloured by its kind of tool; failures; the size of the
context; and takes. In long sessions a bar stands for an equal share of the steps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.location import Location
from dashboard.rendering.text import visible
from dashboard.templatetags.playhead import dollars, duration, short_figure
from dashboard.timeline_axis import Pause, Place, places_by_step, places_by_time
from dashboard.timeline_form import AXES, HEIGHTS
from dashboard.timeline_shares import MOST_SINGLE, StepShare, read_shares
from historyapp.core.call_subjects import KINDS
from historyapp.models.takes import Take

GAP = 0.003
"""The largest gap between two bars, as a share of the width, so that a few wide bars are close together."""
TOP, HEIGHT, LEAST = 14, 48, 4
"""Where the bars begin below the top edge, and heights of the tallest and the lowest bar, in pixels."""
FLOOR = TOP + HEIGHT
FAILURES, FAILURE = FLOOR + 3, 5
"""Where the marks of failures begin, and their height."""
CONTEXT, CONTEXT_HEIGHT = FAILURES + FAILURE + 5, 26
"""Where the lane of the context begins, and its height. Without reported sizes there is none."""
LANES, LANE = 3, 9
"""Lanes for takes, and the height of one in pixels."""
FALL = 0.5
"""The context was compacted where less than this part of it is left."""
LEAST_FALL, MOST_FALLS = 5_000, 8
"""Tokens of the smallest fall that has a label, and the most labels."""
STATUS_LABELS = {"in_flight": "in flight", "interrupted_by_human": "interrupted", "abandoned": "no result"}


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """The bar of a share of the steps. ``x`` and ``width`` are percentages of the timeline's width."""

    share: StepShare
    label: str
    place: Place
    x: str
    width: str
    height: int

    @property
    def first(self) -> int:
        return self.share.first

    @property
    def last(self) -> int:
        return self.share.last

    @property
    def style(self) -> str:
        """The classes of the bar."""
        row = self.share.row
        if self.share.steps > 1:
            return "bar bar-share"
        if row.status in ("interrupted_by_human", "answered", "in_flight", "abandoned"):
            return f"bar kind-{row.kind or 'other'} bar-{row.status}"
        return f"bar kind-{row.kind or 'other'}"

    def svg(self, href: str) -> str:
        """The bar as a link; drawn here because a template takes ten times as long for hundreds of them."""
        box = f'x="{self.x}" width="{self.width}"'
        bar = f'<rect class="{self.style}" {box} y="{FLOOR - self.height}" height="{self.height}"/>'
        failed = self.share.errors or self.share.likely
        if failed:
            # Of a share of many steps the mark is as dense as the failures are.
            part = failed / self.share.steps
            density = "" if self.share.steps == 1 else f' opacity="{0.25 + 0.75 * part:.2f}"'
            name = "failed" if self.share.errors else "likely"
            bar += f'<rect class="{name}" {box} y="{FAILURES}" height="{FAILURE}"{density}/>'
        return f'<a href="{href}" tabindex="-1"><title>{escape(self.label)}</title>{bar}</a>'


@dataclass(frozen=True, slots=True)
class TakeBar:
    """A take, under the steps that replaced it."""

    take: Take
    x: str
    width: str
    lane: int
    y: int


@dataclass(frozen=True, slots=True)
class TimelineMark:
    """A word or a sign at a place of the timeline."""

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
    inputs: list[TimelineMark]
    falls: list[TimelineMark]
    """Where the context shrank."""
    pauses: list[TimelineMark]
    context: str
    """The path of the context's size, 1,000 units wide; empty without reported sizes."""
    first: int
    slots: int
    """The number of steps that its width stands for."""
    has_times: bool
    height: int
    description: str
    """For people who do not see the picture."""
    playhead: str
    """The position of the playhead's step; empty where that is outside."""
    top: int = TOP
    floor: int = FLOOR
    context_top: int = CONTEXT
    context_height: int = CONTEXT_HEIGHT
    lane_height: int = LANE - 2

    @property
    def svg_bars(self) -> SafeString:
        before, after = _link_parts(self.location)
        links = (bar.svg(f"{before}{bar.first}{after}") for bar in self.bars)
        return mark_safe("\n".join(links))  # noqa: S308 labels are escaped

    @property
    def end(self) -> int:
        """The last step that it shows."""
        return self.bars[-1].last if self.bars else 0

    @property
    def axes(self) -> tuple[str, ...]:
        return AXES

    @property
    def height_names(self) -> tuple[str, ...]:
        """The values that the bars can show; money only where it is known."""
        known = any(bar.share.cost for bar in self.bars) or self.location.timeline.height == "cost"
        return HEIGHTS if known else HEIGHTS[:-1]

    @property
    def kinds(self) -> list[str]:
        """The kinds of tools whose colours it uses, for the legend."""
        found = {bar.share.row.kind for bar in self.bars if bar.share.steps == 1}
        return [kind for kind in KINDS if kind in found]

    @property
    def has_shares(self) -> bool:
        return any(bar.share.steps > 1 for bar in self.bars)

    @property
    def has_errors(self) -> bool:
        return any(bar.share.errors for bar in self.bars)

    @property
    def has_likely(self) -> bool:
        return any(bar.share.likely for bar in self.bars)


def draw_timeline(location: Location, takes: list[Take]) -> Timeline:
    """The timeline of a history, by a few queries that cost the same for every length."""
    form = location.timeline.window(location.step, location.steps)
    end = max(location.steps, *(take.last_step for take in takes), 1)
    first, last = (form.first, form.last) if form.last else (1, end)
    slots = last - first + 1
    shares = read_shares(location.history, first, last)
    by_time, pauses = places_by_time(shares) if form.axis == "time" else ([], [])
    places = by_time or places_by_step(shares, first, slots)
    bars = list(_bars(shares, places, form.height))
    context = _context_path(bars)
    top = CONTEXT + (CONTEXT_HEIGHT + 4 if context else 0)
    below = list(_take_bars(takes, bars, first, slots, top))
    lanes = max((bar.lane + 1 for bar in below), default=0)
    return Timeline(
        location,
        bars=bars,
        takes=below,
        inputs=_input_marks(bars),
        falls=_falls(bars),
        pauses=[_pause_mark(pause) for pause in pauses],
        context=context,
        first=first,
        slots=slots,
        has_times=bool(by_time),
        height=top + lanes * LANE,
        description=_description(location, form.height, takes),
        playhead=_playhead(bars, location.step),
    )


def _description(location: Location, height: str, takes: Sequence[Take]) -> str:
    steps = location.steps
    text = f"{height.capitalize()} and outcome of {steps:,} step{'s' * (steps != 1)}"
    return text + (f", and {len(takes)} take{'s' * (len(takes) != 1)} below" if takes else "")


def _link_parts(location: Location) -> tuple[str, str]:
    """What stands before and after a step's number in a link of this page."""
    before, after = escape(location.address_of(0)).split("step=0")
    return f"{before.removeprefix(location.url)}step=", after


def _bars(shares: Sequence[StepShare], places: Sequence[Place], height: str) -> Iterator[TimelineBar]:
    values = [_value(share, height) for share in shares]
    most = max(values, default=0)
    narrowest = min((place.end - place.start for place in places), default=0.0)
    gap = min(GAP, 0.2 * narrowest) if len(places) <= MOST_SINGLE // 2 else 0
    for share, place, value in zip(shares, places, values, strict=True):
        yield TimelineBar(
            share,
            label=_label(share, height),
            place=place,
            x=percent(place.start),
            width=percent(max(place.end - place.start - gap, 0.001)),
            height=LEAST + round((HEIGHT - LEAST) * (value / most) ** 0.5) if most else LEAST,
        )


def _value(share: StepShare, height: str) -> int:
    return {"tokens": share.tokens, "duration": share.milliseconds, "cost": share.cost}[height]


def _label(share: StepShare, height: str) -> str:
    words = {
        "tokens": f"{share.tokens:,} tokens",
        "duration": duration(timedelta(milliseconds=share.milliseconds)),
        "cost": dollars(share.cost),
    }[height]
    if share.steps == 1:
        row = share.row
        tools, status = visible(", ".join(row.tool_names[:3])), STATUS_LABELS.get(row.status, row.status)
        status = "likely failed" if share.likely else status
        return " · ".join(filter(None, (f"step {row.number:,}", tools, status, words)))
    failed = f"{share.errors:,} error{'s' * (share.errors != 1)}" if share.errors else "no errors"
    likely = f"{share.likely:,} likely failed" if share.likely else ""
    steps = f"steps {share.first:,}–{share.last:,}"
    return " · ".join(filter(None, (steps, failed, likely, words)))


def percent(value: float, of: float = 1) -> str:
    return f"{100 * value / of:.2f}%"


def bar_width(steps: int, slots: int) -> str:
    """The width of a bar of ``steps`` steps, less the gap after it if there is room for one."""
    gap = min(GAP, 0.2 / slots) if slots <= MOST_SINGLE // 2 else 0
    return percent(steps / slots - gap)


def _playhead(bars: Sequence[TimelineBar], step: int) -> str:
    """The middle of a step's part of its bar."""
    for bar in bars:
        if bar.first <= step <= bar.last:
            part = (step - bar.first + 0.5) / bar.share.steps
            return percent(bar.place.start + part * (bar.place.end - bar.place.start))
    return ""


def _input_marks(bars: Sequence[TimelineBar]) -> list[TimelineMark]:
    """Where inputs came in. Of shares it is not known."""
    inputs = [(bar, bar.share.row.input_preview) for bar in bars if bar.share.steps == 1]
    return [TimelineMark(bar.x, f"Input: {visible(text)}", bar.first) for bar, text in inputs if text]


def _context_path(bars: Sequence[TimelineBar]) -> str:
    """The outline of the context's size. A step whose call was not reported keeps the size before it."""
    most = max((bar.share.context for bar in bars), default=0)
    if not most:
        return ""
    points, size = list[str](), 0
    for bar in bars:
        size = bar.share.context or size
        y = CONTEXT_HEIGHT - round((CONTEXT_HEIGHT - 2) * size / most, 1)
        points.append(f"{round(1000 * (bar.place.start + bar.place.end) / 2, 1):g} {y:g}")
    left, right = points[0].split()[0], points[-1].split()[0]
    return f"M{left} {CONTEXT_HEIGHT}L{'L'.join(points)}L{right} {CONTEXT_HEIGHT}z"


def _falls(bars: Sequence[TimelineBar]) -> list[TimelineMark]:
    """Where the context shrank to less than half, the largest falls first chosen, in order."""
    found: list[tuple[int, TimelineMark]] = []
    before = 0
    for bar in bars:
        size = bar.share.context
        if size and before * FALL > size and before - size >= LEAST_FALL:
            label = f"{short_figure(before)} → {short_figure(size)}"
            found.append((before - size, TimelineMark(bar.x, label, bar.first)))
        before = size or before
    largest = sorted(found, key=lambda fall: -fall[0])[:MOST_FALLS]
    return [mark for _, mark in sorted(largest, key=lambda fall: fall[1].step)]


def _pause_mark(pause: Pause) -> TimelineMark:
    (start, end), label = pause.place, f"pause of {duration(pause.length)}"
    return TimelineMark(percent(start), label, width=percent(end - start))


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
