"""The measure of contexts: which projects are set aside."""

import pytest

from bench.quality.corpus import Recorded


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
