"""The minimap of a long session: the whole run, and in it the part that the timeline shows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dashboard.location import Location
from dashboard.timeline.bars import percent
from dashboard.timeline.form import TimelineForm
from dashboard.timeline.shares import MAX_SINGLE, StepShare, read_shares

WIDTH, HEIGHT = 1000, 22
"""The size of the picture's coordinates. The width is stretched to the page."""
FLOOR, MIN = 16, 3
"""The bottom of the failure columns, and the height of the column of a share with one failure."""
SHORT, LONG = 2, 5
"""The heights of the lines of a share with few inputs or compactions, and of the share with the most."""
HIT_SLOTS, HIT_LANE, MIN_HIT = 250, 7, 5
"""Parts of the lane of hits, its height, and the height of the column of a part with few hits."""
SLICES = 20
"""Links into which the whole width is divided."""


@dataclass(frozen=True, slots=True)
class MapSlice:
    """A link to a part of the run."""

    href: str
    label: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Minimap:
    """The whole run by step. Paths are in coordinates of ``WIDTH`` and ``HEIGHT``."""

    location: Location
    first: int
    last: int
    """The part that the timeline shows."""
    failures: str
    """The path of the failure columns. Their height shows the density of reported and likely failures."""
    inputs: str
    """The path of lines from the upper edge where turns begin; longer where turns are denser."""
    compactions: str
    """The path of lines from the lower edge for compactions; longer where they are denser."""
    hits: str
    """The path of the columns of steps that contain the search text, in a lane below the picture; higher
    where they are denser. Empty without any: then there is no lane."""
    searched: tuple[int, int]
    """The first and the last step that the search has covered."""
    slices: list[MapSlice]

    @property
    def steps(self) -> int:
        return self.location.steps

    @property
    def x(self) -> str:
        return percent(self.first - 1, self.steps)

    @property
    def end(self) -> str:
        return percent(self.last, self.steps)

    @property
    def width(self) -> str:
        return percent(self.last - self.first + 1, self.steps)

    @property
    def searched_from(self) -> str:
        return percent(self.searched[0] - 1, self.steps)

    @property
    def searched_to(self) -> str:
        return percent(self.searched[1], self.steps)

    @property
    def playhead(self) -> str:
        return percent(self.location.step - 0.5, self.steps)


def draw_map(
    location: Location,
    form: TimelineForm,
    shown: Sequence[StepShare],
    hits: Sequence[int] = (),
    searched: tuple[int, int] | None = None,
) -> Minimap | None:
    """The minimap, or None in a session that is short enough to be seen step by step.

    Args:
        form: how the timeline is drawn, with the part that it shows.
        shown: the shares of that part. Without a zoom they are those of the whole run.
        hits: steps that contain the search text. Scripts draw them again when the search changes.
        searched: the steps that the search has covered; None: all.
    """
    if location.steps <= MAX_SINGLE:
        return None
    shares = read_shares(location.history, 1, location.steps, usage=False) if form.last else shown
    return Minimap(
        location,
        first=form.first or 1,
        last=form.last or location.steps,
        failures="".join(_columns(shares, location.steps)),
        inputs="".join(_lines(shares, [share.turns for share in shares], location.steps, "0v")),
        compactions="".join(
            _lines(shares, [share.compactions for share in shares], location.steps, f"{HEIGHT}v-")
        ),
        hits="".join(_hit_columns(hits, location.steps)),
        searched=searched or (1, location.steps),
        slices=list(_slices(location, form)),
    )


def _columns(shares: Sequence[StepShare], steps: int) -> Iterator[str]:
    """Paths of columns. Their height grows with the share of failed steps."""
    for share in shares:
        failed = share.errors + share.likely
        if failed:
            x, width = WIDTH * (share.first - 1) / steps, WIDTH * share.steps / steps
            height = min(FLOOR, MIN + round((FLOOR - MIN) * (failed / share.steps) ** 0.5))
            yield f"M{x:.0f} {FLOOR}v-{height}h{width:.0f}v{height}z"


def _hit_columns(hits: Sequence[int], steps: int) -> Iterator[str]:
    """``static/js/find.js`` does the same."""
    counts = Counter((step - 1) * HIT_SLOTS // steps for step in hits)
    maximum, width = max(counts.values(), default=1), WIDTH // HIT_SLOTS
    for slot, count in counts.items():
        height = MIN_HIT + int((HIT_LANE - MIN_HIT) * count / maximum + 0.5)
        yield f"M{slot * width} {HIT_LANE}v-{height}h{width}v{height}z"


def _lines(shares: Sequence[StepShare], counts: Sequence[int], steps: int, start: str) -> Iterator[str]:
    """A line for each share with a count; ``start`` says where it begins and its direction."""
    maximum = max(counts, default=0)
    for share, count in zip(shares, counts, strict=True):
        if count:
            x, length = WIDTH * (share.first - 1) / steps, SHORT + round((LONG - SHORT) * count / maximum)
            yield f"M{x:.0f} {start}{length}"


def _slices(location: Location, form: TimelineForm) -> Iterator[MapSlice]:
    """Links to parts that are as long as the shown one. If all is shown, links to single slices."""
    steps = location.steps
    for number in range(SLICES):
        first, end = steps * number // SLICES + 1, steps * (number + 1) // SLICES
        part = replace(form, first=first, last=end)
        if form.last:
            size = form.last - form.first + 1
            start = max(1, min((first + end - size) // 2 + 1, steps - size + 1))
            part = replace(form, first=start, last=start + size - 1)
        step = min(max(location.step, part.first), part.last)
        yield MapSlice(
            replace(location, step=step, timeline=part).address,
            f"Show steps {part.first:,}–{part.last:,}",
            percent(first - 1, steps),
            percent(end - first + 1, steps),
        )
