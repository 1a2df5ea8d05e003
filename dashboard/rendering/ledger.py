"""The chart of the tokens of each step, for the ledger."""

from dataclasses import dataclass

from dashboard.location import Location
from dashboard.timeline import bar_width, percent
from historyapp.services.ledger import StepAccount

STEPS = 100
"""Steps that one chart shows, so that it costs the same in every session."""
HEIGHT = 72
"""Of the tallest bar, in pixels."""


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One step: output above uncached input above cache reads. Heights are in pixels."""

    account: StepAccount
    x: str
    width: str
    cached: int
    input: int
    output: int
    """Each including those before it: the height up to which it reaches."""

    @property
    def parts(self) -> list[tuple[str, int, int]]:
        """Class, y and height of each part that can be seen."""
        ends = (("output", self.input, self.output), ("input", self.cached, self.input))
        stacked = (*ends, ("cached", 0, self.cached))
        return [(kind, HEIGHT - end, end - start) for kind, start, end in stacked if end > start]


@dataclass(frozen=True, slots=True)
class Chart:
    bars: list[ChartBar]
    step: int
    """Where the playhead is."""
    reported: bool
    """Whether any step has reported usage; else bars show the estimated tokens of the steps."""
    steps: int
    height: int = HEIGHT

    @property
    def first(self) -> int:
        return self.bars[0].account.row.number if self.bars else 0

    @property
    def last(self) -> int:
        return self.bars[-1].account.row.number if self.bars else 0

    @property
    def playhead(self) -> str:
        return percent(self.step - self.first + 0.5, len(self.bars))

    @property
    def earlier(self) -> int | None:
        """A step of the chart before this one."""
        return self.first - 1 if self.first > 1 else None

    @property
    def later(self) -> int | None:
        return self.last + 1 if self.last < self.steps else None


def shown_steps(step: int, steps: int) -> range:
    """The hundred that a step belongs to."""
    first = max(0, step - 1) // STEPS * STEPS + 1
    return range(first, min(steps, first + STEPS - 1) + 1)


def draw_chart(accounts: list[StepAccount], location: Location) -> Chart:
    """The chart of consecutive steps, one of which is the location's."""
    reported = any(account.usage.input or account.usage.output for account in accounts)
    ends: list[tuple[int, int, int]] = []
    for account in accounts:
        cached, input, output = 0, account.row.tokens, 0
        if reported:
            usage = account.usage
            cached, input, output = usage.cache_read, max(0, usage.input - usage.cache_read), usage.output
        ends.append((cached, cached + input, cached + input + output))
    most = max((tokens for _, _, tokens in ends), default=0) or 1
    slots = len(accounts)
    bars = []
    for number, account in enumerate(accounts):
        cached, input, output = (round(HEIGHT * end / most) for end in ends[number])
        x, width = percent(number, slots), bar_width(1, slots)
        bars.append(ChartBar(account, x, width, cached, input, output))
    return Chart(bars, location.step, reported, location.steps)
