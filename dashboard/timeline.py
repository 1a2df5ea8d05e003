"""The timeline: one bar per step; in long sessions one bar for each equal share of the steps."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.location import Location
from dashboard.rendering.text import visible
from historyapp.models.episodes import StepSample
from historyapp.models.history import History
from historyapp.models.takes import Take

MOST_SINGLE = 400
"""Longest session, in steps, in which each step has its own bar."""
MOST_SHARES = 250
"""Bars of a longer session, at most; each stands for an equal share of the steps."""
GAP = 0.3
"""The largest gap between two bars, in percent of the width, so that a few wide bars are close together."""
HEIGHT, LEAST = 44, 4
"""Heights of the tallest and of the lowest bar, in pixels."""
LANES, LANE = 3, 9
"""Lanes for takes under the bars, and the height of one in pixels."""
STATUS_LABELS = {"in_flight": "in flight", "interrupted_by_human": "interrupted", "abandoned": "no result"}


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """The bar of steps ``first`` to ``last``. ``x`` and ``width`` are percentages of the timeline's width."""

    first: int
    last: int
    outcome: str
    tokens: int
    errors: int
    label: str
    x: str
    width: str
    height: int

    def svg(self, href: str) -> str:
        """The bar as a link; drawn here because a template takes ten times as long for hundreds of them."""
        label = f"{escape(self.label)} · {self.tokens:,} tokens"
        box = f'x="{self.x}" width="{self.width}"'
        bar = f'<rect class="bar-{self.outcome}" {box} y="{HEIGHT - self.height}" height="{self.height}"/>'
        if self.errors:  # the lower part stands for the share of steps that ended in an error
            failed = round(self.height * self.errors / (self.last - self.first + 1))
            bar += f'<rect class="bar-mark" {box} y="{HEIGHT - failed}" height="{failed + 3}"/>'
        return f'<a href="{href}" tabindex="-1"><title>{label}</title>{bar}</a>'


@dataclass(frozen=True, slots=True)
class TakeBar:
    """A take, under the steps that replaced it."""

    take: Take
    x: str
    width: str
    lane: int
    y: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture. ``slots`` is the number of steps that its width stands for."""

    location: Location
    bars: list[TimelineBar]
    takes: list[TakeBar]
    slots: int
    height: int
    description: str
    """For people who do not see the picture."""
    playhead: str
    """The position of the playhead's step."""
    lane_height: int = LANE - 2

    @property
    def svg_bars(self) -> SafeString:
        before, after = escape(self.location.address_of(0)).split("step=0")
        links = (bar.svg(f"{before}step={bar.first}{after}") for bar in self.bars)
        return mark_safe("\n".join(links))  # noqa: S308 labels are escaped


def draw_timeline(location: Location, takes: list[Take]) -> Timeline:
    """The timeline of a history, by one query that costs the same for every length."""
    slots = max(location.steps, *(take.last_step for take in takes), 1)
    below = list(_take_bars(takes, slots))
    lanes = max((bar.lane + 1 for bar in below), default=0)
    steps = location.steps
    description = f"Tokens and outcome of {steps:,} step{'s' * (steps != 1)}"
    description += f", and {len(takes)} take{'s' * (len(takes) != 1)} below" if takes else ""
    return Timeline(
        location,
        bars=list(_step_bars(location.history, slots)),
        takes=below,
        slots=slots,
        height=HEIGHT + 3 + lanes * LANE,
        description=description,
        playhead=percent(location.step - 0.5, slots),
    )


def _step_bars(history: History, slots: int) -> Iterator[TimelineBar]:
    size = 1 if history.steps <= MOST_SINGLE else ceil(history.steps / MOST_SHARES)
    last_steps = [min(end, history.steps) for end in range(size, history.steps + size, size)]
    shares: list[tuple[int, StepSample, int, int]] = []
    before, tokens, errors = 0, 0, 0
    for row in history.sample(last_steps):
        if (
            row.number == before + 1
        ):  # The row has the figures of one step. Those of several are differences of running totals.
            shares.append((before, row, row.tokens, int(row.status == "error")))
        else:
            shares.append((before, row, max(0, row.total_tokens - tokens), row.total_errors - errors))
        before, tokens, errors = row.number, row.total_tokens, row.total_errors
    most = max((tokens for _, _, tokens, _ in shares), default=0)
    for before, row, tokens, errors in shares:
        steps = row.number - before
        if steps == 1:
            tools, status = visible(", ".join(row.tool_names[:3])), STATUS_LABELS.get(row.status, row.status)
            label = " · ".join(filter(None, (f"step {row.number:,}", tools, status)))
        else:
            failed = f"{errors:,} error{'s' * (errors != 1)}" if errors else "no errors"
            label = f"steps {before + 1:,}–{row.number:,} · {failed}"
        yield TimelineBar(
            first=before + 1,
            last=row.number,
            outcome=row.status if steps == 1 else "success",
            tokens=tokens,
            errors=errors,
            label=label,
            x=percent(before, slots),
            width=bar_width(steps, slots),
            height=LEAST + round((HEIGHT - LEAST) * (tokens / most) ** 0.5) if most else LEAST,
        )


def percent(value: float, of: float) -> str:
    return f"{100 * value / of:.2f}%"


def bar_width(steps: int, slots: int) -> str:
    """The width of a bar of ``steps`` steps, less the gap after it if there is room for one."""
    slot = 100 / slots
    gap = min(GAP, 0.2 * slot) if slots <= MOST_SINGLE // 2 else 0
    return f"{steps * slot - gap:.2f}%"


def _take_bars(takes: Iterable[Take], slots: int) -> Iterator[TakeBar]:
    """Takes in lanes, so that they do not hide each other while there is room."""
    ends = [0] * LANES
    for take in sorted(takes, key=lambda take: take.after_step):
        free = (lane for lane, end in enumerate(ends) if end <= take.after_step)
        lane = next(free, LANES - 1)
        ends[lane] = max(ends[lane], take.last_step)
        width = max(take.steps, slots / 120)
        x = percent(min(take.after_step, slots - width), slots)
        yield TakeBar(take, x, percent(width, slots), lane, HEIGHT + 3 + lane * LANE)
