"""The bars of the timeline: one for each step, or in long sessions for a share of the steps."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils.html import escape

from dashboard.rendering.text import visible
from dashboard.templatetags.playhead import dollars, duration
from dashboard.timeline.axis import Place
from dashboard.timeline.form import TimelineForm
from dashboard.timeline.shares import MAX_SINGLE, StepShare
from historyapp.core.call_subjects import KINDS

GAP = 0.003
"""The largest gap between two bars, as a share of the width, so that a few wide bars are close together."""
TOP, HEIGHT, MIN = 18, 56, 4
"""Where the bars begin below the top edge, and heights of the tallest and the lowest bar, in pixels."""
FLOOR = TOP + HEIGHT
FAILURES, FAILURE = FLOOR + 3, 5
"""Where the marks of failures begin, and their height."""
OUTCOMES = {
    "success": "success",
    "answered": "answer",
    "interrupted_by_human": "interrupted",
    "in_flight": "in flight",
    "abandoned": "no result",
    "likely": "likely failed",
    "error": "error",
}
"""The outcomes that colours tell apart, in the order of the legend, with their words."""
_OWN_STYLES = ("interrupted_by_human", "answered", "in_flight", "abandoned")
"""Outcomes with a style of their own, whatever the bars are coloured by."""


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """The bar of a share of the steps. ``x`` and ``width`` are percentages of the timeline's width."""

    share: StepShare
    label: str
    place: Place
    x: str
    width: str
    height: int
    colour: str = "tool"

    @property
    def first(self) -> int:
        return self.share.first

    @property
    def last(self) -> int:
        return self.share.last

    @property
    def outcome(self) -> str:
        """A key of :data:`OUTCOMES`; for several steps ``success``: their failures are drawn separately."""
        if self.share.steps > 1:
            return "success"
        return "likely" if self.share.likely else self.share.row.status

    @property
    def style(self) -> str:
        """The classes of the bar."""
        row = self.share.row
        if self.colour == "outcome":
            return f"bar outcome-{self.outcome}" + (" bar-share" if self.share.steps > 1 else "")
        if self.share.steps > 1:
            return f"bar bar-share kind-{row.kind}" if row.kind else "bar bar-share"
        kind = f"bar kind-{row.kind or 'other'}"
        return f"{kind} bar-{row.status}" if row.status in _OWN_STYLES else kind

    def svg(self, href: str) -> str:
        """The bar as a link; drawn here because a template takes ten times as long for hundreds of them."""
        box, share = f'x="{self.x}" width="{self.width}"', self.share
        bar = f'<rect class="{self.style}" {box} y="{FLOOR - self.height}" height="{self.height}"/>'
        if self.colour == "outcome" and share.steps > 1:
            bar += self._failed_parts(box)
        failed = share.errors or share.likely
        if failed:
            # For a share of many steps, the density of the mark shows the share of failures.
            part = failed / share.steps
            density = "" if share.steps == 1 else f' opacity="{0.25 + 0.75 * part:.2f}"'
            name = "failed" if share.errors else "likely"
            bar += f'<rect class="{name}" {box} y="{FAILURES}" height="{FAILURE}"{density}/>'
        return f'<a href="{href}" tabindex="-1"><title>{escape(self.label)}</title>{bar}</a>'

    def _failed_parts(self, box: str) -> str:
        """The failed parts of a share, from the bottom up. Their height shows their number."""
        parts, floor = "", FLOOR
        for outcome, steps in (("error", self.share.errors), ("likely", self.share.likely)):
            if steps:
                height = max(2, round(self.height * steps / self.share.steps))
                floor -= height
                parts += f'<rect class="bar outcome-{outcome}" {box} y="{floor}" height="{height}"/>'
        return parts


