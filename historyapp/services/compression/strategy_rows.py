"""A comparison of strategies in rows: the original steps of a range beside what each side made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from historyapp.core.episodes import Episode
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.needed_names import MOST_CHARACTERS, NeededName
from historyapp.core.results import returned_text
from historyapp.core.step_spans import StepSpan, common_spans
from historyapp.models import CompressionItem, CompressionRun, Session
from historyapp.models.episodes import Episode as EpisodeRow
from historyapp.models.history import History
from historyapp.services.compression.strategy_recall import StrategyRecall, SummaryRecall, strategy_recall

MOST_STEPS = 50
"""A page of rows ends after as many original steps. One row may have more."""
MOST_READ = 50_000
"""Tokens of the original steps whose bodies a page shows."""


@dataclass(frozen=True, slots=True)
class OriginalStep:
    row: EpisodeRow
    step: Episode | None
    """Null where the page has read enough: the row shows the first 200 characters."""


@dataclass(frozen=True, slots=True)
class SummaryCell:
    """What one side made of the steps of a row."""

    items: list[CompressionItem]
    recall: SummaryRecall
    """Of the needed names that this row returned first. Also kept: those in a summary of another row."""
    names: set[str]
    """The names of the originals that the cell's summaries repeat."""
    cost: int | None
    """In millionths of a dollar; null if unknown."""

    @property
    def tokens(self) -> int:
        return sum(item.tokens_after for item in self.items)

    @property
    def is_done(self) -> bool:
        return bool(self.items) and all(item.state == item.State.DONE for item in self.items)


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """The shortest range of steps at whose ends summaries of all sides begin and end."""

    steps: StepSpan
    originals: list[OriginalStep]
    tokens: int
    names: set[str]
    """All names in the calls and results of the originals that were read."""
    needed: list[NeededName]
    """Those that later steps needed and that no row before returned."""
    cells: list[SummaryCell]


@dataclass(frozen=True, slots=True)
class StrategyRowPage:
    rows: list[StrategyRow]
    further: int | None
    """The step with which the next page begins, or None."""


@dataclass(frozen=True, slots=True)
class StrategyComparison:
    """The runs of a comparison with all that they made."""

    history: History
    """As it was when they were requested."""
    runs: list[CompressionRun]
    items: list[list[CompressionItem]]
    recall: StrategyRecall | None
    """None until both have ended."""

    def page(self, start: int, limit: int) -> StrategyRowPage:
        """At most ``limit`` rows from the one that has step ``start`` on."""
        first = self.runs[0]
        spans = [StepSpan(item.first_step, item.last_step) for item in chain(*self.items)]
        whole = StepSpan(first.from_step, first.to_step)
        later = [span for span in common_spans(whole, spans) if span.last >= start]
        count, steps = 0, 0
        while count < min(limit, len(later)) and steps < MOST_STEPS:
            steps += later[count].last - later[count].first + 1
            count += 1
        further = later[count].first if count < len(later) else None
        if not count:
            return StrategyRowPage([], None)
        originals = self._originals(later[0].first, later[count - 1].last)
        return StrategyRowPage([self._row(span, originals) for span in later[:count]], further)

    def _originals(self, first: int, last: int) -> dict[int, OriginalStep]:
        rows, read, readable = self.history.rows(first, last), 0, list[EpisodeRow]()
        for row in rows:
            read += row.tokens
            if read <= MOST_READ or row.number == first:
                readable.append(row)
        steps = {row.number: step for row, step in self.history.with_bodies(readable)}
        return {row.number: OriginalStep(row, steps.get(row.number)) for row in rows}

    def _row(self, span: StepSpan, originals: dict[int, OriginalStep]) -> StrategyRow:
        some = [originals[number] for number in range(span.first, span.last + 1) if number in originals]
        names = {name for each in some if each.step for name in _names_of(each.step)}
        names_needed = self.recall.names if self.recall else []
        needed = [name for name in names_needed if span.first <= name.step <= span.last]
        cells = [self._cell(side, span, needed, names) for side in range(len(self.runs))]
        return StrategyRow(span, some, sum(each.row.tokens for each in some), names, needed, cells)

    def _cell(self, side: int, span: StepSpan, needed: Sequence[NeededName], names: set[str]) -> SummaryCell:
        items = [item for item in self.items[side] if span.first <= item.first_step <= span.last]
        recall = self.recall.sides[side].among(needed) if self.recall else SummaryRecall([], [])
        kept = {name for item in items if item.text for name in identifiers(item.text)} & names
        costs = [item.cost for item in items]
        cost = sum(each or 0 for each in costs)
        is_free = not self.runs[side].calls
        return SummaryCell(items, recall, kept, cost if is_free or None not in costs else None)


def compare_strategies(
    session: Session, runs: list[CompressionRun], as_of: int | None = None
) -> StrategyComparison:
    """The runs of a comparison with their summaries and the names that later steps needed.

    Args:
        as_of: later steps are read up to this position; None: as the history stands.
    """
    compared = History(session, runs[0].head)
    items = [list(run.items.order_by("number")) for run in runs]
    recall = None
    if not any(run.active for run in runs):
        steps = runs[0].from_step, runs[0].to_step
        recall = strategy_recall(compared, History(session, as_of), items, steps)
    return StrategyComparison(compared, runs, items, recall)


def _names_of(step: Episode) -> list[str]:
    """The names in the calls of a step and in what came back."""
    output = step.output
    calls = (output.use_tool,) if output.use_tool else output.tool_calls
    texts = [text for call in calls for text in texts_in(call.arguments)]
    texts += [returned_text(result) for result in step.results]
    return [name for text in texts for name in identifiers(text[:MOST_CHARACTERS])]
