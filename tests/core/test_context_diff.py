"""Comparing contexts: by segment, by their first bytes, and by the effect on a prompt cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.context_diff import cache_effect, diff_prefix, diff_segments, first_changed
from historyapp.core.manifest import Segment
from historyapp.core.prices import Price

FREE_WRITES = Price(input=2.0, cache_read=0.5, output=8.0)
PAID_WRITES = Price(input=3.0, cache_read=0.3, cache_write=3.75, output=15.0)


@given(st.binary(), st.binary(), st.binary())
def test_the_first_difference_is_where_the_common_beginning_ends(
    same: bytes, one: bytes, other: bytes
) -> None:
    before, after = same + one, same + other
    diff = diff_prefix(before, after)
    if diff.first_difference is None:
        assert before == after
        assert diff.share == 1.0
        return
    place = diff.first_difference
    assert place >= len(same)
    assert before[:place] == after[:place]
    assert before[place : place + 1] != after[place : place + 1]
    assert diff.share == (place / len(after) if after else 0.0)


@pytest.mark.parametrize(
    ("before", "after", "continues"),
    [
        (b'{"messages":["a"]}', b'{"messages":["a","b"]}', True),
        (b'{"messages":["a"]}', b'{"messages":["ab"]}', True),
        (b'{"messages":["a","c"]}', b'{"messages":["a","b"]}', False),
        (b'{"messages":["a","b"]}', b'{"messages":["a"]}', False),
    ],
)
def test_a_request_continues_if_only_brackets_of_the_earlier_one_are_lost(
    before: bytes, after: bytes, continues: bool
) -> None:
    assert diff_prefix(before, after).continues is continues


def test_segments_with_the_same_source_are_the_same_part() -> None:
    kept = Segment(source="system", tokens=5)
    full, masked = (Segment(source="step", step=1, form=form, tokens=9) for form in ("full", "masked"))
    gone, new = Segment(source="step", step=2, tokens=9), Segment(source="input", position=7, tokens=3)
    diff = diff_segments([kept, full, gone], [kept, masked, new])
    assert (diff.added, diff.removed) == ([new], [gone])
    assert [(change.before, change.after) for change in diff.changed] == [(full, masked)]


def test_a_cache_is_read_in_steps_from_1024_tokens() -> None:
    assert cache_effect(1023, 1.0, None).reusable == 0
    assert cache_effect(1100, 1.0, None).reusable == 1024
    assert cache_effect(2000, 0.6, None).reusable == 1152
    assert cache_effect(2000, 0.5, None).reusable == 0


def test_cache_savings_are_at_the_models_prices() -> None:
    assert cache_effect(2048, 1.0, FREE_WRITES).saved == 2048 * 1.5
    assert cache_effect(2048, 0.0, FREE_WRITES).saved == 0
    assert cache_effect(2048, 1.0, None).saved is None


def test_writing_to_a_cache_that_nothing_is_read_from_costs() -> None:
    assert cache_effect(2048, 0.0, PAID_WRITES).saved == -2048 * 0.75
    assert cache_effect(2048, 1.0, PAID_WRITES).saved == round(2048 * 2.7)
    assert cache_effect(500, 0.0, PAID_WRITES).saved == 0


def test_the_first_segment_that_differs_is_named_by_its_place() -> None:
    system = Segment(source="system", tokens=5)
    one, two = (Segment(source="step", step=step, tokens=5) for step in (1, 2))
    assert first_changed([system, one], [system, one, two]) == two
    assert first_changed([system, one], [system, two]) == two
    assert first_changed([system, one, two], [system, one]) == two
    assert first_changed([system, one], [system, one]) is None
