"""The overview of a session: its figures, findings, cost and sub-agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.utils.functional import cached_property

from historyapp.core.dates import known_time
from historyapp.core.overview.figures import CommandFigures, RunFigures, StepFigure, ToolFigures
from historyapp.core.overview.files import FileFigures
from historyapp.core.overview.findings import Ending, Finding, SubagentFailures, choose_findings, ending_of
from historyapp.core.run_costs import RunMoney, RunTokens, money_of, tokens_of
from historyapp.core.settings import known_window
from historyapp.core.usage import Usage
from historyapp.models import Entry, Session
from historyapp.models.history import History
from historyapp.models.landmarks import first_failures
from historyapp.models.relatives import starting_steps
from historyapp.models.takes import Take, as_begun, takes
from historyapp.services.figures import run_figures
from historyapp.services.figures.largest_request import largest_request
from historyapp.services.figures.run_figures import CountedRun, count_run
from historyapp.services.list_columns import RunSpan, own_totals, run_span
from historyapp.services.missing_subagents import MissingSubagents, missing_subagents
from historyapp.services.prices import price_list
from historyapp.services.take_costs import TakeCosts, take_costs

MAX_SUBAGENTS, MAX_LEVELS = 200, 5
"""The maximum number of sub-agents in an overview, and of their levels."""
MAX_EXPENSIVE = 8
_COLUMNS = (
    "title", "agent", "model", "status", "tail", "steps", "errors", "spawned_by", "last_entry_at", "project",
    "spawned_position", "duration", "head", "forked_from", "tail_start", "closed_spans",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExpensiveStep:
    """The cost of one step's model call, as the source reported it, otherwise by the price list."""

    figure: StepFigure
    micros: int


@dataclass(slots=True)
class Subagent:
    """A session that the agent of another session started. Its figures include those of all sub-agents below
    it."""

    session: Session
    level: int
    """The level in the tree; 1 if the session of the overview started it."""
    steps: int
    errors: int
    """Steps with a reported error."""
    likely_failures: int
    """Steps that likely failed."""
    tokens: int
    """As the provider reported them, otherwise as Playhead counts them."""
    micros: int
    unpriced: int
    """Sub-agents whose cost is unknown, at least in part."""
    milliseconds: int | None
    """The time that it took, of a fork from its first own entry; None without entries. Does not include
    sub-agents below it, because some run in parallel."""
    has_own_failure: bool
    """Whether one of its own steps failed or likely failed."""
    below: int = 0
    """The number of sub-agents below it."""
    started_at: datetime | None = None
    """The time of its first entry; None if unknown, and for forks."""
    step: int | None = None
    """The step whose tool call started it; None if unknown, or if another sub-agent started it."""


