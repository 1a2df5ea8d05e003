"""A likely loop is recognised from rows, and ordinary work does not count as one."""

from dataclasses import dataclass

import pytest

from historyapp.core.loops import find_loop


@dataclass(frozen=True)
class Row:
    number: int
    call_preview: str
    result_preview: str = "same"
    status: str = "success"
    kind: str = "shell"
    target: str = "t"
    tool_names: tuple[str, ...] = ("bash",)
    likely_failure: str = ""


def rows(calls: str) -> list[Row]:
    """A step for each letter, which is its call."""
    return [Row(number, letter) for number, letter in enumerate(calls, 1)]


@pytest.mark.parametrize(
    ("calls", "rule"),
    [
        ("aaaa", "same_call_same_result"),
        ("abacada", "same_call_same_result"),
        ("aaa", None),
        ("abcdefgh", None),
    ],
)
def test_the_same_call_with_the_same_result_four_times_is_a_loop(calls: str, rule: str | None) -> None:
    loop = find_loop(rows(calls))
    assert (loop and loop.rule) == rule


def test_different_results_are_not_a_loop() -> None:
    assert find_loop([Row(n, "a", f"progress {n}") for n in range(1, 8)]) is None


def test_the_same_tests_after_edits_are_not_a_loop() -> None:
    steps = [Row(n, "edit" if n % 2 else "pytest", kind="edit" if n % 2 else "shell") for n in range(1, 7)]
    assert find_loop(steps) is None


def test_clipped_texts_are_not_compared() -> None:
    assert find_loop([Row(n, "a" * 200) for n in range(1, 9)]) is None
    assert find_loop([Row(n, "a", "b" * 200) for n in range(1, 9)]) is None


def test_two_alternating_calls_are_a_loop() -> None:
    steps = [Row(n, "ab"[n % 2], f"result {n}") for n in range(1, 9)]
    loop = find_loop(steps)
    assert loop
    assert loop.rule == "alternating_calls"
    later = find_loop([*steps, Row(9, "b", "result 9")])
    assert later
    assert later.digest == loop.digest, "it is the same loop"


def test_a_streak_of_failures_is_reported_once() -> None:
    steps = [Row(n, str(n), str(n), "error" if n % 2 else "success", likely_failure="x") for n in range(1, 8)]
    assert find_loop(steps[:5]) is None
    loop = find_loop(steps[:6])
    assert loop
    assert loop.rule == "error_streak"
    assert find_loop(steps[:7]) is None
