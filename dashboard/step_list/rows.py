"""The rows of the step list: a window of all steps, or of those that match a filter."""

from dataclasses import dataclass, replace

from dashboard.location import Location
from dashboard.step_list.subagents import SubagentRow, subagents_in
from dashboard.step_list.turns import TurnFigures, figures_of, turns_in
from historyapp.core.person_inputs import INTERRUPTION_NOTES
from historyapp.enqueue import request_text_index
from historyapp.models import Episode, StepNote, Summary
from historyapp.models.history import History
from historyapp.models.step_filters import StepSearch
from historyapp.models.takes import Take
from historyapp.models.turns import last_step
from historyapp.models.visibility import without_hidden_previews

AROUND = 25
"""Rows shown before and after the playhead, and rows loaded each time by scrolling."""


@dataclass(frozen=True, slots=True)
class ListedStep:
    """A row of the list of all steps."""

    row: Episode
    takes: list[Take]
    """Takes that branch off after the step."""
    summary: Summary | None
    """The summary that covers the step."""
    turn: TurnFigures | None
    """The turn that begins with it."""
    subagents: list[SubagentRow]
    """The sub-agents that it started."""
    is_interrupted: bool
    """Whether a person interrupted the model after it, and no result of the step says so."""
    hides_input: bool
    """Whether the input before it only says that a person interrupted the model, as another row does."""


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
    hides_input: bool = False
    """Whether the input after the newest step only says that a person interrupted the model, as another row
    does."""
    has_link_back: bool = True
    has_link_forward: bool = True
    """Whether it has links to earlier and later steps. A list has them only at its two ends."""


def step_rows(location: Location, first: int, last: int, takes: list[Take]) -> StepRows:
    """The existing steps among ``first`` to ``last``."""
    rows = location.history.rows(first - 1, last)  # the row before shows whether the first one begins a turn
    before = rows.pop(0) if rows and rows[0].number < first else None
    turns = turns_in(location.history, before, rows)
    subagents = subagents_in(location.history, rows)
    takes_after: dict[int, list[Take]] = {}
    for take in takes:
        takes_after.setdefault(take.after_step, []).append(take)
    summaries, interrupted = summaries_by_step(location, rows), interrupted_steps(location.history, rows)
    mark_notes(location, rows)
    first_row, last_row = (rows[0].number, rows[-1].number) if rows else (0, 0)
    pending_input = location.history.tail.input_preview
    return StepRows(
        [
            ListedStep(
                row,
                takes_after.get(row.number, []),
                summaries.get(row.number),
                turns.get(row.number),
                subagents.get(row.number, []),
                row.number in interrupted and row.status != "interrupted_by_human",
                row.number - 1 in interrupted and row.input_preview.startswith(INTERRUPTION_NOTES),
            )
            for row in rows
        ],
        first_takes=takes_after.get(0, []) if first <= 1 else [],
        first=first_row,
        last=last_row,
        before=max(1, first_row - AROUND),
        after=min(location.steps, last_row + AROUND),
        is_complete=last_row >= location.steps,
        hides_input=location.steps in interrupted and pending_input.startswith(INTERRUPTION_NOTES),
    )


def beyond_turn(location: Location, turn: int, after: int) -> int:
    """The step after which rows are needed if a turn is folded: ``after``, or the turn's last step."""
    if not 1 <= after < location.steps or location.history.row(after).turn != turn:
        return after
    return last_step(location.history, turn)


def before_turn(location: Location, turn: int, before: int) -> int:
    """The step before which rows are needed if a turn is folded except for its first step."""
    if not 1 < before <= location.steps:
        return before
    row = location.history.row(before)
    return row.turn_first + 1 if row.turn == turn and 0 < row.turn_first < before else before


def interrupted_steps(history: History, rows: list[Episode]) -> set[int]:
    """The steps after which a person interrupted the model: of consecutive rows, and the one before them.

    Those that an earlier version recorded are unknown. Most histories need no query.
    """
    if not rows or not history.tail.totals.interruptions:
        return set()
    first, last = max(1, rows[0].number - 1), rows[-1].number
    numbers = range(first, min(last + 1, history.steps) + 1)
    samples = history.sample(numbers, with_totals=True) if len(numbers) > 1 else []
    totals = {sample.number: sample.entry_totals for sample in samples if sample.entry_totals is not None}
    counts = {number: int(found.get("interruptions", 0)) for number, found in totals.items()}
    tail = history.tail
    counts |= {
        history.steps: tail.step_totals.interruptions,
        history.steps + 1: tail.totals.interruptions,
    }
    return {
        number
        for number in range(first, last + 1)
        if number in counts and counts.get(number + 1, 0) > counts[number]
    }


def mark_notes(location: Location, rows: list[Episode]) -> None:
    """Adds to each row the note on its step, and to the location the note on its step, if listed."""
    notes: dict[int, StepNote] = {}
    if location.note_starts:
        notes = StepNote.objects.at(location.history.lineage, [row.first_position for row in rows])
    for row in rows:
        row.note = notes.get(row.number)
        if row.number == location.step:
            location.note = row.note


def summaries_by_step(location: Location, rows: list[Episode]) -> dict[int, Summary]:
    """The summary of each summarised step, without its text: the narrowest, or the newest of equal width."""
    if not rows or not location.shows_inputs:
        return {}
    history, positions = location.history, (rows[0].first_position, rows[-1].last_position)
    summaries = Summary.objects.without_texts().covering(
        history.session, history.lineage, positions, history.as_of
    )
    summaries.sort(key=lambda summary: (summary.first_step - summary.last_step, summary.pk))
    first, last = rows[0].number, rows[-1].number
    return {
        number: summary
        for summary in summaries
        for number in range(max(first, summary.first_step), min(last, summary.last_step) + 1)
    }