@dataclass(frozen=True)
class RunOverview:
    history: History
    counted: CountedRun
    tokens: RunTokens
    money: RunMoney
    subagents: list[Subagent]
    """In tree order: each after the session that started it."""

    @property
    def figures(self) -> RunFigures:
        return self.counted.figures

    @cached_property
    def ending(self) -> Ending:
        history = self.history
        session = history.session
        is_newest = history.as_of is None or history.as_of == session.head
        exit_status = session.metadata.get("exit_status") if is_newest else None
        if exit_status and not as_begun([session]):
            exit_status = None
        is_live = is_newest and session.status == Session.Status.LIVE and not session.is_untouched_fork
        return ending_of(self.figures, is_live=is_live, exit_status=exit_status)

    @cached_property
    def findings(self) -> list[Finding]:
        return choose_findings(self.figures, self.ending, self.subagent_failures)

    @cached_property
    def subagent_failures(self) -> SubagentFailures:
        """The failures of all sub-agents, also of nested ones."""
        failing = [child.session for child in self.subagents if child.has_own_failure]
        direct = [child for child in self.subagents if child.level == 1]
        starters = (child.step for child in direct if child.step and (child.errors or child.likely_failures))
        return SubagentFailures(
            len(self.subagents),
            len(failing),
            sum(child.errors for child in direct),
            sum(child.likely_failures for child in direct),
            tuple(sorted(set(starters))),
        )

    @cached_property
    def first_failing(self) -> Subagent | None:
        """The sub-agent that failed first. Those with unknown times come last, by their starts."""
        failing = [child for child in self.subagents if child.has_own_failure]
        if len(failing) < 2:
            return failing[0] if failing else None
        moments = first_failures([child.session for child in failing])

        def when(child: Subagent) -> tuple[bool, datetime]:
            moment = moments.get(child.session.pk)
            return moment is None, moment or child.started_at or datetime.max.replace(tzinfo=UTC)

        return min(failing, key=when)

    @cached_property
    def span(self) -> RunSpan | None:
        """When the first recorded and the newest live entry happened; None if the run is undated."""
        return self._recorded if self.figures.is_dated else None

    @property
    def total_time(self) -> timedelta | None:
        """From the first to the newest entry, or None if the run is undated. It includes the idle time, such
        as that until a rewound run was continued. It does not include the time between the entries that a
        fork shares and its own: it may begin long after them. While a fork is being counted: the time that
        the model, tools and people took so far."""
        if self.span is None:
            return None
        figures, is_fork = self.figures, self.history.session.forked_from_id is not None
        total = max(0, self.span.milliseconds - figures.fork_time)
        if is_fork and not self.counted.is_complete:
            total = figures.model_time + figures.tool_time + figures.waiting_time + figures.unanswered_time
        return timedelta(milliseconds=total)

    @cached_property
    def active_time(self) -> timedelta | None:
        """The total without the idle time: the sum of its parts, as in lists. None if the run is undated."""
        if self.total_time is None or not self.counted.is_complete:
            return self.total_time
        idle = timedelta(milliseconds=self.rewound_time + self.outside_time)
        return max(timedelta(0), self.total_time - idle)

    @property
    def rewound_time(self) -> int:
        """The milliseconds until the run was continued after a rewind, as far as the total includes them."""
        return self.figures.rewound_time if self.counted.is_complete else 0

    @property
    def outside_time(self) -> int:
        """The milliseconds of the total that no part includes: before the first input or step, and after the
        last entry that a model reads, an agent's program may have recorded other entries."""
        if self.total_time is None or not self.counted.is_complete:
            return 0
        times = self.figures
        parts = times.model_time + times.tool_time + times.waiting_time + times.unanswered_time
        return max(0, round(self.total_time / timedelta(milliseconds=1)) - parts - self.rewound_time)

    @property
    def recorded_at(self) -> datetime | None:
        """When all entries were recorded, if they have one time; None if they have no times."""
        return self._recorded.newest if self._recorded and not self.figures.is_dated else None

    @cached_property
    def _recorded(self) -> RunSpan | None:
        return run_span(self.history.session, self.history.lineage)

    @cached_property
    def model(self) -> str:
        """The most used model, otherwise the session's."""
        used = {name: totals.calls for name, totals in self.history.tail.totals.models.items() if name}
        return max(used, key=lambda name: used[name], default=self.history.session.model)

    @cached_property
    def largest(self) -> int:
        """The tokens of the largest billed input, see :func:`largest_request`."""
        sizes = self.figures.sizes
        own = max((size for _, size in sizes.points), default=0) if sizes.reported else 0
        return largest_request(self.history, self.model, own)

    @property
    def window(self) -> int | None:
        """The model's window in tokens; None if unknown."""
        return known_window(self.model, self.largest, self.recorded_window)

    @property
    def recorded_window(self) -> int:
        """The model's window as the agent recorded it; 0 if it did not."""
        return self.figures.sizes.windows.get(self.model, 0)

    @cached_property
    def most_expensive(self) -> list[ExpensiveStep]:
        return most_expensive_steps(self.figures, self.history.session.model)

    @cached_property
    def tools(self) -> list[tuple[str, ToolFigures]]:
        """By name, the most calls first."""
        return sorted(self.figures.tools.items(), key=lambda item: -item[1].calls)

    @cached_property
    def files(self) -> list[tuple[str, FileFigures]]:
        """By path, those in printed diffs first, then the most edits, writing commands and reads."""
        return sorted(self.figures.files.items(), key=lambda item: _file_rank(item[1]))

    @cached_property
    def commands(self) -> list[tuple[str, CommandFigures]]:
        """The most runs first."""
        return sorted(self.figures.commands.items(), key=lambda item: -item[1].runs)

    @cached_property
    def expired_micros(self) -> int | None:
        """What writing expired caches again cost more than reading them, in millionths of a dollar; None
        without a price."""
        price, misses = price_list().of(self.model), self.figures.cache_misses
        if price is None:
            return None
        tokens = misses.tokens
        written = Usage(tokens, cache_write=tokens, cache_write_hour=misses.hour_tokens)
        read = Usage(tokens, cache_read=tokens)
        return price.cost(written) - price.cost(read)

    @property
    def subagents_money(self) -> int:
        """The cost of all sub-agents, in millionths of a dollar."""
        return cost_of_subagents(self.subagents)[0]

    @property
    def money_with_subagents(self) -> int:
        """The known cost of the run and of all sub-agents, in millionths of a dollar."""
        return self.money.micros + self.subagents_money

    @property
    def unpriced_with_subagents(self) -> bool:
        """Whether that cost leaves out calls whose cost is unknown."""
        is_known = self.money.is_known or not self.counted.steps
        return bool(not is_known or self.money.is_minimum or self.subagents_unpriced)

    @property
    def subagents_unpriced(self) -> int:
        """The number of sub-agents whose cost is unknown, at least in part."""
        return cost_of_subagents(self.subagents)[1]

    @cached_property
    def missing_subagents(self) -> MissingSubagents:
        """The sub-agents whose sessions Playhead does not have, so that no figure includes them."""
        return missing_subagents(self.history, self.figures)

    @cached_property
    def take_costs(self) -> TakeCosts | None:
        """The cost of the takes, which the other figures do not include; None without takes."""
        return take_costs(self.history, self._takes)

    @cached_property
    def rewinds(self) -> list[int]:
        """The steps after which the newest rewinds cut off later steps."""
        return sorted({take.after_step for take in self._takes})

    @cached_property
    def _takes(self) -> list[Take]:
        return takes(self.history)


