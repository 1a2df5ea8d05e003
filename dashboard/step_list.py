"""The rows of the step list: a window of all steps, or of those that match a filter."""

from dataclasses import dataclass, replace

from dashboard.location import Location
from dashboard.subagents import SubagentRow, subagents_in
from dashboard.turn_figures import TurnFigures, turns_in
from historyapp.models import Episode, StepNote, Summary
from historyapp.models.step_filters import StepSearch
from historyapp.models.takes import Take
from historyapp.models.turns import last_step
from historyapp.tasks import index_names_of, want_text_index

AROUND = 25
"""Rows shown before and after the playhead, and rows loaded each time by scrolling."""


@dataclass(frozen=True, slots=True)
class ListedStep:
    """A row of the list of all steps."""

    row: Episode
    takes: list[Take]
    """Those that branch off after it."""
    summary: Summary | None
    """The one that covers it."""
    turn: TurnFigures | None
    """The turn that begins with it."""
    subagents: list[SubagentRow]
    """Those that it started."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """A window of the list of all steps."""

    rows: list[ListedStep]
    first_takes: list[Take]
    """Takes that branch off before the first step."""
    first: int
    last: int
    before: int
    """The step that the link to earlier steps opens without JavaScript."""
    after: int
    is_complete: bool
    """Whether it ends with the newest step."""
    leads_back: bool = True
    leads_on: bool = True
    """Whether it has links to earlier and later steps. A list has them only at its two ends."""

    def is_summarised(self, number: int) -> bool:
        """Whether a summary covers one of its steps."""
        return any(one.row.number == number and one.summary for one in self.rows)


def step_rows(location: Location, first: int, last: int, takes: list[Take]) -> StepRows:
    """The existing steps among ``first`` to ``last``."""
    rows = location.history.rows(first - 1, last)  # the row before tells whether the first one begins a turn
    before = rows.pop(0) if rows and rows[0].number < first else None
    turns = turns_in(location.history, before, rows)
    subagents = subagents_in(location.history, rows)
    takes_after: dict[int, list[Take]] = {}
    for take in takes:
        takes_after.setdefault(take.after_step, []).append(take)
    summaries = summaries_by_step(location, rows)
    mark_notes(location, rows)
    first_row, last_row = (rows[0].number, rows[-1].number) if rows else (0, 0)
    return StepRows(
        [
            ListedStep(
                row,
                takes_after.get(row.number, []),
                summaries.get(row.number),
                turns.get(row.number),
                subagents.get(row.number, []),
            )
            for row in rows
        ],
        first_takes=takes_after.get(0, []) if first <= 1 else [],
        first=first_row,
        last=last_row,
        before=max(1, first_row - AROUND),
        after=min(location.steps, last_row + AROUND),
        is_complete=last_row >= location.steps,
    )


def beyond_turn(location: Location, turn: int, after: int) -> int:
    """The step after which rows are needed where the rest of a turn is folded."""
    if not 1 <= after < location.steps or location.history.row(after).turn != turn:
        return after
    return last_step(location.history, turn)


def before_turn(location: Location, turn: int, before: int) -> int:
    """The step before which rows are needed where a turn is folded up to its first step."""
    if not 1 < before <= location.steps:
        return before
    row = location.history.row(before)
    return row.turn_first + 1 if row.turn == turn and 0 < row.turn_first < before else before


def mark_notes(location: Location, rows: list[Episode]) -> None:
    """Gives each row the note on its step, and the location that on its own step, if it is among them."""
    notes: dict[int, StepNote] = {}
    if location.note_starts:
        notes = StepNote.objects.at(location.history.lineage, [row.first_position for row in rows])
    for row in rows:
        row.note = notes.get(row.number)
        if row.number == location.step:
            location.note = row.note


def summaries_by_step(location: Location, rows: list[Episode]) -> dict[int, Summary]:
    """The summary of each summarised step, without its text: the narrowest, of these the newest."""
    if not rows:
        return {}
    history, positions = location.history, (rows[0].first_position, rows[-1].last_position)
    found = Summary.objects.defer("text", "key_points").covering(
        history.session, history.lineage, positions, history.as_of
    )
    found.sort(key=lambda summary: (summary.first_step - summary.last_step, summary.pk))
    first, last = rows[0].number, rows[-1].number
    return {
        number: summary
        for summary in found
        for number in range(max(first, summary.first_step), min(last, summary.last_step) + 1)
    }


@dataclass(frozen=True, slots=True)
class FilteredRows:
    """A window of the steps that match."""

    location: Location
    rows: list[Episode]
    earlier: int | None = None
    """Steps before this one have not been searched; None: all have, or another window links to them."""
    later: int | None = None
    """Likewise the steps after this one."""
    is_whole: bool = False
    """Whether both sides were searched."""
    earlier_step: int = 1
    """The step that the link to earlier matches opens without JavaScript."""
    later_step: int = 1


def matches_around(location: Location, step: int) -> FilteredRows:
    """Matches before a step, the step itself if it matches, and matches after it."""
    before, after = find_matches(location, before=step), find_matches(location, after=step - 1)
    rows = [*before.rows, *after.rows]
    return replace(before, rows=rows, later=after.later, later_step=after.later_step, is_whole=True)


def find_matches(location: Location, *, after: int = 0, before: int | None = None) -> FilteredRows:
    """The last matches before a step, or else the next ones after a step."""
    steps = range(max(0, after) + 1, location.steps + 1)
    if before is not None:
        steps = range(min(before - 1, location.steps), 0, -1)
    if location.filter.names:
        index_names_of(location.history)  # what a worker adds is found the next time
    wanted = location.filter.step_filter
    search = StepSearch(location.history, wanted, steps, of_turn=location.turn_steps)
    found = search.find(AROUND)
    want_text_index(search.unindexed)
    mark_notes(location, found.rows)
    rest = None
    if found.more is not None:
        # A search that stopped early has not compared the step at which it stopped. A match was compared.
        is_match = bool(found.rows) and found.rows[-1].number == found.more.number
        rest = found.more.number if is_match else found.more.number - steps.step
    if steps.step < 0:
        return FilteredRows(location, found.rows[::-1], earlier=rest, earlier_step=max(1, (rest or 1) - 1))
    next_step = min(location.steps, (rest or 0) + 1)
    return FilteredRows(location, found.rows, later=rest, later_step=next_step)
