"""Finds the files of a run without reading its log."""

from typing import NamedTuple

from historyapp.core.overview.figures import load_figures
from historyapp.core.text import fold
from historyapp.models import FiguresCheckpoint
from historyapp.models.history import History

NEWEST_STEPS = 250
"""At most this many of the newest steps are read. There are usually fewer steps after the newest
checkpoint."""


class KnownFile(NamedTuple):
    """A file with its numbers of counted tool calls. The run may have more."""

    path: str
    reads: int
    edits: int


def known_files(history: History, text: str) -> list[KnownFile]:
    """The files whose paths contain all words of a text, the most used first.

    They come from the newest checkpoint of the run's figures and from the newest steps, so the number of
    queries does not depend on the run's length.
    """
    checkpoint = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
    counts: dict[str, list[int]] = {}
    if checkpoint:
        for path, file in load_figures(checkpoint.state).files.items():
            counts[path] = [file.reads, file.edits + file.commands]
    counted_steps = checkpoint.steps if checkpoint else 0
    for row in history.rows(max(counted_steps, history.steps - NEWEST_STEPS) + 1, history.steps):
        if row.kind in ("read", "edit") and row.target:
            counts.setdefault(row.target, [0, 0])[row.kind == "edit"] += 1
    words = [fold(word) for word in text.split()]
    files = []
    for path, (reads, edits) in counts.items():
        folded = fold(path)
        if all(word in folded for word in words):
            files.append(KnownFile(path, reads, edits))
    return sorted(files, key=lambda file: (-file.reads - file.edits, file.path))
