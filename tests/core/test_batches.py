"""Items are divided into batches of limited size."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.batches import batches

LIMIT = 10


def test_a_batch_is_full_when_the_next_item_does_not_fit() -> None:
    assert list(batches([3, 3, 4, 1, 11, 2, 8, 0, 1], lambda item: item, LIMIT)) == [
        [3, 3, 4],
        [1],
        [11],
        [2, 8, 0],
        [1],
    ]
    assert list(batches([], lambda item: item, LIMIT)) == []


@given(st.lists(st.integers(0, LIMIT + 2)))
def test_batches_hold_all_items_in_order_and_could_not_be_joined(items: list[int]) -> None:
    found = list(batches(items, lambda item: item, LIMIT))
    assert [item for batch in found for item in batch] == items
    assert all(sum(batch) <= LIMIT or len(batch) == 1 for batch in found)
    assert all(sum(batch) + following[0] > LIMIT for batch, following in pairwise(found))
