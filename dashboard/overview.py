"""The overview page: bars of shares, rows of tables, and a chart of the size of the context."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, groupby

from django.urls import reverse
from django.utils.functional import cached_property

from dashboard.jumps import FIRST_ERROR
from dashboard.location import Location
from dashboard.run_head import MIN_SHOWN, IdleTime, idle_times
from dashboard.timeline.bars import percent
from historyapp.core.overview.figures import CommandFigures, RunFigures, StepFigure, ToolFigures
from historyapp.core.overview.files import FileFigures
from historyapp.core.overview.findings import Finding
from historyapp.core.overview.repeats import Repeat
from historyapp.core.overview.sizes import ContextSizes
from historyapp.core.person_tools import asking_names
from historyapp.core.short_targets import short_target, short_targets
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.services.ledger import ledger_of
from historyapp.services.missing_costs import missing_cost
from historyapp.services.overview import RunOverview

SHOWN = 12
"""Rows of a table that are not folded."""
MAX_ROWS, MAX_SLOWEST = 40, 8
"""Rows of a table until all are requested, and steps in the list of slowest steps. The API returns all."""
LINKS = 60
"""The number of parts of the picture that are links to steps."""
MAX_MARKS = 40
"""Lines of one kind in the picture."""
ROWS = 40
"""Rows of the table behind the picture, without compactions."""
WIDTH, HEIGHT = 1000, 130
"""The size of the picture in its own coordinates."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a bar, and its row below. ``x`` and ``width`` are percentages of the bar's width."""

    name: str
    style: str
    """The class of its colour."""
    value: int
    href: str
    """The address of the list of its steps."""
    x: str
    width: str


