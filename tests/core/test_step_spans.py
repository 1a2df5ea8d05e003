"""Ranges of steps that two strategies cut in different ways."""

from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.step_spans import StepSpan, common_spans


def cut(first: int, lengths: list[int]) -> list[StepSpan]:
    """Spans side by side with these lengths."""
    spans = []
    for length in lengths:
        spans.append(StepSpan(first, first + length - 1))
        first += length
    return spans


def test_steps_without_a_summary_have_rows_of_their_own() -> None:
    assert common_spans(StepSpan(1, 9), [StepSpan(2, 3), StepSpan(6, 7), StepSpan(7, 8)]) == [
        StepSpan(1, 1), StepSpan(2, 3), StepSpan(4, 5), StepSpan(6, 8), StepSpan(9, 9),
    ]  # fmt: skip
    assert common_spans(StepSpan(1, 0), []) == []


@given(st.lists(st.integers(1, 6), max_size=12), st.lists(st.integers(1, 6), max_size=12), st.integers(0, 5))
def test_rows_cover_every_step_once_and_cut_no_span(a: list[int], b: list[int], rest: int) -> None:
    spans = [*cut(1, a), *cut(1, b)]
    last = max([span.last for span in spans], default=0) + rest
    rows = common_spans(StepSpan(1, last), spans)
    assert [step for row in rows for step in range(row.first, row.last + 1)] == list(range(1, last + 1))
    assert all(any(row.first <= span.first and span.last <= row.last for row in rows) for span in spans)
    for row in rows:  # none could be shorter
        for step in range(row.first, row.last):
            inside = [span for span in spans if row.first <= span.first and span.last <= row.last]
            assert not inside or any(span.first <= step < span.last for span in inside)
