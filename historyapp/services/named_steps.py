"""Which steps of a run named files that it had never seen, or acted on what was compacted away."""

from dataclasses import dataclass

from historyapp.models.history import History
from historyapp.models.origins import MOST_FLAGGED, flagged_steps, indexed_spans


@dataclass(frozen=True, slots=True)
class RunNames:
    """What the index of names says of a run."""

    is_indexed: bool
    """Whether all live entries are in the index."""
    has_index: bool
    """Whether any are."""
    unseen: int
    """Files that stood nowhere before; likewise ``gone``: names that had been compacted away."""
    unseen_steps: list[int]
    """The steps that named them; likewise ``gone_steps``."""
    gone: int
    gone_steps: list[int]


def run_names(history: History) -> RunNames:
    """The counts of a run, of its first steps that have any; two queries."""
    lineage = history.lineage
    spans, is_whole = indexed_spans(lineage, 1, lineage.last)
    rows = flagged_steps(spans, MOST_FLAGGED)
    return RunNames(
        is_indexed=is_whole,
        has_index=bool(spans),
        unseen=sum(row.unseen for row in rows),
        unseen_steps=[row.number for row in rows if row.unseen],
        gone=sum(row.gone for row in rows),
        gone_steps=[row.number for row in rows if row.gone],
    )
