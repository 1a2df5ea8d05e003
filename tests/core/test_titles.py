"""Titles with the same beginning are shown by the part that differs."""

from historyapp.core.titles import distinct_parts

ALIKE = "Solve the following issue in the repository: "


def test_the_part_that_differs_begins_at_a_word() -> None:
    titles = [f"{ALIKE}{rest}" for rest in ("crash at start", "crash at exit", "typo")]
    assert [title[begin:] for title, begin in zip(titles, distinct_parts(titles), strict=True)] == [
        "crash at start", "crash at exit", "typo",
    ]  # fmt: skip


def test_two_titles_or_short_beginnings_are_not_shortened() -> None:
    assert distinct_parts([f"{ALIKE}a", f"{ALIKE}b", "other"]) == [0, 0, 0]
    assert distinct_parts(["run 1", "run 2", "run 3"]) == [0, 0, 0]


def test_equal_titles_are_never_empty() -> None:
    titles = [ALIKE] * 3 + [f"{ALIKE}a", f"{ALIKE}b"]
    assert distinct_parts(titles)[:3] == [0, 0, 0]
    assert all(title[begin:].strip() for title, begin in zip(titles, distinct_parts(titles), strict=True))
