"""All names are found at once, at the places where each alone is found."""

import time
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.evaluation import name_search
from historyapp.core.evaluation.name_search import NameSearch, first_places
from historyapp.core.identifiers import word_places
from tests.examples import examples

NAMES = st.text(alphabet="ab_/.~1é修é", min_size=1, max_size=8)
"""Few letters, so that names contain one another. They need not be identifiers, but have no blanks."""
TEXTS = st.text(alphabet="ab_/.~1é修é \n-", max_size=80)


def each_alone(names: list[str], text: str, limit: int) -> dict[str, list[int]]:
    found = {name: list(islice(word_places(name, text), limit)) for name in names}
    return {name: places for name, places in found.items() if places}


@settings(max_examples=examples(2000))
@given(st.lists(NAMES, max_size=8), TEXTS, st.integers(1, 4))
def test_the_places_are_those_of_each_name_alone(names: list[str], text: str, limit: int) -> None:
    assert NameSearch(names).find(text, limit) == each_alone(names, text, limit)


@settings(max_examples=examples(1000))
@given(st.data(), TEXTS, st.integers(1, 4))
def test_pieces_of_the_text_are_found(data: st.DataObject, text: str, limit: int) -> None:
    pieces = [text[start : start + length] for start in range(len(text)) for length in (1, 2, 3, 5, 8)]
    possible = [piece for piece in pieces if piece and not any(map(str.isspace, piece))]
    names = data.draw(st.lists(st.sampled_from(possible or ["a"]), max_size=12))
    assert NameSearch(names).find(text, limit) == each_alone(names, text, limit)


@settings(max_examples=examples(400))
@given(st.lists(NAMES, max_size=6), st.lists(TEXTS, max_size=5), st.integers(1, 3))
def test_a_name_is_found_in_the_first_text_that_contains_it(
    names: list[str], texts: list[str], limit: int
) -> None:
    search = NameSearch(names)
    left = set(names)
    for text in texts:
        found = search.find(text, limit)
        assert found == each_alone(sorted(left), text, limit)
        left -= found.keys()
    assert search.is_done == (not left)


def test_few_names_are_searched_for_one_after_the_other_with_the_same_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, text = ["a_b", "b/c", "c", "没_a"], "a_b/c a_b/c c_a_b 没_a修a_b" * 3
    alone = first_places(names, text, 5)
    assert alone == each_alone(names, text, 5)
    monkeypatch.setattr(name_search, "_FEW", 0)
    assert first_places(names, text, 5) == alone


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("_" * 60_000, ["_" * n + "a" for n in range(1, 100)]),
        ("a_" * 30_000, ["a_" * n + "a" for n in range(1, 100)]),
        ("a/" * 30_000, ["a/" * n + "a" for n in range(1, 100)]),
        ("a/" * 30_000, ["a/" * n + "b" for n in range(1, 100)]),
        ("修a" * 30_000, ["修a" * n + "b" for n in range(1, 100)]),
    ],
)
def test_time_does_not_grow_with_the_number_of_names(text: str, names: list[str]) -> None:
    """Searching for one name after the other would take a hundred times as long as for one name."""

    def seconds(count: int) -> float:
        started = time.thread_time()
        NameSearch(names[-count:]).find(text, 50)
        return time.thread_time() - started

    assert min(seconds(99) for _ in range(3)) < 5 * min(seconds(1) for _ in range(3)) + 0.02


def test_a_search_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_search, "_AT_ONCE", 10)
    calls: list[int] = []

    def keep_alive() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NameSearch(["x_y"]).find("word " * 1000, 1, keep_alive)
    assert len(calls) == 3
