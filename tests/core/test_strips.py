"""The strip of outcomes: extended step by step, it equals the one computed from the rows of the steps."""

import pytest

from historyapp.core.projection import Step
from historyapp.core.strips import (
    MAX_BARS,
    bar_ends,
    bars_of,
    cut_strip,
    dump_strip,
    extend_strip,
    load_strip,
    mark_of,
)


def step(number: int) -> Step:
    """Every tenth step fails, every seventh likely; each has 100 tokens."""
    row = Step(number, number, number, number, "success", total_errors=number // 10)
    return row._replace(total_likely_failures=number // 7, total_tokens=100 * number)


def extended(steps: int) -> str:
    strip = ""
    for number in range(1, steps):
        strip = extend_strip(strip, step(number))
    return strip


@pytest.mark.parametrize("steps", [1, 2, 31, 32, 33, 34, 63, 64, 65, 127, 128, 129, 1000])
def test_an_extended_strip_equals_the_one_computed_from_rows(steps: int) -> None:
    assert [*load_strip(extended(steps))] == [mark_of(step(end)) for end in bar_ends(steps)]


@pytest.mark.parametrize(("steps", "kept"), [(1, 0), (32, 31), (32, 1), (64, 33), (1000, 999), (1000, 513)])
def test_a_cut_strip_equals_the_one_computed_from_rows(steps: int, kept: int) -> None:
    assert cut_strip(extended(steps), steps, kept) == extended(kept)


@pytest.mark.parametrize(("steps", "kept"), [(33, 32), (1000, 512), (10, 11)])
def test_a_strip_with_narrower_bars_or_more_steps_has_to_be_read(steps: int, kept: int) -> None:
    assert cut_strip(extended(steps), steps, kept) is None


def test_a_strip_that_lacks_totals_is_not_cut() -> None:
    assert cut_strip("", 500, 499) is None


@pytest.mark.parametrize("steps", [1, 5, 32, 33, 1000, 100_000])
def test_bars_cover_every_step_once_and_are_few(steps: int) -> None:
    marks = dump_strip([mark_of(step(end)) for end in bar_ends(steps)])
    bars = list(bars_of(marks, step(steps)))
    assert len(bars) <= MAX_BARS
    assert [bar.first_step for bar in bars] == [1, *(bar.last_step + 1 for bar in bars[:-1])]
    assert bars[-1].last_step == steps
    assert sum(bar.errors for bar in bars) == steps // 10
    assert sum(bar.tokens for bar in bars) == 100 * steps


def test_a_session_of_an_earlier_version_has_one_bar_until_its_totals_are_read() -> None:
    assert extend_strip("", step(500)) == "" or bar_ends(500) == bar_ends(501)
    assert [bar.last_step for bar in bars_of("", step(500))] == [500]