@dataclass(frozen=True, slots=True)
class TurnHead:
    """The head of a turn above the steps of it that match."""

    number: int
    preview: str
    """The beginning of the input."""
    figures: TurnFigures | None
    """Null unless the list shows only the steps of one turn: the end of other turns is not known."""


@dataclass(frozen=True, slots=True)
class MatchingStep:
    """A row of a filtered list."""

    row: Episode
    turn: TurnHead | None
    """The head above it; None if the row before it is of the same turn."""
    subagents: list[SubagentRow]
    """The sub-agents that it started."""


@dataclass(frozen=True, slots=True)
class FilteredRows:
    """A window of the steps that match."""

    location: Location
    rows: list[MatchingStep]
    earlier: int | None = None
    """Steps before this one have not been searched; None if all have been, or if another window links to
    them.
    """
    later: int | None = None
    """Like ``earlier``, for the steps after this one."""
    is_whole: bool = False
    """Whether both sides were searched."""
    moved_turn: int = 0
    """The turn whose head moved from the row after this window into it; 0 if none did."""
    has_step: bool = False
    """Whether the step around which the window lies is one of its rows."""
    earlier_step: int = 1
    """The step that the link to earlier matches opens without JavaScript."""
    later_step: int = 1


@dataclass(frozen=True, slots=True)
class _Matches:
    """The result of one search."""

    rows: list[Episode]
    boundary: int | None
    """Steps beyond this one have not been searched; None: all have been."""


def at_first_match(location: Location) -> Location:
    """The location at the first step that its filter shows, or unchanged if no step is found."""
    found = _search(location).find(1).rows
    return replace(location, step=found[0].number) if found else location


def matches_around(location: Location, step: int) -> FilteredRows:
    """Matches before a step, the step itself if it matches, and matches after it."""
    searches = _search(location, before=step), _search(location, after=step - 1)
    if location.filter.step_filter.is_listed:
        location.history.load({step - 1, step})  # both searches begin there
        searches[0].listed.read_with(searches[1].listed, step, AROUND)
    before, after = map(_matches, searches)
    rows = _as_listed(location, [*before.rows[::-1], *after.rows])
    return FilteredRows(
        location,
        rows,
        earlier=before.boundary,
        later=after.boundary,
        is_whole=True,
        has_step=bool(after.rows) and after.rows[0].number == step,
        earlier_step=max(1, (before.boundary or 1) - 1),
        later_step=min(location.steps, (after.boundary or 0) + 1),
    )


def matches_after(location: Location, step: int) -> FilteredRows:
    """The next matches after a step."""
    matches = _matches(_search(location, after=step))
    rows = _as_listed(location, matches.rows, step)
    later_step = min(location.steps, (matches.boundary or 0) + 1)
    return FilteredRows(location, rows, later=matches.boundary, later_step=later_step)


def matches_before(location: Location, step: int) -> FilteredRows:
    """The last matches before a step."""
    matches = _matches(_search(location, before=step))
    location.history.load([step])
    rows = _as_listed(location, matches.rows[::-1])
    turn = location.history.row(step).turn if rows and step <= location.steps else 0
    return FilteredRows(
        location,
        rows,
        earlier=matches.boundary,
        moved_turn=turn if rows and rows[-1].row.turn == turn else 0,
        earlier_step=max(1, (matches.boundary or 1) - 1),
    )


def _search(location: Location, *, after: int = 0, before: int | None = None) -> StepSearch:
    """A search before a step, the last one first, or else after a step."""
    steps = range(max(0, after) + 1, location.steps + 1)
    if before is not None:
        steps = range(min(before - 1, location.steps), 0, -1)
    location.index_names()
    return StepSearch(location.history, location.filter.step_filter, steps, of_turn=location.turn_steps)


def _matches(search: StepSearch) -> _Matches:
    """The next matches, and the step at which to continue."""
    result = search.find(AROUND)
    if not search.history.visible.is_shared:  # readers of share links must not start background work
        request_text_index(search.unindexed)
    if result.more is None:
        return _Matches(result.rows, None)
    # A search that stopped early has not compared the step at which it stopped. A match was compared.
    is_match = bool(result.rows) and result.rows[-1].number == result.more.number
    return _Matches(result.rows, result.more.number if is_match else result.more.number - search.within.step)


def _as_listed(location: Location, rows: list[Episode], listed_before: int = 0) -> list[MatchingStep]:
    """Matches with the heads of their turns, their sub-agents and notes.

    Args:
        listed_before: the step of the row that the list has before them; 0: none.
    """
    history, turn_steps = location.history, location.turn_steps or range(0)
    rows = rows if location.shows_inputs else [without_hidden_previews(row) for row in rows]
    turn_starts = {row.turn_first for row in rows}
    ends = {turn_steps[0] - 1, turn_steps[-1]} if turn_steps else set[int]()
    rows_by_number = history.load({*turn_starts, *ends, listed_before, location.step - 1, location.step})
    mark_notes(location, rows)
    subagents = subagents_in(history, rows)
    turn = rows_by_number[listed_before].turn if listed_before in rows_by_number else 0
    listed: list[MatchingStep] = []
    for row in rows:
        head = None
        if row.turn != turn and (first := rows_by_number.get(row.turn_first)):
            last_row = rows_by_number.get(turn_steps[-1]) if turn_steps else None
            before = rows_by_number.get(first.number - 1)
            figures = figures_of(history, before, first, last_row) if last_row else None
            head = TurnHead(row.turn, first.input_preview, figures)
        turn = row.turn
        listed.append(MatchingStep(row, head, subagents.get(row.number, [])))
    return listed
