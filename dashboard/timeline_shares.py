"""What the timeline shows of each step; in long sessions of each of up to 250 equal shares of the steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_of
from historyapp.models.episodes import StepSample
from historyapp.models.history import History
from historyapp.models.input_counts import count_inputs
from historyapp.services.prices import price_list

MOST_SINGLE = 400
"""The most steps that are shown one by one."""
MOST_SHARES = 250
"""The most shares of more steps."""


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
    """When its first step began; of several steps, when the step before them ended. None: not known."""
    after: int = -1
    """Position of the output before its first step; 0: there is none. -1: not known."""
    inputs: int = 0
    """Inputs before its steps, as far as these are counted; of a single step at most one."""
    cost: int = 0
    """In millionths of a dollar."""
    context: int = 0
    """Input tokens of a step, as reported; of several steps the average. 0: not known."""

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
    """The shares of steps ``first`` to ``last``. It reads a bounded number of rows, in at most three queries
    where no session is shared.

    Args:
        usage: whether to read what the model calls used. Without it context and cost are unknown.
    """
    last = min(last, history.steps)
    steps = last - first + 1
    if steps < 1:
        return []
    size = 1 if steps <= MOST_SINGLE else ceil(steps / MOST_SHARES)
    ends = [min(end, last) for end in range(first - 1 + size, last + size, size)]
    # The step before the first one has the running totals from which the first share is counted.
    rows = history.sample([first - 1, *ends] if first > 1 else ends)
    before = max((row.number for row in rows if row.number < first), default=0)
    rows = [row for row in rows if row.number >= before]
    totals = history.totals_of(rows) if usage and history.tail.totals.models else {}
    shares = _single(rows) if size == 1 else _several(rows)
    shares = [share for share in shares if share.first >= first]
    if size > 1:
        shares = _with_inputs(history, shares)
    return _with_usage(history, shares, totals)


def _single(rows: Sequence[StepSample]) -> list[StepShare]:
    return [
        StepShare(
            first=row.number,
            row=row,
            tokens=row.tokens,
            errors=int(row.status == "error"),
            likely=int(row.likely_failure != "" and row.status != "error"),
            begin=row.started_at,
            inputs=int(row.input_preview != ""),
        )
        for row in rows
    ]


def _several(rows: Sequence[StepSample]) -> list[StepShare]:
    """Differences of running totals."""
    shares: list[StepShare] = []
    before, after, tokens, errors, likely, ended = 0, 0, 0, 0, 0, None
    for row in rows:
        share = StepShare(
            first=before + 1,
            row=row,
            tokens=max(0, row.total_tokens - tokens),
            errors=max(0, row.total_errors - errors),
            likely=max(0, row.total_likely_failures - likely),
            begin=ended or row.started_at,
            after=after if row.anchor else -1,
        )
        shares.append(share)
        before, tokens, errors = row.number, row.total_tokens, row.total_errors
        after = row.anchor or -1
        likely, ended = row.total_likely_failures, share.end
    return shares


def _with_inputs(history: History, shares: list[StepShare]) -> list[StepShare]:
    """The shares with the number of their inputs, where their places are known."""
    places = [(share.after, share.row.anchor) for share in shares if share.after >= 0]
    counts = iter(count_inputs(history.lineage, places))
    return [replace(share, inputs=next(counts)) if share.after >= 0 else share for share in shares]


def _with_usage(history: History, shares: list[StepShare], totals: Mapping[int, Totals]) -> list[StepShare]:
    """The shares with what their model calls used, where both of their ends are known."""
    if not totals:
        return shares
    prices, model = price_list(), history.session.model
    found: list[StepShare] = []
    for share in shares:
        then, now = totals.get(share.first - 1), totals.get(share.last)
        if share.first == 1:
            then = Totals()
        if then is not None and now is not None:
            sent = max(0, now.input_tokens - then.input_tokens)
            before, after = (money_of(totals, model, prices).micros for totals in (then, now))
            cost = max(0, after - before)
            share = replace(share, cost=cost, context=round(sent / share.steps))
        found.append(share)
    return found
