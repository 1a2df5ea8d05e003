"""A session's ledger as people read it: the chart of what each step cost."""

from dataclasses import dataclass

from dashboard.place import Place
from dashboard.strip import bar_width, percent
from historyapp.services.ledger import StepAccount

STEPS = 100
"""Steps that one chart shows, so that it costs the same in every session."""
HEIGHT = 72
"""Of the tallest bar, in pixels."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One step: output above uncached input above what came from a cache. Heights are in pixels."""

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
    bars: list[Bar]
    step: int
    """Where the playhead is."""
    reported: bool
    """Whether any step reports its usage; else bars show what a model would read, by our own count."""
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


def draw_chart(accounts: list[StepAccount], place: Place) -> Chart:
    """The chart of consecutive steps, of which one is the place's."""
    reported = any(account.usage.input or account.usage.output for account in accounts)
    most = max((sum(_tokens(account, reported)) for account in accounts), default=0) or 1
    slots = len(accounts)
    bars = [
        _bar(account, reported, most, (percent(number, slots), bar_width(1, slots)))
        for number, account in enumerate(accounts)
    ]
    return Chart(bars, place.step, reported, place.steps)


def _tokens(account: StepAccount, reported: bool) -> tuple[int, int, int]:
    """From a cache, other input, output."""
    usage = account.usage
    if not reported:
        return 0, account.row.tokens, 0
    return usage.cache_read, max(0, usage.input - usage.cache_read), usage.output


def _bar(account: StepAccount, reported: bool, most: int, place: tuple[str, str]) -> Bar:
    cached, input, output = _tokens(account, reported)
    ends = (cached, cached + input, cached + input + output)
    return Bar(account, *place, *(round(HEIGHT * end / most) for end in ends))
