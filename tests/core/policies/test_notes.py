"""Which steps the notes of a context cover."""

import builtins
import inspect

import pytest

from historyapp.core.excerpts import Excerpt, ExcerptLine
from historyapp.core.identifiers import identifiers
from historyapp.core.policies import budgeted, notes
from historyapp.core.policies.base import NO_EXTRAS, RangeSummary, RequestExtras, StepOutline
from historyapp.core.policies.notes import Note, Notes, covered_steps
from historyapp.core.policies.shown import ShownTexts
from historyapp.core.tokens import count_tokens


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
    assert Notes(steps, (), extras).names_missing(1, ShownTexts(), 8) == chosen


def test_numbers_that_the_agent_wrote_score_as_much_as_names() -> None:
    written = Excerpt(names=("20261", "value_one"), others=("20262", "value_two"), result_names=2)
    steps = [StepOutline(1, 1, 1, "success", written)]
    names = Notes(steps, ()).names_missing(0, ShownTexts(), 18)
    assert names[:2] == ["20261", "value_one"]


def names_missing(names: tuple[str, ...], room: int, extras: RequestExtras = NO_EXTRAS) -> int:
    """The tokens of the names for the room, of a step that read them."""
    read = Excerpt(others=names, result_names=len(names))
    steps = [StepOutline(1, 1, 1, "success", read)]
    return count_tokens(" ".join(Notes(steps, (), extras).names_missing(0, ShownTexts(), room)))


def test_names_fill_their_room() -> None:
    """Until 2026-11-30 they took about half of it."""
    names = tuple(identifiers(inspect.getsource(budgeted)))
    assert 150 <= names_missing(names, 200) <= 200
    assert names_missing(names, 200, RequestExtras(scores_as_earlier=True)) <= 130


def test_a_note_that_takes_more_than_expected_has_fewer_names() -> None:
    """Half of them at least: random letters take up to three times the expected tokens."""
    names = [f"name_{number}" for number in range(100)]
    chosen = Notes([], ())
    assert not chosen.exceeds(220, 200)
    assert chosen.exceeds(221, 200)
    assert chosen.fewer(names, 230, 200) == names[:70]
    assert chosen.fewer(names, 400, 200) == names[:50]
    assert chosen.fewer(names[:1], 201, 200) == []


def test_until_2026_11_30_only_notes_of_one_request_had_fewer_names() -> None:
    chosen = Notes([], (), RequestExtras(scores_as_earlier=True))
    assert not chosen.exceeds(1000, 200)
    assert chosen.fewer(["a_b", "a_c", "a_d", "a_e"], 1000, 200) == ["a_b", "a_c", "a_d"]


def test_names_that_a_note_lacks_are_missing_again() -> None:
    names = ("name_one", "name_two", "name_six", "name_ten")
    steps = [
        StepOutline(1, 1, 1, "success", Excerpt(names=names)),
        StepOutline(2, 2, 2, "success", Excerpt()),
    ]
    notes = Notes(steps, ())
    _, chosen = notes.choose(1, 1, 100)
    assert set(chosen) == set(names)
    assert notes.names_missing(1, ShownTexts(), 100) == []
    notes.fewer(chosen, 150, 100)
    assert notes.names_missing(1, ShownTexts(), 100) == chosen[2:]


def test_lines_leave_half_of_the_room_to_names() -> None:
    """Until 2026-11-30 they left 60 %."""
    lines = tuple(
        [ExcerptLine(f"a line about name_{number}", 10, (f"name_{number}",)) for number in range(40)]
    )
    steps = [
        StepOutline(1, 1, 1, "success", Excerpt(lines=lines)),
        StepOutline(2, 2, 2, "success", Excerpt()),
    ]
    for extras, share in ((NO_EXTRAS, 0.5), (RequestExtras(scores_as_earlier=True), 0.4)):
        chosen = Notes(steps, (), extras).fresh_lines(1, ShownTexts(), 200)
        assert 200 * share - 23 < sum(note.tokens for note in chosen) <= 200 * share