def _file_rank(file: FileFigures) -> tuple[bool, int, int]:
    return not file.diffs, -file.edits - file.commands - (file.deleted_in > 0), -file.reads


def most_expensive_steps(figures: RunFigures, model: str) -> list[ExpensiveStep]:
    """The most expensive steps among those with a reported cost or a known price.

    Args:
        model: of steps that name none.
    """
    prices, expensive = price_list(), list[ExpensiveStep]()
    for figure in figures.dearest:
        if figure.cost:
            expensive.append(ExpensiveStep(figure, figure.cost))
        elif price := prices.of(figure.model or model):
            expensive.append(ExpensiveStep(figure, price.of_request(figure.usage)))
    return sorted(expensive, key=lambda step: -step.micros)[:MAX_EXPENSIVE]


def overview_of(history: History) -> RunOverview:
    """The overview of a history. The time depends only on the number of steps since the newest checkpoint."""
    subagents = subagents_of(history.session)
    steps = starting_steps(history, [child.session for child in subagents if child.level == 1])
    for child in subagents:
        child.step = steps.get(child.session.pk)
    if subagents:
        ids = [child.session.pk for child in subagents]
        first_entries = Entry.objects.filter(session__in=ids, position=1).order_by()
        started = dict(first_entries.values_list("session", "created_at"))
        for child in subagents:
            child.started_at = known_time(started.get(child.session.pk))
    return own_overview(history, subagents)


def own_overview(history: History, subagents: Sequence[Subagent] = ()) -> RunOverview:
    """The overview of a history. It has only the given sub-agents."""
    totals = history.tail.totals
    return RunOverview(
        history=history,
        counted=count_run(history, run_figures.SECONDS),
        tokens=tokens_of(totals),
        money=money_of(totals, history.session.model, price_list()),
        subagents=list(subagents),
    )


def subagents_of(session: Session) -> list[Subagent]:
    """The tree of a session's sub-agents, with figures summed up. Takes one query a level."""
    by_id: dict[UUID, Subagent] = {}
    parents = [session.pk]
    for level in range(1, MAX_LEVELS + 1):
        remaining = MAX_SUBAGENTS - len(by_id)
        children = Session.objects.filter(spawned_by__in=parents, project=session.project_id)
        ordered = children.only(*_COLUMNS).order_by("created_at", "id")
        # Old imports may have stored a session as its own ancestor.
        rows = [row for row in ordered[:remaining] if row.pk != session.pk and row.pk not in by_id]
        if not rows:
            break
        for row in rows:
            tail = row.live_tail
            totals, likely = tail.totals, tail.step.total_likely_failures if tail.step else 0
            own = own_totals(row)
            money = money_of(own, row.model, price_list())
            is_priced = money.is_known and not money.is_minimum
            by_id[row.pk] = Subagent(
                session=row,
                level=level,
                steps=totals.steps,
                errors=totals.errors,
                likely_failures=likely,
                tokens=tokens_of(own).shown,
                micros=money.micros,
                unpriced=int(bool(own.steps) and not is_priced),
                milliseconds=row.duration if row.head else None,
                has_own_failure=bool(totals.errors or likely),
            )
        parents = [row.pk for row in rows]
    for child in reversed(by_id.values()):
        parent = by_id.get(child.session.spawned_by_id) if child.session.spawned_by_id else None
        if parent is not None:
            parent.steps += child.steps
            parent.errors += child.errors
            parent.likely_failures += child.likely_failures
            parent.tokens += child.tokens
            parent.micros += child.micros
            parent.unpriced += child.unpriced
            parent.below += child.below + 1
    return _as_tree(by_id, session.pk)


def cost_of_subagents(subagents: Sequence[Subagent]) -> tuple[int, int]:
    """The cost of all sub-agents of a tree in millionths of a dollar, and the number of those whose cost is
    unknown, at least in part."""
    direct = [child for child in subagents if child.level == 1]
    return sum(child.micros for child in direct), sum(child.unpriced for child in direct)


def _as_tree(by_id: dict[UUID, Subagent], root: UUID) -> list[Subagent]:
    children: dict[UUID | None, list[Subagent]] = {}
    for child in by_id.values():
        children.setdefault(child.session.spawned_by_id, []).append(child)
    ordered: list[Subagent] = []
    stack = children.get(root, [])[::-1]
    while stack:
        child = stack.pop()
        ordered.append(child)
        stack += children.get(child.session.pk, [])[::-1]
    return ordered
