"""The turns of a run, as the step list groups steps by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from historyapp.core.dates import known_time
from historyapp.models import Episode
from historyapp.models.episodes import StepSample
from historyapp.models.history import History
from historyapp.models.turns import end_of_turn
from historyapp.services.fork_pauses import fork_pauses


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """An input from a person and the steps up to the next one."""

    number: int
    first: int
    last: int
    tokens: int
    """Tokens of the steps, and of inputs between them, by our own count. The inputs before the first step do
    not count, as in summaries, so a turn of one step has the tokens of this step."""
    errors: int
    """Steps that ended in an error."""
    likely_failures: int
    took: timedelta | None
    """From the first step to the end of the last one, without the pause before a fork's own entries; None
    without times."""

    @property
    def steps(self) -> int:
        return self.last - self.first + 1


def turns_in(history: History, before: Episode | None, rows: Sequence[Episode]) -> dict[int, TurnFigures]:
    """The turns that begin in consecutive rows, by their first steps.

    The figures are differences of running totals; at most one turn ends after the rows.

    Args:
        before: the row before them.
    """
    pairs = list(zip([before, *rows], rows, strict=False))
    begins = [(previous, row) for previous, row in pairs if row.turn > (previous.turn if previous else 0)]
    if not begins:
        return {}
    ends: list[Episode | StepSample] = [previous for previous, _ in begins[1:] if previous is not None]
    ends.append(end_of_turn(history, rows[-1]))
    return {
        row.number: figures_of(history, previous, row, end)
        for (previous, row), end in zip(begins, ends, strict=True)
    }


def turn_around(history: History, number: int) -> tuple[Episode, TurnFigures] | None:
    """The first step and the figures of the turn that a step belongs to; None before the first turn."""
    row = history.row(number)
    if not row.turn_first:
        return None
    rows = history.rows(row.turn_first - 1, row.turn_first)
    end = end_of_turn(history, row)
    return rows[-1], figures_of(history, rows[0] if len(rows) > 1 else None, rows[-1], end)


def figures_of(
    history: History, before: Episode | None, first: Episode, last: Episode | StepSample
) -> TurnFigures:
    """The figures of a turn by its first and last row, and the row before it."""
    return TurnFigures(
        number=first.turn,
        first=first.number,
        last=last.number,
        tokens=last.total_tokens - first.total_tokens + first.tokens,
        errors=last.total_errors - (before.total_errors if before else 0),
        likely_failures=last.total_likely_failures - (before.total_likely_failures if before else 0),
        took=_time_of(history, first, last),
    )


def _time_of(history: History, first: Episode, last: Episode | StepSample) -> timedelta | None:
    """The time of the steps, without that between the entries that a fork shares and its own."""
    start, end = known_time(first.started_at), last.finished_at or last.started_at
    is_forked = first.session_id != last.session_id
    pauses = fork_pauses(history, first.anchor, last.anchor) if is_forked else timedelta(0)
    took = end - start - pauses if start and end and pauses is not None else timedelta(0)
    return took if took > timedelta(0) else None
