"""The list of compression runs, in which the automatic runs of a session are folded into one card.

An agent that records hundreds of steps makes a run for every few of them. Nobody has asked for these runs.
"""

from collections.abc import Iterable
from typing import NamedTuple

from historyapp.models import CompressionRun


class RunFold(NamedTuple):
    """A card of the list: a run, or several automatic runs of a session that differ only in their steps."""

    runs: list[CompressionRun]
    """Newest first."""
    repeats_note: bool = False
    """Whether a card above has the same note."""

    @property
    def newest(self) -> CompressionRun:
        return self.runs[0]

    @property
    def first_step(self) -> int:
        return min(run.from_step for run in self.runs)

    @property
    def last_step(self) -> int:
        return max(run.to_step for run in self.runs)

    @property
    def summaries(self) -> int:
        return sum(run.done for run in self.runs)

    @property
    def tokens_before(self) -> int:
        return sum(run.tokens_before for run in self.runs)

    @property
    def tokens_after(self) -> int:
        return sum(run.tokens_after for run in self.runs)

    @property
    def tokens_saved(self) -> int:
        return self.tokens_before - self.tokens_after

    @property
    def calls(self) -> int:
        return sum(run.calls for run in self.runs)

    @property
    def cost(self) -> int | None:
        """In millionths of a dollar; None if that of a run is unknown."""
        costs = [run.cost for run in self.runs]
        return None if None in costs else sum(cost or 0 for cost in costs)


def folded_runs(runs: Iterable[CompressionRun]) -> list[RunFold]:
    """The cards of a page of the list. A card stands where its newest run would."""
    folds: dict[object, RunFold] = {}
    notes = set[str]()
    for run in runs:
        is_alike = run.automatic and run.state == run.State.SUCCEEDED
        key = (run.session_id, run.strategy, run.model, run.note, str(run.options)) if is_alike else run.pk
        if key not in folds:
            folds[key] = RunFold([], is_alike and run.note in notes)
            notes.add(run.note)
        folds[key].runs.append(run)
    return list(folds.values())
