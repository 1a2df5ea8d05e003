"""The token strip: one bar a step, or for long sessions one bar for each equal share of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.place import Place
from dashboard.rendering.text import visible
from historyapp.models.episodes import StepSample
from historyapp.models.history import History
from historyapp.models.takes import Take

SINGLE = 400
"""So many steps have a bar each."""
SHARES = 250
"""A longer session is drawn with at most so many bars for equal shares of it, whatever its length."""
GAP = 0.3
"""Between two bars at most, in percent of the strip: few bars are wide ones close together."""
HEIGHT, LEAST = 44, 4
"""Of the tallest and of the lowest bar, in pixels."""
LANES, LANE = 3, 9
"""Takes lie in lanes under the bars; so many pixels each."""
WORDS = {"in_flight": "in flight", "interrupted_by_human": "interrupted", "abandoned": "no result"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of steps ``first`` to ``last``. ``x`` and ``width`` are percentages of the strip's width."""

    first: int
    last: int
    outcome: str
    tokens: int
    errors: int
    label: str
    x: str
    width: str
    height: int

    @property
    def failed(self) -> int:
        """How much of the bar stands for steps that ended in an error, in pixels."""
        return round(self.height * self.errors / (self.last - self.first + 1))

    def svg(self, href: str) -> str:
        """The bar as a link; drawn here because a template takes ten times as long for hundreds of them."""
        label = f"{escape(self.label)} · {self.tokens:,} tokens"
        box = f'x="{self.x}" width="{self.width}"'
        bar = f'<rect class="bar-{self.outcome}" {box} y="{HEIGHT - self.height}" height="{self.height}"/>'
        failed = f'<rect class="bar-mark" {box} y="{HEIGHT - self.failed}" height="{self.failed + 3}"/>'
        bar += failed if self.errors else ""
        return f'<a href="{href}" tabindex="-1"><title>{label}</title>{bar}</a>'


@dataclass(frozen=True, slots=True)
class TakeBar:
    """A rewound take, under the steps that took its place."""

    take: Take
    x: str
    width: str
    lane: int

    @property
    def y(self) -> int:
        return HEIGHT + 3 + self.lane * LANE


@dataclass(frozen=True, slots=True)
class Strip:
    """The whole picture. ``slots`` is how many steps its width stands for."""

    place: Place
    bars: list[Bar]
    takes: list[TakeBar]
    slots: int
    height: int
    lane_height: int = LANE - 2

    @property
    def description(self) -> str:
        """For people who do not see the picture."""
        steps, takes = self.place.steps, len(self.takes)
        words = f"Tokens and outcome of {steps:,} step{'s' * (steps != 1)}"
        return f"{words}, and {takes} take{'s' * (takes != 1)} below" if takes else words

    @property
    def svg_bars(self) -> SafeString:
        before, after = escape(self.place.at(0)).split("step=0")
        links = (bar.svg(f"{before}step={bar.first}{after}") for bar in self.bars)
        return mark_safe("\n".join(links))  # noqa: S308 labels are escaped

    @property
    def playhead(self) -> str:
        """Where the playhead's step lies."""
        return percent(self.place.step - 0.5, self.slots)


def draw_strip(place: Place, takes: list[Take]) -> Strip:
    """The strip of a history, by one query that costs the same for every length."""
    slots = max(place.steps, *(take.last_step for take in takes), 1)
    below = list(_below(takes, slots))
    lanes = max((bar.lane + 1 for bar in below), default=0)
    return Strip(place, _bars(place.history, slots), below, slots, HEIGHT + 3 + lanes * LANE)


def _bars(history: History, slots: int) -> list[Bar]:
    size = 1 if history.steps <= SINGLE else ceil(history.steps / SHARES)
    numbers = [min(end, history.steps) for end in range(size, history.steps + size, size)]
    shares = list(_shares(history.sample(numbers)))
    most = max((share.tokens for share in shares), default=0)
    return [_bar(share, most, slots) for share in shares]


@dataclass(frozen=True, slots=True)
class _Share:
    """The steps that one bar stands for: those after ``before``, up to the row's."""

    before: int
    row: StepSample
    tokens: int
    errors: int

    @property
    def steps(self) -> int:
        return self.row.number - self.before


def _shares(rows: list[StepSample]) -> Iterator[_Share]:
    """Single steps have figures of their own; running totals tell those of many."""
    before, tokens, errors = 0, 0, 0
    for row in rows:
        if row.number == before + 1:
            yield _Share(before, row, row.tokens, int(row.status == "error"))
        else:
            yield _Share(before, row, max(0, row.total_tokens - tokens), row.total_errors - errors)
        before, tokens, errors = row.number, row.total_tokens, row.total_errors


def _bar(share: _Share, most: int, slots: int) -> Bar:
    single = share.steps == 1
    return Bar(
        first=share.before + 1,
        last=share.row.number,
        outcome=share.row.status if single else "success",
        tokens=share.tokens,
        errors=share.errors,
        label=_step_label(share.row) if single else _share_label(share),
        x=percent(share.before, slots),
        width=bar_width(share.steps, slots),
        height=LEAST + round((HEIGHT - LEAST) * (share.tokens / most) ** 0.5) if most else LEAST,
    )


def _step_label(row: StepSample) -> str:
    tools = visible(", ".join(row.tool_names[:3]))
    return " · ".join(filter(None, (f"step {row.number:,}", tools, WORDS.get(row.status, row.status))))


def _share_label(share: _Share) -> str:
    errors = f"{share.errors:,} error{'s' * (share.errors != 1)}" if share.errors else "no errors"
    return f"steps {share.before + 1:,}–{share.row.number:,} · {errors}"


def percent(value: float, of: float) -> str:
    return f"{100 * value / of:.2f}%"


def bar_width(steps: int, slots: int) -> str:
    """Of the bar of so many steps: a gap is left after it where there is room for one."""
    slot = 100 / slots
    gap = min(GAP, 0.2 * slot) if slots <= SINGLE // 2 else 0
    return f"{steps * slot - gap:.2f}%"


def _below(takes: Iterable[Take], slots: int) -> Iterator[TakeBar]:
    """Takes in lanes, so that they do not hide each other while there is room."""
    ends = [0] * LANES
    for take in sorted(takes, key=lambda take: take.after_step):
        free = (lane for lane, end in enumerate(ends) if end <= take.after_step)
        lane = next(free, LANES - 1)
        ends[lane] = max(ends[lane], take.last_step)
        width = max(take.steps, slots / 120)
        yield TakeBar(take, percent(min(take.after_step, slots - width), slots), percent(width, slots), lane)
