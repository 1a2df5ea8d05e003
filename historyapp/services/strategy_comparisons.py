"""Compares compression strategies by trial runs over the same steps.

Each row has original steps and the summaries of each side. The recall of a side is a share of the names that
later steps needed: the share that its summaries contain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from uuid import UUID

from uuid_utils.compat import uuid7

from historyapp.core.episodes import Episode
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.needed_names import MAX_CHARACTERS, NeededName, kept_names, needed_names
from historyapp.core.results import returned_text
from historyapp.core.step_spans import StepSpan, common_spans
from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.models.episodes import Episode as EpisodeRow
from historyapp.models.history import History
from historyapp.models.long_rows import count_read, long_models
from historyapp.services.append import check_open, lock_session
from historyapp.services.audit import add_audit_record
from historyapp.services.compression.request import (
    AcceptedRun,
    RunRequest,
    resolve_accepted,
    resolve_request,
)
from historyapp.services.compression.start import check_spender, create_run, runs_of
from historyapp.services.disk_space import check_disk_space
from historyapp.services.spending import OPERATOR, Spender
from historyapp.services.transactions import writing

MAX_RUNNING = 100
"""The maximum number of trial runs of one project that run or wait at the same time."""
MAX_COMPARED = 500
"""The maximum number of steps of a comparison."""
DIFFERENT_STEPS = (
    "The strategies would summarise different steps, because the session has changed. Nothing was started. "
    "Check the steps, then request the comparison again."
)
LATER_STEPS = 50
"""The number of steps after the compared ones that are searched for names."""
MAX_SEARCHED_TOKENS = 200_000
"""The maximum number of tokens of the compared steps that are read, and of the later steps."""
PAGE_STEPS = 50
"""A page of rows ends after this many original steps. One row may have more."""
MAX_SHOWN_TOKENS = 50_000
"""The maximum number of tokens of the original steps whose bodies a page contains."""


@dataclass(frozen=True, slots=True)
class SummaryRecall:
    """The needed names that the summaries of one strategy contain."""

    kept: list[NeededName]
    lost: list[NeededName]

    @property
    def percent(self) -> int | None:
        """The share of the names that is kept; None if no name is needed."""
        names = len(self.kept) + len(self.lost)
        return round(100 * len(self.kept) / names) if names else None

    def among(self, names: Sequence[NeededName]) -> "SummaryRecall":
        """The recall, limited to these names."""
        kept = set(self.kept)
        return SummaryRecall(
            [name for name in names if name in kept], [name for name in names if name not in kept]
        )


@dataclass(frozen=True, slots=True)
class StrategyRecall:
    """The recall of the strategies of a comparison, by the steps that followed."""

    searched: int
    """The number of compared steps, from the first, whose results were searched for names."""
    later: int
    """The number of later steps that were read."""
    names: list[NeededName]
    sides: list[SummaryRecall]


@dataclass(frozen=True, slots=True)
class OriginalStep:
    row: EpisodeRow
    step: Episode | None
    """None if the page has reached its limit: then ``row`` has only the first 200 characters."""


@dataclass(frozen=True, slots=True)
class SummaryCell:
    """The summaries of one side in a row."""

    items: list[CompressionItem]
    recall: SummaryRecall
    """The recall of the row's ``needed`` names. The summaries of all rows count."""
    names: set[str]
    """The names of the originals that the cell's summaries contain."""
    cost: int | None
    """In millionths of a dollar; None if unknown."""

    @property
    def tokens(self) -> int:
        return sum(item.tokens_after for item in self.items)

    @property
    def is_done(self) -> bool:
        return bool(self.items) and all(item.state == item.State.DONE for item in self.items)


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """The shortest range of steps that no side's summary crosses."""

    steps: StepSpan
    originals: list[OriginalStep]
    tokens: int
    names: set[str]
    """The names in the tool calls and results of the originals that were read."""
    needed: list[NeededName]
    """The names that later steps needed and that the results of this row contained first."""
    cells: list[SummaryCell]


@dataclass(frozen=True, slots=True)
class StrategyRowPage:
    rows: list[StrategyRow]
    next_step: int | None
    """The first step of the next page, or None."""


