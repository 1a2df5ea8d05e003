"""The tokens of each step, for the ledger: a chart."""

from dataclasses import dataclass
from itertools import accumulate, pairwise

from dashboard.location import Location
from dashboard.timeline.bars import bar_width, percent
from historyapp.services.ledger import StepAccount

STEPS = 100
"""Steps in one chart. The number is fixed, so that a chart costs the same in every session."""
HEIGHT = 72
"""Height of the tallest bar, in pixels."""


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One step. Heights are in pixels."""

    account: StepAccount
    x: str
    width: str
    height: int
    parts: list[tuple[str, int, int]]
    """Class, y and height of each visible part: output, uncached input, cache writes, cache reads."""


@dataclass(frozen=True, slots=True)
class Chart:
    bars: list[ChartBar]
    reported: bool
    """Whether any step has reported usage; otherwise bars show the estimated tokens of the steps."""
    step: int
    """The horizontal position of the playhead."""
    playhead: str
    first: int
    last: int
    earlier: int | None
    """A step of the chart before this one."""
    later: int | None
    maximum: int
    """The tokens of the tallest bar."""
    height: int = HEIGHT


def shown_steps(step: int, steps: int) -> range:
    """The numbers of the hundred steps that are shown with a step."""
    first = max(0, step - 1) // STEPS * STEPS + 1
    return range(first, min(steps, first + STEPS - 1) + 1)


def draw_chart(accounts: list[StepAccount], location: Location) -> Chart:
    """The chart of consecutive steps around the location's step."""
    reported = any(account.usage.input or account.usage.output for account in accounts)
    kinds: tuple[str, ...] = ("share-cached", "share-written", "share-uncached", "share-output")
    tokens: list[tuple[int, ...]] = []
    for account in accounts:
        usage = account.usage
        tokens.append((usage.cache_read, usage.cache_write, usage.uncached, usage.output))
    if not reported:
        kinds, tokens = ("chart-estimated",), [(account.row.tokens,) for account in accounts]
    maximum, slots = max(map(sum, tokens), default=0) or 1, max(1, len(accounts))
    bars = []
    for number, account in enumerate(accounts):
        ends = [0, *(round(HEIGHT * end / maximum) for end in accumulate(tokens[number]))]
        stacked = zip(kinds, pairwise(ends), strict=True)
        parts = [(kind, HEIGHT - end, end - start) for kind, (start, end) in stacked if end > start]
        bars.append(ChartBar(account, percent(number, slots), bar_width(1, slots), ends[-1], parts))
    first, last = (accounts[0].row.number, accounts[-1].row.number) if accounts else (0, 0)
    return Chart(
        bars,
        reported,
        location.step,
        playhead=percent(location.step - first + 0.5, slots),
        first=first,
        last=last,
        earlier=first - 1 if first > 1 else None,
        later=last + 1 if last < location.steps else None,
        maximum=max(map(sum, tokens), default=0),
    )
