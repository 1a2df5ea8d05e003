"""Finds the steps of a run that named unseen files or acted on something that had been compacted away."""

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
    """The number of files that appeared nowhere before; ``gone``: of names that had been compacted away."""
    unseen_steps: list[int]
    """The numbers of the steps that named them; likewise ``gone_steps``."""
    gone: int
    gone_steps: list[int]


def run_names(history: History) -> RunNames:
    """The findings about a run, with its first such steps. Takes two queries."""
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