def shares(parts: Sequence[tuple[str, str, int, str]]) -> list[Share]:
    """Parts, given as name, class, value and address, side by side."""
    total = sum(value for _, _, value, _ in parts) or 1
    ends = accumulate(value for _, _, value, _ in parts)
    return [
        Share(*part, percent(end - part[2], total), percent(part[2], total))
        for part, end in zip(parts, ends, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a step."""

    kind: str
    step: int
    x: str
    label: str


@dataclass(frozen=True, slots=True)
class ChartLink:
    """A part of the picture that leads to a step."""

    step: int
    tokens: int
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class ContextChart:
    """The size of the context over the run."""

    sizes: ContextSizes
    area: str
    """The path of the filled shape, in coordinates of ``WIDTH`` and ``HEIGHT``; likewise ``line``."""
    line: str
    window: int | None
    window_y: str
    """Percentage of the height; empty if the window is far above all sizes or unknown."""
    marks: list[Mark]
    links: list[ChartLink]
    rows: list[tuple[int, int]]
    """Steps and tokens of the table behind it."""
    last: int
    maximum: int
    width: int = WIDTH
    height: int = HEIGHT


def draw_context(overview: RunOverview) -> ContextChart | None:
    """The picture, or None if no step has a size."""
    figures = overview.figures
    sizes, last = figures.sizes, max(figures.steps, 1)
    if not sizes.points:
        return None
    maximum = max(size for _, size in sizes.points)
    window = overview.window if overview.window and overview.window <= 4 * maximum else 0
    top = 1.1 * max(maximum, window)
    points = [(WIDTH * (step - 0.5) / last, HEIGHT * (1 - size / top)) for step, size in sizes.points]
    if len(points) == 1:  # one point alone would be invisible
        [(x, y)], half = points, WIDTH / last / 2
        points = [(x - half, y), (x + half, y)]
    line = "L".join(f"{x:.0f} {y:.1f}" for x, y in points)
    return ContextChart(
        sizes=sizes,
        area=f"M{points[0][0]:.0f} {HEIGHT}L{line}L{points[-1][0]:.0f} {HEIGHT}Z",
        line=f"M{line}",
        window=overview.window,
        window_y=f"{100 * (1 - window / top):.1f}%" if window else "",
        marks=list(_marks(overview, last)),
        links=list(_links(sizes, last)),
        rows=sizes.points[:: max(1, -(-len(sizes.points) // ROWS))],
        last=last,
        maximum=maximum,
    )


def _marks(overview: RunOverview, last: int) -> Iterator[Mark]:
    figures = overview.figures
    turns = figures.turns if figures.turn_count <= MAX_MARKS else []
    for step in turns:
        yield Mark("turn", step, percent(step - 1, last), f"input from a person before step {step:,}")
    for compaction in figures.sizes.compactions[:MAX_MARKS]:
        label = f"compacted before step {compaction.step:,}"
        if compaction.before and compaction.after:
            label += f": {compaction.before:,} → {compaction.after:,} tokens"
        yield Mark("compaction", compaction.step, percent(compaction.step - 1, last), label)
    for loss in figures.sizes.losses[:MAX_MARKS]:
        label = f"shrank before step {loss.step:,}: {loss.before:,} → {loss.after:,} tokens"
        yield Mark("loss", loss.step, percent(loss.step - 1, last), label)
    for step in overview.rewinds[:MAX_MARKS]:
        if step <= figures.steps:
            yield Mark("rewind", step, percent(step, last), f"rewound to step {step:,}")


def _links(sizes: ContextSizes, last: int) -> Iterator[ChartLink]:
    """Slices of equal width, each with the largest size in it."""
    size = max(1, last / LINKS)
    for slot, group in groupby(sizes.points, key=lambda point: int((point[0] - 1) / size)):
        step, tokens = max(group, key=lambda point: point[1])
        yield ChartLink(step, tokens, percent(slot * size, last), percent(size, last))


@dataclass(frozen=True)
class OverviewPage:
    """The data of the template."""

    overview: RunOverview
    location: Location
    has_all_rows: bool = False
    """Whether the tables have all rows."""

    @property
    def figures(self) -> RunFigures:
        return self.overview.figures

    @property
    def first_failure(self) -> str:
        """The address of the first failure, otherwise of that of the sub-agent that failed first; empty
        without one."""
        if failure := self.figures.first_failure:
            return f"{self.location.address_of(failure.step)}#failure"
        child = self.overview.first_failing
        return f"{reverse('jump', args=[child.session.pk])}?to={FIRST_ERROR}" if child else ""

    @cached_property
    def findings(self) -> list[tuple[Finding, str]]:
        """The findings, each with the line or the target of its step that says what it was about."""
        return [(finding, self._subject_of(finding)) for finding in self.overview.findings]

    def _subject_of(self, finding: Finding) -> str:
        figures, history = self.figures, self.overview.history
        if finding.kind == "first_failure" and figures.first_failure:
            return figures.first_failure.line or figures.first_failure.target
        if finding.kind == "slowest_step":
            return short_target(figures.slowest[0].target)
        step = finding.steps[0] if finding.steps else 0
        if finding.kind not in ("longest_approval", "longest_pause") or not 1 <= step <= history.steps:
            return ""
        row = history.row(step)
        if finding.kind == "longest_pause" and not _asked_for(history, row, finding.milliseconds):
            return ""
        target = f" {short_target(row.target)}" if len(row.tool_names) == 1 else ""
        return f"{', '.join(dict.fromkeys(row.tool_names))}{target}"

    @property
    def active_time(self) -> timedelta | None:
        return self.overview.active_time

    @property
    def idle_times(self) -> list[IdleTime]:
        return idle_times(self.overview)

    @cached_property
    def times(self) -> list[Share]:
        """The shares of the active time, in milliseconds."""
        figures = self.figures
        waits = figures.waits or figures.approvals
        waited = self.location.address_of(waits[0][1]) if waits else "#context-size"
        parts = (
            ("model", "share-model", figures.model_time, "#most-expensive"),
            ("tools", "share-tools", figures.tool_time, "#slowest"),
            ("waiting for a person", "share-person", figures.waiting_time, waited),
        )
        unanswered = ("calls without a result", "share-unanswered", figures.unanswered_time, "#tools")
        return shares([*parts, unanswered] if figures.unanswered_time >= MIN_SHOWN else parts)

    @cached_property
    def buckets(self) -> list[Share]:
        """Input and output tokens as reported."""
        usage = self.overview.tokens.usage
        parts = (
            ("read from cache", "share-cached", usage.cache_read, "#context-size"),
            ("written to cache", "share-written", usage.cache_write, "#most-expensive"),
            ("uncached input", "share-uncached", usage.uncached, "#most-expensive"),
            ("output", "share-output", usage.output, "#most-expensive"),
        )
        return shares(parts)

    @cached_property
    def costs(self) -> list[Share]:
        """The cost of each kind of token, in millionths of a dollar; empty unless all of it is priced."""
        if self.overview.money.source != "priced":
            return []
        costs, location = ledger_of(self.location.history).costs, self.location
        address = f"{reverse('ledger', args=[location.session.pk])}?step=1{location.as_of_parameter}"
        parts = (
            ("read from cache", "share-cached", round(costs.cache_read), address),
            ("written to cache", "share-written", round(costs.cache_write), address),
            ("uncached input", "share-uncached", round(costs.uncached), address),
            ("output", "share-output", round(costs.output), address),
        )
        return shares(parts)

    @property
    def cache_minutes(self) -> int:
        """How long the provider keeps a cache, as the usage states it."""
        return self.figures.cache_misses.lifetime // 60

    @property
    def edited_files(self) -> int:
        return sum(file.is_edited for _, file in self.overview.files)

    @property
    def deleted_files(self) -> int:
        return sum(file.deleted_in > 0 for _, file in self.overview.files)

    @property
    def has_too_few_tokens(self) -> bool:
        """Whether pages say that the source reports too few output tokens."""
        return self.figures.too_few.is_noted(self.overview.tokens.usage.output)

    @cached_property
    def missing_cost(self) -> int | None:
        """What these output tokens cost at least, in millionths of a dollar; None if that is unknown."""
        return missing_cost(self.overview.history, self.overview.money, self.figures.too_few)

    @cached_property
    def chart(self) -> ContextChart | None:
        return draw_context(self.overview)

    @cached_property
    def tools(self) -> list[tuple[str, ToolFigures, str]]:
        """Name, figures, and the width of a bar for its tokens."""
        maximum = max((tool.tokens for _, tool in self.overview.tools), default=0) or 1
        return [
            (name, tool, percent(tool.tokens, maximum))
            for name, tool in self.overview.tools[: self._max_rows]
        ]

    @cached_property
    def files(self) -> list[tuple[str, str, FileFigures]]:
        """Path, the path below the folder that all files share, and figures."""
        files = self.overview.files[: self._max_rows]
        shorts = self._shorts([path for path, _ in files])
        return [(path, short, file) for (path, file), short in zip(files, shorts, strict=True)]

    @property
    def commands(self) -> list[tuple[str, str, CommandFigures]]:
        """The command, its short form, and figures."""
        commands = self.overview.commands[: self._max_rows]
        shorts = short_targets(command for command, _ in commands)
        return [(command, shorts[command], runs) for command, runs in commands]

    @property
    def unlisted_files(self) -> int:
        """The number of files that the page does not list."""
        return len(self.overview.files) - len(self.files)

    @property
    def unlisted_commands(self) -> int:
        """The number of commands that the page does not list."""
        return len(self.overview.commands) - len(self.commands)

    @property
    def further_files(self) -> int:
        """The number of files that are listed only on demand."""
        return max(0, len(self.overview.files) - SHOWN)

    @property
    def further_commands(self) -> int:
        """The number of commands that are listed only on demand."""
        return max(0, len(self.overview.commands) - SHOWN)

    @property
    def _max_rows(self) -> int | None:
        return None if self.has_all_rows else MAX_ROWS

    @property
    def slowest(self) -> list[tuple[StepFigure, str]]:
        """The slowest steps, with their targets below the folder that all files share or a command enters."""
        slowest = self.figures.slowest[:MAX_SLOWEST]
        return list(zip(slowest, self._shorts([step.target for step in slowest]), strict=True))

    @property
    def repeats(self) -> list[tuple[Repeat, str]]:
        """The findings of repeated work, with their targets below that folder."""
        repeats = self.figures.repeated.findings()[:SHOWN]
        return list(zip(repeats, self._shorts([repeat.target for repeat in repeats]), strict=True))

    def _shorts(self, targets: Sequence[str]) -> list[str]:
        shorts = short_targets(targets)
        below = [target.removeprefix(self._folder) for target in targets]
        return [
            shorts[target] if path == target else path for target, path in zip(targets, below, strict=True)
        ]

    @cached_property
    def _folder(self) -> str:
        return _shared_folder([path for path, _ in self.overview.files])


def _asked_for(history: History, row: Episode, waited: int) -> bool:
    """Whether a wait of so many milliseconds was for the answer to a call, not for an earlier input."""
    if not asking_names(row.tool_names) or row.finished_at is None:
        return False
    before = history.row(row.number - 1).finished_at if row.number > 1 else None
    wait = timedelta(milliseconds=waited)
    return row.finished_at - row.started_at >= wait and (not before or row.started_at - before < wait)


def _shared_folder(paths: Sequence[str]) -> str:
    """The longest folder, with a slash at its end, in which all files are; empty if there is none."""
    folder = ""
    for depth in range(1, 50):
        folders = {"/".join(path.split("/")[:depth]) + "/" for path in paths}
        if len(folders) != 1 or not paths[0].startswith(only_folder := folders.pop()):
            break
        folder = only_folder
    return folder