@dataclass(frozen=True, slots=True)
class StrategyComparison:
    """The runs of a comparison with their summaries."""

    history: History
    """The history when the runs were requested."""
    runs: list[CompressionRun]
    items: list[list[CompressionItem]]
    recall: StrategyRecall | None
    """None until all runs have ended."""

    def page(self, start: int, limit: int) -> StrategyRowPage:
        """At most ``limit`` rows, from the row that contains step ``start``."""
        first = self.runs[0]
        spans = [StepSpan(item.first_step, item.last_step) for item in chain(*self.items)]
        whole = StepSpan(first.from_step, first.to_step)
        selected = [span for span in common_spans(whole, spans) if span.last >= start]
        count, steps = 0, 0
        while count < min(limit, len(selected)) and steps < PAGE_STEPS:
            steps += selected[count].last - selected[count].first + 1
            count += 1
        next_step = selected[count].first if count < len(selected) else None
        if not count:
            return StrategyRowPage([], None)
        originals = self._originals(selected[0].first, selected[count - 1].last)
        return StrategyRowPage([self._row(span, originals) for span in selected[:count]], next_step)

    def _originals(self, first: int, last: int) -> dict[int, OriginalStep]:
        rows, tokens, readable = self.history.rows(first, last), 0, list[EpisodeRow]()
        for row in rows:
            tokens += row.tokens
            if tokens <= MAX_SHOWN_TOKENS or row.number == first:
                readable.append(row)
        steps = {row.number: step for row, step in self.history.with_bodies(readable)}
        return {row.number: OriginalStep(row, steps.get(row.number)) for row in rows}

    def _row(self, span: StepSpan, originals: dict[int, OriginalStep]) -> StrategyRow:
        covered = [originals[number] for number in range(span.first, span.last + 1) if number in originals]
        names = set[str]()
        for step in filter(None, (original.step for original in covered)):
            output = step.output
            tool_calls = (output.use_tool,) if output.use_tool else output.tool_calls
            texts = [text for tool_call in tool_calls for text in texts_in(tool_call.arguments)]
            texts += [returned_text(result) for result in step.results]
            names.update(name for text in texts for name in identifiers(text[:MAX_CHARACTERS]))
        names_needed = self.recall.names if self.recall else []
        needed = [name for name in names_needed if span.first <= name.step <= span.last]
        cells = [self._cell(side, span, needed, names) for side in range(len(self.runs))]
        tokens = sum(original.row.tokens for original in covered)
        return StrategyRow(span, covered, tokens, names, needed, cells)

    def _cell(self, side: int, span: StepSpan, needed: Sequence[NeededName], names: set[str]) -> SummaryCell:
        items = [item for item in self.items[side] if span.first <= item.first_step <= span.last]
        recall = self.recall.sides[side].among(needed) if self.recall else SummaryRecall([], [])
        kept = {
            name for item in items if item.text for name in identifiers(item.text[:MAX_CHARACTERS])
        } & names
        costs = [item.cost for item in items]
        cost = sum(item_cost or 0 for item_cost in costs)
        is_free = not self.runs[side].calls
        return SummaryCell(items, recall, kept, cost if is_free or None not in costs else None)


