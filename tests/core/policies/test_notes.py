"""Which steps the notes of a context cover."""

import builtins

import pytest

from historyapp.core.excerpts import Excerpt, ExcerptLine
from historyapp.core.policies import notes
from historyapp.core.policies.base import NO_EXTRAS, RangeSummary, RequestExtras, StepOutline
from historyapp.core.policies.notes import Note, Notes, covered_steps
from historyapp.core.policies.shown import ShownTexts


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


@pytest.mark.parametrize(
    ("extras", "chosen"),
    [
        (NO_EXTRAS, ["value_one", "value_two"]),
        (RequestExtras(scores_as_earlier=True), ["20261130", "20261201"]),
    ],
)
def test_names_come_before_numbers_that_were_only_read(extras: RequestExtras, chosen: list[str]) -> None:
    """Until 2026-11-30 the numbers came first, because they are shorter."""
    read = Excerpt(others=("20261130", "20261201", "value_one", "value_two"), result_names=4)
    steps = [StepOutline(number, number, number, "success", read) for number in (1, 2)]
    assert Notes(steps, (), extras).names_missing(1, ShownTexts(), 11) == chosen


def test_numbers_that_the_agent_wrote_score_as_much_as_names() -> None:
    written = Excerpt(names=("20261", "value_one"), others=("20262", "value_two"), result_names=2)
    steps = [StepOutline(1, 1, 1, "success", written)]
    names = Notes(steps, ()).names_missing(0, ShownTexts(), 18)
    assert names[:2] == ["20261", "value_one"]
