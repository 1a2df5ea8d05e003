"""The timeline's data for each step; in long sessions, for each of up to 250 equal shares of the steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_of
from historyapp.models.episodes import StepSample
from historyapp.models.history import History
from historyapp.services.prices import price_list

MAX_SINGLE = 400
"""The maximum number of steps that are shown one by one."""
MAX_SHARES = 250
"""The maximum number of shares of more steps."""


@dataclass(frozen=True, slots=True)
class StepShare:
    """Steps ``first`` to the step of ``row``."""

    first: int
    row: StepSample
    tokens: int
    errors: int
    """Steps that ended in an error, as reported."""
    likely: int
    """Steps that look like failures and were reported as successes."""
    begin: datetime | None
    """When its first step began; for several steps, when the step before them ended. None if unknown."""
    after: int = -1
    """Position of the output before its first step; 0: there is none. -1: not known."""
    turns: int = 0
    """Turns of a person that begin in it, as far as that is known."""
    compactions: int = 0
    """The number of its steps before which the agent compacted its context, as far as known."""
    cost: int = 0
    """In millionths of a dollar."""
    interruptions: int = 0
    """How often a person interrupted the model before one of its steps, as far as known."""
    context: int = 0
    """Input tokens of a step, as reported; for several steps, the average. 0 if unknown."""

    @property
    def last(self) -> int:
        return self.row.number

    @property
    def steps(self) -> int:
        return self.row.number - self.first + 1

    @property
    def end(self) -> datetime | None:
        return self.row.finished_at or self.row.started_at

    @property
    def milliseconds(self) -> int:
        if self.begin is None or self.end is None:
            return 0
        return max(0, round((self.end - self.begin).total_seconds() * 1000))


def read_shares(history: History, first: int, last: int, *, usage: bool = True) -> list[StepShare]:
    """The shares of steps ``first`` to ``last``. Reads a bounded number of rows, in one query if little was
    cut off.

    Args:
        usage: whether to read the usage of model calls. Without it, context and cost are unknown.
    """
    last = min(last, history.steps)
    if last < first:
        return []
    with_totals = usage and _has_totals(history)
    rows = history.sample(_numbers(first, last), with_totals=with_totals)
    before = max((row.number for row in rows if row.number < first), default=0)
    rows = [row for row in rows if row.number >= before]
    draw = _single if last - first < MAX_SINGLE else _several
    shares = [draw(then, row) for then, row in zip([None, *rows], rows, strict=False)]
    shares = [share for share in shares if share.first >= first]
    return _with_usage(history, shares, rows) if with_totals else shares


def read_shares_ahead(history: History, *parts: tuple[int, int]) -> None:
    """Reads the rows of the shares of several parts in one query."""
    numbers = {number for first, last in parts for number in _numbers(first, min(last, history.steps))}
    history.sample_ahead(sorted(numbers), with_totals=_has_totals(history))


def _has_totals(history: History) -> bool:
    """Whether the totals of entries tell more than the rows of steps."""
    return bool(history.tail.totals.models or history.tail.totals.interruptions)


def _numbers(first: int, last: int) -> list[int]:
    """The last steps of the shares, and the step with the totals from which the first one is counted."""
    steps = last - first + 1
    size = 1 if steps <= MAX_SINGLE else ceil(steps / MAX_SHARES)
    ends = [min(end, last) for end in range(first - 1 + size, last + size, size)]
    return [first - 1, *ends] if first > 1 else ends


def _single(before: StepSample | None, row: StepSample) -> StepShare:
    is_next = before is None or before.number == row.number - 1
    return StepShare(
        first=row.number,
        row=row,
        tokens=row.tokens,
        errors=int(row.status == "error"),
        likely=int(row.likely_failure != "" and row.status != "error"),
        begin=row.started_at,
        turns=_increase(before, row, "turn") if is_next else 0,
        compactions=_increase(before, row, "compactions") if is_next else 0,
    )


def _several(before: StepSample | None, row: StepSample) -> StepShare:
    """A share of several steps, computed from the running totals at its ends."""
    ended = (before.finished_at or before.started_at) if before else None
    # In a long history with many cuts, only some totals of a row are known.
    is_known = row.anchor > 0 and (before is None or before.anchor > 0)
    is_one_step = row.anchor > 0 and row.number == (before.number if before else 0) + 1
    return StepShare(
        first=before.number + 1 if before else 1,
        row=row,
        tokens=row.tokens if is_one_step else _increase(before, row, "total_tokens"),
        errors=_increase(before, row, "total_errors"),
        likely=_increase(before, row, "total_likely_failures"),
        begin=ended or row.started_at,
        after=(before.anchor if before else 0) if is_known else -1,
        turns=_increase(before, row, "turn") if is_known else 0,
        compactions=_increase(before, row, "compactions") if is_known else 0,
    )


def _increase(before: StepSample | None, row: StepSample, name: str) -> int:
    """The growth of a running total between two rows."""
    then: int = getattr(before, name) if before else 0
    now: int = getattr(row, name)
    return max(0, now - then)


def _with_usage(history: History, shares: list[StepShare], rows: Sequence[StepSample]) -> list[StepShare]:
    """The shares with the usage of their model calls, if both of their ends are known."""
    totals = {row.number: Totals.load(row.entry_totals) for row in rows if row.entry_totals is not None}
    prices, model = price_list(), history.session.model
    with_usage: list[StepShare] = []
    for share in shares:
        then, now = totals.get(share.first - 1), totals.get(share.last)
        if share.first == 1:
            then = Totals()
        if then is not None and now is not None:
            sent = max(0, now.input_tokens - then.input_tokens)
            before, after = (money_of(totals, model, prices).micros for totals in (then, now))
            cost = max(0, after - before)
            interrupted = max(0, now.interruptions - then.interruptions)
            share = replace(share, cost=cost, context=round(sent / share.steps), interruptions=interrupted)
        with_usage.append(share)
    return with_usage
