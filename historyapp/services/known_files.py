"""Finds the files of a run without reading its log."""

from typing import NamedTuple

from historyapp.core.overview.figures import load_figures
from historyapp.core.text import fold
from historyapp.models import FiguresCheckpoint
from historyapp.models.history import History

NEWEST = 250
"""The number of newest steps whose rows are read. There are usually fewer steps after the newest
checkpoint."""


class KnownFile(NamedTuple):
    path: str
    reads: int
    edits: int
    """The counted tool calls. The run may have more."""


def known_files(history: History, text: str) -> list[KnownFile]:
    """The files whose paths contain all words of a text, the most used first. Takes a few queries at any
    length.

    The files come from the newest checkpoint of the run's figures and from the newest steps.
    """
    stored = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
    counts: dict[str, list[int]] = {}
    if stored:
        for path, file in load_figures(stored.state).files.items():
            counts[path] = [file.reads, file.edits]
    counted = stored.steps if stored else 0
    for row in history.rows(max(counted, history.steps - NEWEST) + 1, history.steps):
        if row.kind in ("read", "edit") and row.target:
            counts.setdefault(row.target, [0, 0])[row.kind == "edit"] += 1
    words = [fold(word) for word in text.split()]
    files = []
    for path, calls in counts.items():
        folded = fold(path)
        if all(word in folded for word in words):
            files.append(KnownFile(path, *calls))
    return sorted(files, key=lambda file: (-file.reads - file.edits, file.path))
