"""Steps of two runs are put side by side in bounded time."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.alignment import MAX_ALIGNED, align, common_subsequence
from tests.examples import examples

SEQUENCES = st.lists(st.sampled_from("abcd"), max_size=25)


def longest(a: list[str], b: list[str]) -> int:
    """The length of the longest common subsequence, by the usual table."""
    row = [0] * (len(b) + 1)
    for value in a:
        before = row[:]
        for place, other in enumerate(b, start=1):
            row[place] = before[place - 1] + 1 if value == other else max(before[place], row[place - 1])
    return row[-1]


@settings(max_examples=examples(300))
@given(SEQUENCES, SEQUENCES)
def test_the_number_of_matching_steps_is_the_maximum(a: list[str], b: list[str]) -> None:
    matches = common_subsequence(a, b)
    assert len(matches) == longest(a, b)
    assert all(a[in_a] == b[in_b] for in_a, in_b in matches)
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(matches))


@settings(max_examples=examples(100))
@given(SEQUENCES, SEQUENCES)
def test_every_step_appears_once_and_in_order(a: list[str], b: list[str]) -> None:
    keys = [[[value, value in "ab"] for value in side] for side in (a, b)]
    pairs = align(*keys)
    assert [pair.a for pair in pairs if pair.a is not None] == list(range(len(a)))
    assert [pair.b for pair in pairs if pair.b is not None] == list(range(len(b)))


def test_a_weaker_key_pairs_steps_that_the_first_key_leaves() -> None:
    a = [["read a", "read"], ["run tests", "run"], ["answer", ""]]
    b = [["read a", "read"], ["run linter", "run"], ["search x", "search"], ["answer", ""]]
    assert align(a, b) == [(0, 0), (1, 1), (None, 2), (2, 3)]


def test_similar_steps_are_paired_with_the_first_of_several() -> None:
    a = [["run 1", "run"], ["read 2", "read"], ["run 3", "run"], ["run 4", "run"]]
    assert align(a, [["run x", "run"]]) == [(0, 0), (1, None), (2, None), (3, None)]
    assert align(a, [["run 4", "run"]]) == [(0, None), (1, None), (2, None), (3, 0)]  # the same call


def test_the_first_steps_after_a_divergence_are_neighbours() -> None:
    a = [[f"read {number}"] for number in range(4)]
    assert align(a, [["write x"], ["write y"]]) == [
        (0, None), (None, 0), (1, None), (2, None), (3, None), (None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("values", [lambda n: "x", lambda n: n % 2, lambda n: n * n % 7])
def test_repeated_steps_take_no_more_time(values: object) -> None:
    assert callable(values)
    a = [[values(n)] for n in range(MAX_ALIGNED)]
    b = [[values(n + 1)] for n in range(MAX_ALIGNED)]
    started = time.process_time()
    align(a, b)
    assert time.process_time() - started < 1


def test_too_many_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="2000"):
        align([["x"]] * 2001, [])
