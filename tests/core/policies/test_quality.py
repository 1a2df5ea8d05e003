"""The measure of contexts: which projects are set aside, which steps count, and how sure it is."""

import random

import pytest

from bench.quality.corpus import Recorded
from historyapp.core.evaluation.intervals import SessionTotal, difference, mean_interval
from historyapp.core.evaluation.targets import DECISIONS, measured_steps


def recorded(file: str, format: str = "claude_code") -> Recorded:
    return Recorded(format, file, "s", [], [], [])


@pytest.mark.parametrize(
    ("file", "format", "project"),
    [
        ("claude_code/entire__10_2b7007badc_0.jsonl", "claude_code", "entire"),
        ("mini_swe_agent/814__bench1__django__django-13964.traj.json", "mini_swe_agent", "django__django"),
        (
            "swe_agent_traj/replay__marshmallow-code__marshmallow-1867__a.traj",
            "swe_agent",
            "marshmallow-code__marshmallow",
        ),
        ("mine/run-7.jsonl", "codex_rollout", "mine/run"),
    ],
)
def test_the_project_is_what_the_agent_worked_on(file: str, format: str, project: str) -> None:
    assert recorded(file, format).project == project


def test_files_of_one_project_are_never_on_both_sides() -> None:
    files = [
        f"{folder}/project{number}__{run}.jsonl"
        for number in range(60)
        for folder in "ab"
        for run in range(3)
    ]
    sides: dict[str, bool] = {}
    for file in files:
        one = recorded(file)
        assert sides.setdefault(one.project, one.is_untouched) == one.is_untouched
    assert 10 <= sum(sides.values()) <= 30


def test_a_long_session_counts_no_more_than_its_share() -> None:
    steps = measured_steps({step: [] for step in range(7, 500)})
    assert len(steps) == DECISIONS
    assert steps == sorted(set(steps))
    assert steps[0] < 40
    assert steps[-1] > 460
    assert measured_steps({9: [], 11: []}) == [9, 11]


def test_the_interval_contains_the_mean_of_the_source_about_19_times_in_20() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(40):
        sessions = [SessionTotal(sum(draw.random() < 0.6 for _ in range(8)), 8) for _ in range(30)]
        found = mean_interval(sessions)
        assert found.low <= found.mean <= found.high
        hits += found.low <= 0.6 <= found.high
    assert hits >= 34


def test_decisions_of_one_session_do_not_count_as_independent() -> None:
    alike = [SessionTotal(8.0 * (number % 2), 8) for number in range(10)]
    apart = [SessionTotal(4.0, 8)] * 10
    assert mean_interval(alike).high - mean_interval(alike).low > 0.3
    assert mean_interval(apart).high == mean_interval(apart).low


def test_policies_are_compared_in_pairs() -> None:
    draw = random.Random(2)
    those = [SessionTotal(draw.uniform(0, 16), 16) for _ in range(20)]
    these = [SessionTotal(share.total + 0.8, 16) for share in those]
    found = difference(these, those)
    assert found.excludes_zero
    assert found.low == pytest.approx(0.05)
    assert not difference(those, those).excludes_zero
