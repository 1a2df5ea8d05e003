"""Finds the steps that contain a text, have a note, or whose tool calls name a file: candidates for step
filters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from historyapp.core.named_files import NamedFile, text_in_calls
from historyapp.core.searchable import lowered
from historyapp.models.entries import Entry
from historyapp.models.history import History
from historyapp.models.notes import MAX_NOTES, StepNote
from historyapp.models.text_search import MAX_HITS, TextMatches, TextSearch, wanted_text, wanted_trigrams

MAX_BACKWARDS = 400
"""The maximum number of hits of a search from the newest end. Lists show only a few steps at once."""


@dataclass(slots=True)
class StepNumbers:
    """Step numbers in the order of the search."""

    numbers: list[int] = field(default_factory=list)
    reached: int | None = None
    """The last step searched. None: the search is complete."""
    unindexed: set[UUID] = field(default_factory=set)
    """See :class:`historyapp.models.text_search.TextMatches`."""
    named_file: NamedFile | None = None
    """The file of the search, with what was found in it."""


def steps_with_text(history: History, text: str, within: range, max_steps: int = MAX_HITS) -> StepNumbers:
    """Steps that contain a text, including the inputs before a step.

    Args:
        text: see :func:`historyapp.models.text_search.wanted_text`.
        within: the step numbers, ascending or descending by 1.
        max_steps: the maximum number of steps to search.
    """
    return _search(history, within, TextSearch(history, text), max_steps)


def steps_with_file(history: History, file: str, within: range, *, edits_only: bool = False) -> StepNumbers:
    """Steps with a tool call that names a file by its path, or by the start or end of the path, or with a
    result that is a diff of it."""
    named_file = NamedFile(file, edits_only=edits_only)
    numbers = _search(history, within, TextSearch(history, text_in_calls(file), named_file=named_file))
    numbers.named_file = named_file
    return numbers


def steps_with_note(history: History, within: range) -> StepNumbers:
    """Steps with a bookmark or a note."""
    notes = StepNote.objects.live(history.session, history.lineage, within, MAX_NOTES + 1)
    numbers = [note.number for note in notes[:MAX_NOTES]]
    return StepNumbers(numbers, numbers[-1] if len(notes) > MAX_NOTES else None)


def read_around(history: History, step: int, texts: Sequence[str]) -> None:
    """Reads the first blocks of searches for these texts in both directions, in two queries."""
    position = history.row(step).first_position - 1
    history.blocks.read_around(position, [wanted_trigrams(lowered(wanted_text(text))) for text in texts])


def _search(history: History, within: range, search: TextSearch, max_steps: int = MAX_HITS) -> StepNumbers:
    numbers = StepNumbers()
    if not within:
        return numbers
    lowest, highest = sorted((within[0], within[-1]))
    start = history.row(lowest - 1).first_position if lowest > 1 else 0
    end = history.row(highest + 1).first_position if highest < history.steps else history.lineage.last
    if within.step > 0:
        text = search.find(MAX_HITS, start, end, max_steps=max_steps)
        _add(numbers, history, text, within)
        if text.more is not None:
            # At least one step, so that the search makes progress.
            numbers.reached = max(lowest, min(highest, _searched_to(history, text, forwards=True)))
            numbers.numbers = [number for number in numbers.numbers if number <= numbers.reached]
        return numbers
    text = search.find(MAX_BACKWARDS, start, end, newest_first=True, max_steps=max_steps)
    _add(numbers, history, text, within)
    if text.more is not None:
        # An input of the next step may be before the searched part.
        numbers.reached = max(lowest, min(highest, _searched_to(history, text, forwards=False)))
        numbers.numbers = [number for number in numbers.numbers if number >= numbers.reached]
    return numbers


def _add(step_numbers: StepNumbers, history: History, text: TextMatches, within: range) -> None:
    """Adds the steps that show the hits. The newest step shows the inputs after it."""
    numbers = {min(hit.match.step, history.steps) for hit in text.hits if hit.live}
    numbers = numbers.union(step_numbers.numbers).intersection(within)
    step_numbers.numbers = sorted(numbers, reverse=within.step < 0)
    step_numbers.unindexed |= text.unindexed


def _searched_to(history: History, text: TextMatches, *, forwards: bool) -> int:
    """The last completely searched step of a search that stopped early."""
    step = text.more_step
    if step is None:
        entry = Entry.objects.newest(history.lineage.cut(text.more or 0))
        step = int(entry.totals.get("steps", 0)) if entry else 0
        return step - 1 if forwards else step + 2
    # A hit in an input has the number of the step after it. Results of the step before it may follow the
    # input.
    return step - 2 if forwards else step + 2
