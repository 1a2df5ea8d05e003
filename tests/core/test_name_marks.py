"""Marking names in a text."""

from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.name_marks import MarksLeft, mark_names


def names_in(text: str, words: list[str], others: list[str]) -> list[str]:
    return [piece.text for piece in mark_names(text, words, set(others)) if piece.is_name]


def test_words_are_found_inside_longer_names_and_others_only_on_their_own() -> None:
    text = "see lib/src/app.py, app.py and app.pyc"
    assert names_in(text, ["src/app.py"], ["app.py"]) == ["src/app.py", "app.py"]


def test_the_first_and_longest_of_overlapping_names_is_marked() -> None:
    assert names_in("src/app.py", ["src", "app.py", "src/app.py"], []) == ["src/app.py"]


NAMES = st.sampled_from(["a.py", "src/a.py", "é_é", "x" * 250, "<b>", "a_b", "..", "12345"])


@given(st.lists(st.one_of(NAMES, st.text(max_size=8)), max_size=20), st.lists(NAMES), st.lists(NAMES))
def test_the_pieces_joined_are_the_text(parts: list[str], words: list[str], others: list[str]) -> None:
    text = " ".join(parts)
    assert "".join(piece.text for piece in mark_names(text, words, set(others))) == text


def test_the_places_that_are_compared_are_limited_for_all_texts_of_a_row() -> None:
    left = MarksLeft(50)
    pieces = [piece for _ in range(3) for piece in mark_names("a_a a_ab " * 20, ["a_a"], left=left)]
    assert (sum(piece.is_name for piece in pieces), left.places) == (25, 0)
