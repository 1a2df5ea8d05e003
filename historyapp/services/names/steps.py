"""Finds the steps of a run that named files not seen before, or acted on names that had been compacted
away."""

from dataclasses import dataclass

from historyapp.core.entries import ModelOutput, load_body
from historyapp.core.lineage import Span
from historyapp.core.origins import best_lookup, calls_of, files_acted_on, lookups
from historyapp.models.history import History
from historyapp.models.origins import MAX_FLAGGED, flagged_steps, indexed_spans, key_places
from historyapp.models.short_entries import short_entries

MAX_NAMED = 3
"""The maximum number of steps, and of files of each, that :func:`unseen_files` names."""
MAX_FILES = 20
"""The maximum number of files of a step that it looks up."""


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
    unseen_positions: list[int]
    """The positions of the outputs of these steps."""
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
        unseen_positions=[row.position for row in rows if row.unseen],
        gone=sum(row.gone for row in rows),
        gone_steps=[row.number for row in rows if row.gone],
    )


def unseen_files(history: History, names: RunNames) -> list[tuple[int, str]]:
    """The files that had not appeared before, of the first :data:`MAX_NAMED` of these steps, each with the
    number of its step.

    Their number of queries does not depend on the session's length. The index does not store the files.
    """
    numbers = dict(zip(names.unseen_positions[:MAX_NAMED], names.unseen_steps, strict=False))
    lineage = history.lineage
    outputs = short_entries([Span(session, at, at) for at in numbers if (session := lineage.session_at(at))])
    files: dict[int, list[str]] = {}
    for entry in outputs:
        body = load_body(entry.kind, entry.body)
        if isinstance(body, ModelOutput):
            acted_on = (file for tool_call in calls_of(body) for file in files_acted_on(tool_call))
            files[entry.position] = list(dict.fromkeys(acted_on))[:MAX_FILES]
    keys = {key for each in files.values() for file in each for way in lookups(file) for key in way.keys}
    spans, _ = indexed_spans(lineage, 1, lineage.last)
    first = {key: places.earliest for key, places in key_places(spans, keys).items()} if keys else {}
    found: list[tuple[int, str]] = []
    for position in sorted(files):
        before = {key: at for key, at in first.items() if at < position}
        unseen = [file for file in files[position] if best_lookup(file, before) is None]
        found += [(numbers[position], file) for file in unseen[:MAX_NAMED]]
    return found