def draw_bars(
    shares: Sequence[StepShare], places: Sequence[Place], form: TimelineForm
) -> Iterator[TimelineBar]:
    figure = {"tokens": "tokens", "duration": "milliseconds", "cost": "cost"}[form.height]
    values: list[int] = [getattr(share, figure) for share in shares]
    maximum = max(values, default=0)
    narrowest = min((place.end - place.start for place in places), default=0.0)
    gap = min(GAP, 0.2 * narrowest) if len(places) <= MAX_SINGLE // 2 else 0
    for share, place, value in zip(shares, places, values, strict=True):
        yield TimelineBar(
            share,
            label=_label(share, form.height),
            place=place,
            x=percent(place.start),
            width=percent(max(place.end - place.start - gap, 0.001)),
            height=MIN + round((HEIGHT - MIN) * (value / maximum) ** 0.5) if maximum else MIN,
            colour=form.colour,
        )


def legend_of(bars: Sequence[TimelineBar], colour: str) -> Iterator[tuple[str, str]]:
    """Class and word of each colour and style that the bars use."""
    if colour == "outcome":
        outcomes = {bar.outcome for bar in bars}
        if any(bar.share.steps > 1 and bar.share.errors for bar in bars):
            outcomes.add("error")
        if any(bar.share.steps > 1 and bar.share.likely for bar in bars):
            outcomes.add("likely")
        yield from ((f"outcome-{name}", word) for name, word in OUTCOMES.items() if name in outcomes)
        return
    kinds = {bar.share.row.kind for bar in bars}
    single = [bar.share.row for bar in bars if bar.share.steps == 1]
    if any(not row.kind and row.status != "answered" for row in single):
        kinds.add("other")
    yield from ((f"kind-{kind}", kind) for kind in KINDS if kind in kinds)
    if any(bar.share.steps > 1 and not bar.share.row.kind for bar in bars):
        yield "outcome-success", "no tool"
    statuses = {row.status for row in single}
    yield from ((f"outcome-{name}", OUTCOMES[name]) for name in _OWN_STYLES if name in statuses)


def bar_at(bars: Sequence[TimelineBar], step: int) -> TimelineBar | None:
    """The bar that represents a step, or None if the timeline does not show it."""
    index = bisect_right(bars, step, key=lambda bar: bar.first) - 1
    return bars[index] if index >= 0 and step <= bars[index].last else None


def place_of(bars: Sequence[TimelineBar], step: float) -> float | None:
    """The position of a step, from 0 to 1; ``step`` plus a half is its middle. None: not in the timeline."""
    bar = bar_at(bars, int(step))
    if bar is None:
        return None
    part = (step - bar.first) / bar.share.steps
    return bar.place.start + part * (bar.place.end - bar.place.start)


def percent(value: float, of: float = 1) -> str:
    return f"{100 * value / of:.2f}%"


def bar_width(steps: int, slots: int) -> str:
    """The width of a bar of ``steps`` steps, less the gap after it if there is room for one."""
    gap = min(GAP, 0.2 / slots) if slots <= MAX_SINGLE // 2 else 0
    return percent(steps / slots - gap)


def _label(share: StepShare, height: str) -> str:
    words = {
        "tokens": f"{share.tokens:,} tokens",
        "duration": duration(timedelta(milliseconds=share.milliseconds)),
        "cost": dollars(share.cost),
    }[height]
    if share.steps == 1:
        row = share.row
        status = OUTCOMES["likely"] if share.likely else OUTCOMES.get(row.status, row.status)
        status = "answered" if row.status == "answered" else status
        return " · ".join(
            filter(None, (f"step {row.number:,}", visible(", ".join(row.tool_names[:3])), status, words))
        )
    failed = f"{share.errors:,} error{'s' * (share.errors != 1)}" if share.errors else "no errors"
    likely = f"{share.likely:,} likely failed" if share.likely else ""
    sample = f"one of them {share.row.kind}" if share.row.kind else ""
    steps = f"steps {share.first:,}–{share.last:,}"
    return " · ".join(filter(None, (steps, failed, likely, words, sample)))
