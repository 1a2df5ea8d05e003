"""Finds the steps of a run that named files not seen before, or acted on names that had been compacted
away."""

from dataclasses import dataclass

from historyapp.models.history import History
from historyapp.models.origins import MAX_FLAGGED, flagged_steps, indexed_spans


@dataclass(frozen=True, slots=True)
class RunNames:
    """The findings of the index of names about a run."""

    is_indexed: bool
    """Whether all live entries are in the index."""
    has_index: bool
    """Whether any live entry is in the index."""
    unseen: int
    """The number of files that had not appeared before."""
    unseen_steps: list[int]
    """The numbers of the steps that named these files."""
    gone: int
    """The number of names that had been compacted away."""
    gone_steps: list[int]
    """The numbers of the steps that acted on these names."""


def run_names(history: History) -> RunNames:
    """The findings about the first ``MAX_FLAGGED`` such steps of a run. Takes two queries."""
    lineage = history.lineage
    spans, is_complete = indexed_spans(lineage, 1, lineage.last)
    rows = flagged_steps(spans, MAX_FLAGGED)
    return RunNames(
        is_indexed=is_complete,
        has_index=bool(spans),
        unseen=sum(row.unseen for row in rows),
        unseen_steps=[row.number for row in rows if row.unseen],
        gone=sum(row.gone for row in rows),
        gone_steps=[row.number for row in rows if row.gone],
    )
