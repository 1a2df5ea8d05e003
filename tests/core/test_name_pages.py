"""Places of names are whole numbers in the order in which searches read them."""

from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.name_pages import (
    GROUPS,
    MAX_POSITION,
    PAGE_PLACES,
    group_at,
    key_of,
    pack_places,
    pages,
    place_of,
    position_of,
    unpack_places,
)

PLACES = st.builds(
    place_of,
    st.text().map(key_of),
    st.sampled_from(GROUPS),
    st.integers(min_value=1, max_value=MAX_POSITION),
)


@given(st.text(), st.sampled_from(GROUPS), st.integers(min_value=1, max_value=MAX_POSITION))
def test_a_place_holds_its_group_and_position(text: str, group: str, position: int) -> None:
    (known,) = [each for each in GROUPS if each == group]
    place = place_of(key_of(text), known, position)
    assert (group_at(place), position_of(place)) == (group, position)
    assert 0 < place < 2**63


def test_the_places_of_a_name_are_consecutive_and_actions_are_separate() -> None:
    keys = sorted((key_of("a"), key_of("b")))
    ordered = [place_of(key, group, at) for key in keys for group in GROUPS[:2] for at in (1, 9)]
    ordered += [place_of(key, "action", at) for key in keys for at in (1, 9)]
    assert ordered == sorted(ordered)


@given(st.lists(PLACES, unique=True, max_size=600).map(sorted))
def test_places_are_read_from_pages_unchanged(places: list[int]) -> None:
    unpacked = [unpack_places(pack_places(page)) for page in pages(places)]
    assert [place for page in unpacked for place in page] == places
    assert all(len(page) == PAGE_PLACES for page in unpacked[:-1])


def test_a_place_takes_few_bytes() -> None:
    places = sorted(place_of(key_of(str(n % 700)), "given", n) for n in range(1, 4 * PAGE_PLACES))
    assert sum(len(pack_places(page)) for page in pages(places)) < 4 * len(places)
