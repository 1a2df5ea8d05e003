"""Positions by record id: the same as in a dictionary, also after some were moved to disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.importers import claude_code_index
from historyapp.core.importers.claude_code_index import NOWHERE, RecordIndex

IDS = st.sampled_from([*"abcdefghij", "", "\ud800", "\0", "é", "x" * 5_000])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds few positions in memory, and many ids have the same hash."""
    monkeypatch.setattr(claude_code_index, "_NEWEST", 3)
    monkeypatch.setattr(claude_code_index, "_SLOTS", 4)


@given(st.lists(st.tuples(IDS, st.integers(NOWHERE, 2**40)), max_size=60))
def test_the_index_equals_a_dictionary(records: list[tuple[str, int]]) -> None:
    index, plain = RecordIndex(), dict[str, int]()
    for id, place in records:
        index[id] = plain[id] = place
        assert index.get(id) == place
    for id in (*plain, "never seen"):
        assert index.get(id) == plain.get(id)
        assert (id in index) == (id in plain)
    index.close()


def test_only_the_newest_positions_are_held_in_memory() -> None:
    index = RecordIndex()
    for number in range(100):
        index[str(number)] = number
    assert len(index._newest) < 6
    assert [index.get(str(number)) for number in range(100)] == list(range(100))


def test_an_error_names_a_temporary_folder_that_cannot_be_used() -> None:
    index = RecordIndex()
    for number in range(10):
        index[str(number)] = number
    assert index._older
    index._older.execute("PRAGMA query_only = ON")
    index._newest = {str(number): number for number in range(10, 20)}
    with pytest.raises(OSError, match="The temporary folder cannot be used"):
        index["20"] = 20