def start_comparison(
    project: Project,
    session_id: UUID,
    requests: Sequence[RunRequest],
    *,
    actor: str = "",
    spender: Spender = OPERATOR,
    accepted: Sequence[AcceptedRun | None] = (),
) -> list[CompressionRun]:
    """Starts trial runs over the same steps. Their summaries are stored with the runs and never used in a
    context.

    Args:
        accepted: for each request what was accepted earlier. The runs do not exceed it.

    Raises:
        NotFound: when the project has no such session.
        Invalid: as :func:`resolve_request`, and for more than ``MAX_COMPARED`` steps.
        Conflict: when the session is archived, too many trial runs of the project are running, the runs would
            summarise different steps, or a run would cost more than was accepted.
        ModelNotAllowed: when the project does not allow a side's model.
        SpendForbidden: when a side calls a provider's model and the spender may not spend.
        DiskLow: when the disk is nearly full.
    """
    check_disk_space()
    with writing():
        session = lock_session(project, session_id)
        check_open(session)
        active = CompressionRun.objects.active().filter(trial=True, session__project=project).count()
        if active + len(requests) > MAX_RUNNING:
            raise Conflict(
                f"{active} compressions for comparisons are running or waiting in this project; at most "
                f"{MAX_RUNNING} are possible. Wait until some have ended, or cancel some."
            )
        sides = [
            resolve_accepted(session, request, run) if run else resolve_request(session, request)
            for request, run in zip(requests, accepted or [None] * len(requests), strict=True)
        ]
        if len({side.steps for side in sides}) > 1:
            raise Conflict(DIFFERENT_STEPS)
        if sides and (steps := len(sides[0].steps)) > MAX_COMPARED:
            raise Invalid(f"A comparison takes at most {MAX_COMPARED} steps; this one has {steps}.")
        comparison = uuid7()
        runs = []
        for resolved in sides:
            check_spender(spender, project, resolved)
            trial = {"again": True, "trial": True, "comparison": comparison, "api_key": spender.key}
            runs.append(create_run(session, resolved, actor, **trial))
        detail = {"comparison": str(comparison), "strategies": [run.strategy for run in runs]}
        add_audit_record(project.pk, actor, "compare strategies", session.pk, detail)
        return runs


def find_comparison(session: Session, id: UUID, as_of: int | None = None) -> list[CompressionRun]:
    """The runs of a comparison, in the order of the request. Raises the errors of :func:`find_run`."""
    runs = list(runs_of(session, as_of).filter(comparison=id).order_by("id"))
    if not runs:
        raise NotFound(f"There is no comparison {id} in this session.")
    return runs


def compare_strategies(
    session: Session, runs: list[CompressionRun], as_of: int | None = None, *, with_recall: bool = True
) -> StrategyComparison:
    """Loads a comparison with its summaries and the names that later steps needed.

    Args:
        as_of: later steps are read up to this position; None: up to the head.
        with_recall: False within a transaction, because the names take seconds in long steps.
    """
    compared = History(session, runs[0].head)
    items = [list(_items_of(run)) for run in runs]
    recall = None
    if with_recall and not any(run.active for run in runs):
        steps = runs[0].from_step, runs[0].to_step
        recall = strategy_recall(compared, History(session, as_of), items, steps)
    return StrategyComparison(compared, runs, items, recall)


def _items_of(run: CompressionRun) -> Iterator[CompressionItem]:
    """The items of a run in order. Raises ``Invalid`` if their texts are too long for a response."""
    for item in long_models(run.items.order_by("number"), "number", ("text", "parts")):
        count_read(len(item.text or ""))
        yield item


def strategy_recall(
    compared: History, now: History, items: Sequence[Sequence[CompressionItem]], steps: tuple[int, int]
) -> StrategyRecall:
    """Reads the compared steps and the 50 after them, each up to :data:`MAX_SEARCHED_TOKENS`.

    Args:
        compared: the history when the comparison was requested.
        now: the history whose later steps are read. None are read if a rewind has cut off the last compared
            step.
        items: the items of each side.
    """
    first, last = steps
    rows = _within_limit(compared.rows(first, last))
    later: list[EpisodeRow] = []
    # A rewind may have cut off the last compared step since.
    if 1 <= last <= now.steps and compared.row(last).first_position == now.row(last).first_position:
        later = _within_limit(now.rows(last + 1, last + LATER_STEPS))
    read = (step for _, step in compared.with_bodies(rows))
    names = needed_names(read, (step for _, step in now.with_bodies(later)))
    sides: list[SummaryRecall] = []
    for side in items:
        kept = kept_names(names, [item.text for item in side if item.text])
        sides.append(SummaryRecall(kept, []).among(names))
    return StrategyRecall(len(rows), len(later), names, sides)


def _within_limit(rows: list[EpisodeRow]) -> list[EpisodeRow]:
    """The first rows, up to the limit for reading bodies."""
    totals = accumulate(row.tokens for row in rows)
    return [row for row, total in zip(rows, totals, strict=True) if total <= MAX_SEARCHED_TOKENS]
