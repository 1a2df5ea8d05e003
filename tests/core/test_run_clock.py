"""The idle time that an append counts, and the parts of the time that the overview counts."""

import random
from collections.abc import Callable

import pytest

from historyapp.core.dates import milliseconds_of
from historyapp.core.entries import COMPACTION, INTERRUPTION, DebugLog
from historyapp.core.projection import Tail, advance
from tests.core.overview.runs import Run

_MOVES: tuple[Callable[[Run, float], Run], ...] = (
    lambda run, after: run.ask(after),
    lambda run, after: run.ask(after, COMPACTION),
    lambda run, after: run.ask(after, INTERRUPTION),
    lambda run, after: run.call(after=after),
    lambda run, after: run.ok(after=after),
    lambda run, after: run.answer(after),
    lambda run, after: run.add(DebugLog(category="hook", message="…"), after),
)


def idle_time(run: Run) -> int:
    """As appends count it. The state between two appends is stored as JSON."""
    tail = Tail()
    for entry in run.entries:
        tail = Tail.load(advance(tail, entry).tail.dump())
    return tail.totals.idle


def length(run: Run) -> int:
    return milliseconds_of(run.entries[-1].created_at) - milliseconds_of(run.entries[0].created_at)


def test_records_of_the_agents_program_before_the_first_prompt_and_after_the_end_are_idle() -> None:
    run = Run().note("hook").ask(600, INTERRUPTION).ask(30).call(after=5).ask(20, INTERRUPTION).ok(after=4)
    assert idle_time(run) == 630_000
    assert idle_time(run.answer(after=3).ask(50, INTERRUPTION)) == 680_000
    assert idle_time(run.ask(100)) == 630_000, "the person was waited for"


@pytest.mark.parametrize("seed", range(30))
def test_the_rest_of_the_length_is_the_sum_of_the_parts_of_the_overview(seed: int) -> None:
    rng, run = random.Random(seed), Run()
    for _ in range(rng.randint(1, 25)):
        rng.choice(_MOVES)(run, rng.choice((0, 1, 2.5, 600)))
    times = run.figures
    parts = times.model_time + times.tool_time + times.waiting_time + times.unanswered_time
    assert idle_time(run) == length(run) - parts
