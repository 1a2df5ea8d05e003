"""How well the strategies of a comparison keep what the run needed next."""

from dataclasses import dataclass
from itertools import takewhile

from historyapp.core.needed_names import NeededName, kept, needed_names
from historyapp.models import CompressionRun, Episode
from historyapp.models.history import History

LATER = 50
"""Steps after the compared ones that are searched for names."""
MOST_READ = 200_000
"""Tokens of the compared steps that are read, and of the later ones."""


@dataclass(frozen=True, slots=True)
class SummaryRecall:
    """What the summaries of one strategy keep."""

    kept: list[NeededName]
    lost: list[NeededName]

    @property
    def percent(self) -> int | None:
        """The share of the names that is kept; None where no name is needed."""
        names = len(self.kept) + len(self.lost)
        return round(100 * len(self.kept) / names) if names else None


@dataclass(frozen=True, slots=True)
class StrategyRecall:
    """The strategies of a comparison, judged by the steps that followed."""

    originals: list[Episode]
    """The rows of the compared steps."""
    later: int
    """The number of later steps that were read."""
    names: list[NeededName]
    sides: list[SummaryRecall]


def strategy_recall(history: History, runs: list[CompressionRun]) -> StrategyRecall:
    """Reads at most 50 compared steps and the 50 after them, as the history stands."""
    first, last = runs[0].from_step, min(runs[0].to_step, history.steps)
    originals = history.rows(first, last)
    later = history.rows(last + 1, last + LATER)
    steps = history.with_bodies(_within_limit(originals))
    following = history.with_bodies(_within_limit(later))
    names = needed_names((step for _, step in steps), (step for _, step in following))
    sides: list[SummaryRecall] = []
    for run in runs:
        found = set(kept(names, [item.text for item in run.items.all()]))
        sides.append(
            SummaryRecall(
                [name for name in names if name in found], [name for name in names if name not in found]
            )
        )
    return StrategyRecall(originals, len(following), names, sides)


def _within_limit(rows: list[Episode]) -> list[Episode]:
    """The first rows, as far as their bodies are read."""
    read = 0

    def fits(row: Episode) -> bool:
        nonlocal read
        read += row.tokens
        return read <= MOST_READ

    return list(takewhile(fits, rows))
