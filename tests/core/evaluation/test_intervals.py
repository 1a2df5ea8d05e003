"""How sure the figures of sessions are."""

import random

import pytest

from historyapp.core.evaluation.intervals import SessionTotal, difference, mean_interval


def test_the_interval_contains_the_mean_of_the_source_about_19_times_in_20() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(40):
        sessions = [SessionTotal(sum(draw.random() < 0.6 for _ in range(8)), 8) for _ in range(30)]
        interval = mean_interval(sessions)
        assert interval.low <= interval.mean <= interval.high
        hits += interval.low <= 0.6 <= interval.high
    assert hits >= 34


def test_decisions_of_one_session_do_not_count_as_independent() -> None:
    alike = [SessionTotal(8.0 * (number % 2), 8) for number in range(10)]
    apart = [SessionTotal(4.0, 8)] * 10
    assert mean_interval(alike).high - mean_interval(alike).low > 0.3
    assert mean_interval(apart).high == mean_interval(apart).low


def test_policies_are_compared_in_pairs() -> None:
    draw = random.Random(2)
    baseline = [SessionTotal(draw.uniform(0, 16), 16) for _ in range(20)]
    better = [SessionTotal(share.total + 0.8, 16) for share in baseline]
    interval = difference(better, baseline)
    assert interval.excludes_zero
    assert interval.low == pytest.approx(0.05)
    assert not difference(baseline, baseline).excludes_zero
