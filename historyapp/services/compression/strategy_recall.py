"""How well the strategies of a comparison keep what the run needed next."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from historyapp.core.needed_names import NeededName, kept, needed_names
from historyapp.models import CompressionItem, Episode
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

    def among(self, names: Sequence[NeededName]) -> "SummaryRecall":
        """The same of some of the names."""
        found = set(self.kept)
        return SummaryRecall(
            [name for name in names if name in found], [name for name in names if name not in found]
        )


@dataclass(frozen=True, slots=True)
class StrategyRecall:
    """The strategies of a comparison, judged by the steps that followed."""

    searched: int
    """The compared steps whose results were searched for names, from the first one on."""
    later: int
    """The later steps that were read."""
    names: list[NeededName]
    sides: list[SummaryRecall]


def strategy_recall(
    compared: History, now: History, items: Sequence[Sequence[CompressionItem]], steps: tuple[int, int]
) -> StrategyRecall:
    """Reads the compared steps and the 50 after them, both as far as :data:`MOST_READ`.

    Args:
        compared: the history when the comparison was requested.
        now: the history whose later steps are read. None are where a rewind cut off the last compared step.
        items: of each side.
    """
    first, last = steps
    rows = _within_limit(compared.rows(first, last))
    later = _within_limit(now.rows(last + 1, last + LATER)) if _shares_step(compared, now, last) else []
    read = (step for _, step in compared.with_bodies(rows))
    names = needed_names(read, (step for _, step in now.with_bodies(later)))
    sides: list[SummaryRecall] = []
    for side in items:
        found = kept(names, [item.text for item in side if item.text])
        sides.append(SummaryRecall(found, []).among(names))
    return StrategyRecall(len(rows), len(later), names, sides)


def _shares_step(compared: History, now: History, number: int) -> bool:
    """Whether the step is still the same one: a rewind may have cut it off since."""
    if not 1 <= number <= now.steps:
        return False
    return compared.row(number).first_position == now.row(number).first_position


def _within_limit(rows: list[Episode]) -> list[Episode]:
    """The first rows, as far as their bodies are read."""
    read = 0

    def fits(row: Episode) -> bool:
        nonlocal read
        read += row.tokens
        return read <= MOST_READ

    return list(takewhile(fits, rows))
