"""Finds steps by notes, names, files or texts: other tables have the numbers of the candidates."""

from collections.abc import Iterable, Iterator
from typing import Protocol
from uuid import UUID

from historyapp.core.named_files import NamedFile
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.models.origins import Flag, steps_that_named
from historyapp.models.step_texts import (
    StepNumbers,
    read_around,
    steps_with_file,
    steps_with_note,
    steps_with_text,
)
from historyapp.models.text_search import MAX_HITS

_ROWS_AT_ONCE = 200
"""Rows of each query after the first."""
_INCOMPLETE = 4
"""The maximum number of steps at both ends of a text search that may be searched incompletely."""


class ListFilter(Protocol):
    """The used part of :class:`historyapp.models.step_filters.StepFilter`."""

    @property
    def noted(self) -> bool: ...
    @property
    def names(self) -> Flag | None: ...
    @property
    def file(self) -> str | None: ...
    @property
    def edited(self) -> bool: ...
    @property
    def text(self) -> str | None: ...
    @property
    def is_text_alone(self) -> bool: ...
    def matches(self, step: Episode) -> bool: ...


class ListedSteps:
    """The steps in ``within`` that match a filter, in the direction of ``within``."""

    def __init__(self, history: History, step_filter: ListFilter, within: range) -> None:
        self.history, self.step_filter, self.within = history, step_filter, within
        self.forwards = within.step > 0
        self.unindexed: set[UUID] = set()
        """See :class:`historyapp.models.text_search.TextMatches`."""
        self.parsed = 0
        """See :class:`historyapp.core.named_files.NamedFile`."""
        self._rows = dict[int, Episode]()
        self._named_file: NamedFile | None = None
        self._named: list[int] | None = None
        self._first: tuple[list[int], int | None] | None = None

    def matches(self, after: int | None, limit: int) -> Iterator[tuple[int, Episode | None]]:
        """Numbers and rows of matching steps. A number without a row is where the search has to stop.

        Args:
            after: the last compared step.
            limit: the number of matching steps to return.
        """
        numbers, reached = self._candidates(after, limit)
        starts = [0, *range(limit + 1, len(numbers), _ROWS_AT_ONCE)]
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            self._read_rows(numbers[start:end])
            for number in numbers[start:end]:
                row = self._rows.get(number)
                if row and self.step_filter.matches(row) and self._is_wanted_use(row):
                    row.named_file = self._path_in_other_call(row)
                    yield number, row
        if reached is not None:
            yield reached, None

    def _is_wanted_use(self, row: Episode) -> bool:
        """Whether a step edits the file, if only such steps are wanted. The texts do not always say it."""
        named = self._named_file
        is_unclear = self.step_filter.edited and named is not None and row.number in named.shown
        return not is_unclear or row.kind == "edit"

    def _path_in_other_call(self, row: Episode) -> str:
        """The path in the call or result that names the file; empty if the row of the step's first call shows
        the file, or its command line."""
        named = self._named_file
        is_single = len(row.tool_names) < 2 and row.kind != "edit"  # an edit may be of the open file
        if named is None or is_single or named.is_in(row.target, row.kind):
            return ""
        return named.paths.get(row.number, "")

    def read_with(self, other: "ListedSteps", step: int, limit: int) -> None:
        """Reads the first rows of this search and of the opposite search from the same step in one query."""
        texts = [text for text in (self.step_filter.file, self.step_filter.text) if text is not None]
        if texts:
            read_around(self.history, step, texts)
        if self.step_filter.names is not None:
            self._named = other._named = steps_that_named(self.history.lineage, self.step_filter.names)
        self._rows = other._rows
        first = [number for each in (self, other) for number in each._candidates(None, limit)[0][: limit + 1]]
        self._read_rows(first)

    def _read_rows(self, numbers: Iterable[int]) -> None:
        newest, lineage = self.history.newest_shown, self.history.lineage
        missing = [number for number in numbers if number not in self._rows]
        if not missing:
            return
        self._rows.update({row.number: row for row in Episode.objects.with_numbers(lineage, missing)})
        if newest and newest.number in missing:
            self._rows[newest.number] = newest

    def _candidates(self, after: int | None, limit: int) -> tuple[list[int], int | None]:
        """The numbers that may match, in order, and the last step searched. None: all were searched."""
        if after is None:
            self._first = self._first or self._search(self.within, limit)
            return self._first
        number = after + self.within.step
        stop = self.within[-1] + self.within.step if self.within else number
        return self._search(
            range(number, stop, self.within.step) if after in self.within else range(0), limit
        )

    def _search(self, left: range, limit: int) -> tuple[list[int], int | None]:
        listed = list[StepNumbers]()
        if self.step_filter.noted:
            listed.append(steps_with_note(self.history, left))
        if self.step_filter.names is not None:
            if self._named is None:
                self._named = steps_that_named(self.history.lineage, self.step_filter.names)
            listed.append(StepNumbers(self._named))
        if self.step_filter.file is not None:
            edits_only = self.step_filter.edited
            listed.append(steps_with_file(self.history, self.step_filter.file, left, edits_only=edits_only))
        if self.step_filter.text is not None:
            max_steps = limit + _INCOMPLETE if self.step_filter.is_text_alone else MAX_HITS
            listed.append(steps_with_text(self.history, self.step_filter.text, left, max_steps))
        stops = [steps.reached for steps in listed if steps.reached is not None]
        reached = (min(stops) if self.forwards else max(stops)) if stops else None
        numbers = set(left).intersection(*[steps.numbers for steps in listed])
        if reached is not None:
            numbers = {n for n in numbers if (n <= reached if self.forwards else n >= reached)}
        for steps in listed:
            self.unindexed |= steps.unindexed
            if steps.named_file:
                self.parsed += steps.named_file.parsed
                self._named_file = steps.named_file
        return sorted(numbers, reverse=not self.forwards), reached
