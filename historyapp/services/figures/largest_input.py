"""The largest request of a run, which shows how large the model's window is at least."""

from itertools import islice

from historyapp.core.overview.figures import load_figures
from historyapp.core.usage import usage_of
from historyapp.models import FiguresCheckpoint
from historyapp.models.history import History
from historyapp.models.sql import window_rows

MAX_ENTRIES = 1_000
"""At most this many of the newest entries are read. There are usually fewer after the newest checkpoint."""


def largest_input(history: History) -> int:
    """Tokens of the largest input that the provider billed; 0 without usage.

    It comes from the newest checkpoint of the run's figures and from the newest entries, so the number of
    queries does not depend on the run's length.
    """
    if not history.tail.totals.models:
        return 0
    checkpoint = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
    sizes = load_figures(checkpoint.state).sizes if checkpoint else None
    points = sizes.points if sizes and sizes.reported else []
    largest = max((size for _, size in points), default=0)
    for row in islice(window_rows(history.lineage), MAX_ENTRIES):
        if checkpoint and row.position < checkpoint.position:
            break
        if row.kind == "model_output":
            largest = max(largest, usage_of(row.metadata).input)
    return largest
