"""Computes the tail of a history at any position from its newest entries.

A session stores its current tail. Rewinds, forks and reads with ``as_of`` need the tails of earlier
positions.
"""

from historyapp.core import entries as core
from historyapp.core.dates import milliseconds_of
from historyapp.core.entries import PERSON
from historyapp.core.lineage import Lineage
from historyapp.core.overview.running import WAIT
from historyapp.core.person_inputs import COMMAND, begins_turn
from historyapp.core.projection import Step, Tail, Totals, advance
from historyapp.core.run_clock import Clock
from historyapp.models.entries import Entry
from historyapp.models.episodes import Episode
from historyapp.models.long_rows import count_read
from historyapp.models.own_rows import live_rows, row_at

MAX_PENDING = 100
"""The maximum number of inputs after the newest step to read, and of notes. The newest are read."""
_TEXTS = {"model_input": "content", "debug_log": "message"}
_MIN_ROW = 256
"""Bytes that an entry of a step counts in addition to its own: reading it takes at least 10 µs."""


def tail_of(lineage: Lineage) -> Tail:
    """The tail of a lineage, from its newest entry and the step of this entry.

    It reads the entries of this step and an input after it. They may be long, so call it before you take the
    write lock: entries never change, and neither does the tail of a lineage.
    """
    newest = Entry.objects.defer("body", "metadata").newest(lineage)
    if newest is None:
        return Tail()
    totals = Totals.load(newest.totals)
    step = _newest_step(lineage, totals)
    pending = _pending(lineage, step.first_position if step else 0)
    clock = Clock(milliseconds_of(newest.created_at), is_waiting=True)
    return pending._replace(totals=totals, step=step, clock=clock)


def _pending(lineage: Lineage, after: int) -> Tail:
    """What the newest inputs and notes after a position add to a tail. Notes displace no inputs.

    Only commands and the input of the preview are read whole: together inputs may have millions of values.
    """

    def newest(*kinds: str) -> list[int]:
        rows = Entry.objects.only("position").live(
            lineage, after=after, kinds=kinds, newest_first=True, limit=MAX_PENDING
        )
        return [row.position for row in rows]

    positions = newest("model_input", "debug_log")
    if len(positions) == MAX_PENDING:
        positions = newest("model_input") + newest("debug_log")
    tail = Tail()
    for position in sorted(positions):
        row = row_at(lineage, position, ("channel", "category"))
        count_read(row.size)
        body = {**row.body, _TEXTS[row.kind]: str(position)}  # so the preview tells which input it is
        if body.get("channel") == COMMAND and _begins_turn(lineage, position):
            body["channel"] = PERSON
        tail = advance(tail, row._replace(body=body).core()).tail
    if not tail.input_preview:
        return tail
    shown = row_at(lineage, int(tail.input_preview))
    count_read(shown.size)
    return tail._replace(input_preview=advance(Tail(), shown.core()).tail.input_preview)


def _begins_turn(lineage: Lineage, position: int) -> bool:
    row = row_at(lineage, position, ("channel", "content"))
    count_read(row.size)
    return begins_turn(row.body["channel"], row.body.get("content"))


def _newest_step(lineage: Lineage, totals: Totals) -> Step | None:
    if not totals.steps:
        return None
    *previous, row = Episode.objects.numbered(lineage, max(1, totals.steps - 1), totals.steps)
    within = live_rows(lineage, row.first_position - 1, kinds=core.STEP_KINDS)
    last = next(within)
    count_read(last.size)
    before = totals._replace(steps=totals.steps - 1)
    step = advance(Tail(before, input_preview=row.input_preview), last.core()).tail.step
    for last in within:  # one at a time, because a step may have many long results
        count_read(_MIN_ROW + last.size)
        step = advance(Tail(totals, step), last.core()).tail.step
    assert step is not None
    # If the step was cut, the row's anchor is the cut's, but the totals are those of the step's last entry.
    own_totals = Totals.load(last.totals)
    likely = step.total_likely_failures + sum(earlier.total_likely_failures for earlier in previous)
    if row.target.startswith(WAIT):  # the row knows for which command it waits
        step = step._replace(target=row.target)
    return step._replace(
        anchor=row.anchor,
        total_tokens=own_totals.tokens,
        total_errors=own_totals.errors,
        total_likely_failures=likely,
        **{name: getattr(row, name) for name in ("turn", "turn_first", "compactions", "kind_totals")},
    )
