"""The token strip: one bar a step, or for long sessions one bar for each equal share of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from historyapp.models import Episode
from historyapp.models.history import History
from historyapp.models.takes import Take

BARS = 400
"""A longer session is drawn with so many bars from as many rows, whatever its length."""
SLOTS = 48
"""A shorter session leaves the rest of the strip empty."""
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
    def y(self) -> int:
        return HEIGHT - self.height


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

    bars: list[Bar]
    takes: list[TakeBar]
    slots: int
    height: int
    lane_height: int = LANE - 2
    base: int = HEIGHT


def draw_strip(history: History, takes: list[Take]) -> Strip:
    """The strip of a history, by one query that costs the same for every length above :data:`BARS`."""
    slots = max(SLOTS, history.steps, *(take.last_step for take in takes), 0)
    below = list(_below(takes, slots))
    lanes = max((bar.lane + 1 for bar in below), default=0)
    return Strip(_bars(history, slots), below, slots, HEIGHT + 3 + lanes * LANE)


def _bars(history: History, slots: int) -> list[Bar]:
    count = min(BARS, history.steps)
    rows = history.sample([round((index + 1) * history.steps / count) for index in range(count)])
    shares = list(_shares(rows))
    most = max((share.tokens for share in shares), default=0)
    return [_bar(share, most, slots) for share in shares]


@dataclass(frozen=True, slots=True)
class _Share:
    """The steps that one bar stands for: those after ``before``, up to the row's."""

    before: int
    row: Episode
    tokens: int
    errors: int

    @property
    def steps(self) -> int:
        return self.row.number - self.before


def _shares(rows: list[Episode]) -> Iterator[_Share]:
    """Single steps have figures of their own; running totals tell those of many."""
    before, tokens, errors = 0, 0, 0
    for row in rows:
        if row.number == before + 1:
            yield _Share(before, row, row.tokens, int(row.status == "error"))
        else:
            yield _Share(before, row, max(0, row.total_tokens - tokens), row.total_errors - errors)
        before, tokens, errors = row.number, row.total_tokens, row.total_errors


def _bar(share: _Share, most: int, slots: int) -> Bar:
    single, filled = share.steps == 1, 0.8 if slots <= BARS // 2 else 1
    return Bar(
        first=share.before + 1,
        last=share.row.number,
        outcome=share.row.status if single else ("error" if share.errors else "success"),
        tokens=share.tokens,
        errors=share.errors,
        label=_step_label(share.row) if single else _share_label(share),
        x=percent(share.before, slots),
        width=percent(share.steps * filled, slots),
        height=LEAST + round((HEIGHT - LEAST) * (share.tokens / most) ** 0.5) if most else LEAST,
    )


def _step_label(row: Episode) -> str:
    tools = ", ".join(row.tool_names[:3])
    return " · ".join(filter(None, (f"step {row.number:,}", tools, WORDS.get(row.status, row.status))))


def _share_label(share: _Share) -> str:
    errors = f"{share.errors:,} error{'s' * (share.errors != 1)}" if share.errors else "no errors"
    return f"steps {share.before + 1:,}–{share.row.number:,} · {errors}"


def percent(value: float, of: float) -> str:
    return f"{100 * value / of:.2f}%"


def _below(takes: Iterable[Take], slots: int) -> Iterator[TakeBar]:
    """Takes in lanes, so that they do not hide each other while there is room."""
    ends = [0] * LANES
    for take in sorted(takes, key=lambda take: take.after_step):
        free = (lane for lane, end in enumerate(ends) if end <= take.after_step)
        lane = next(free, LANES - 1)
        ends[lane] = max(ends[lane], take.last_step)
        width = max(take.steps, slots / 120)
        yield TakeBar(take, percent(min(take.after_step, slots - width), slots), percent(width, slots), lane)
