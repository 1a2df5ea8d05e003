"""Which steps the notes of a context cover."""

import builtins

import pytest

from historyapp.core.excerpts import Excerpt, ExcerptLine
from historyapp.core.policies import notes
from historyapp.core.policies.base import RangeSummary, StepOutline
from historyapp.core.policies.notes import Note, covered_steps


def outline(digests: dict[int, int], count: int, first: int = 1) -> list[StepOutline]:
    """Steps from the number ``first``. ``digests``: the first steps of summaries, by their last steps."""
    line = ExcerptLine("a line", 2, ())
    return [
        StepOutline(
            number,
            2 * number,
            2 * number + 1,
            "success",
            Excerpt(),
            digest=RangeSummary("id", digests[number], line) if number in digests else None,
        )
        for number in range(first, first + count)
    ]


def noted(*places: tuple[int, int]) -> list[Note]:
    return [Note(at, line, "a line", 2) for at, line in places]


@pytest.mark.parametrize(
    ("digests", "places", "covered"),
    [
        ({}, [], set[int]()),
        ({}, [(2, notes._CALL), (2, 0), (5, 1)], {2, 5}),
        ({15: 13}, [(5, notes._DIGEST), (8, notes._CALL)], {3, 4, 5, 8}),
        ({15: 13}, [(5, notes._CALL)], {5}),
        ({13: 4, 17: 12}, [(7, notes._DIGEST), (3, notes._DIGEST), (5, notes._CALL)], set(range(8))),
        (
            {19: 18, 16: 15, 13: 13},
            [(9, notes._DIGEST), (6, notes._DIGEST), (3, notes._DIGEST)],
            {8, 9, 5, 6, 3},
        ),
    ],
)
def test_a_digest_covers_the_steps_of_its_summary(
    digests: dict[int, int], places: list[tuple[int, int]], covered: set[int]
) -> None:
    assert covered_steps(outline(digests, 10, first=10), noted(*places)) == covered


def test_steps_that_many_digests_cover_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added = list[int]()

    def count(first: int, last: int) -> range:
        added.append(len(builtins.range(first, last)))
        return builtins.range(first, last)

    steps = outline(dict.fromkeys(builtins.range(2, 301), 1), 300)
    monkeypatch.setattr(notes, "range", count, raising=False)
    covered = covered_steps(steps, noted(*((at, notes._DIGEST) for at in builtins.range(1, 300))))
    assert covered == set(builtins.range(300))
    assert sum(added) == 300
