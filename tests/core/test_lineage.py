"""Lineages: short lists of spans that behave like lists of positions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.lineage import Lineage, Span


@st.composite
def lineages(draw: st.DrawFn) -> Lineage:
    """Up to six spans of three sessions with gaps of any size."""
    spans, last = [], 0
    for session in draw(st.lists(st.sampled_from("abc"), max_size=6)):
        first = last + draw(st.integers(1, 5))
        last = first + draw(st.integers(0, 6))
        spans.append(Span(session, first, last))
    return Lineage(tuple(spans))


def positions(lineage: Lineage) -> list[tuple[str, int]]:
    return [(s.session, p) for s in lineage.spans for p in range(s.first, s.last + 1)]


@given(lineages(), st.integers(0, 80))
def test_cutting_keeps_what_is_not_after_the_position(lineage: Lineage, to: int) -> None:
    assert positions(lineage.cut(to)) == [(s, p) for s, p in positions(lineage) if p <= to]


@given(lineages(), st.sampled_from("abc"), st.integers(1, 5), st.integers(0, 5))
def test_extending_adds_at_the_end_and_joins_neighbours(
    lineage: Lineage, session: str, gap: int, more: int
) -> None:
    first = lineage.last + gap
    longer = lineage.extend(session, first, first + more)
    assert positions(longer) == positions(lineage) + [(session, first + i) for i in range(more + 1)]
    joined = bool(lineage.spans) and gap == 1 and lineage.spans[-1].session == session
    assert len(longer.spans) == len(lineage.spans) + (not joined)


@given(lineages(), st.sampled_from("abc"), st.integers(0, 80))
def test_a_position_is_live_in_at_most_one_session(lineage: Lineage, session: str, position: int) -> None:
    live = [s for s, p in positions(lineage) if p == position]
    assert lineage.session_at(position) == (live[0] if live else None)
    assert lineage.contains(session, position) == ((session, position) in positions(lineage))


@given(lineages())
def test_newest_first_reverses_the_order(lineage: Lineage) -> None:
    assert list(lineage.newest_first()) == positions(lineage)[::-1]


@given(lineages())
def test_a_lineage_is_loaded_from_its_rows_unchanged(lineage: Lineage) -> None:
    assert Lineage.of(lineage.rows()) == lineage
    assert len(lineage) == len(positions(lineage))


def test_spans_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="out of order"):
        Lineage((Span("a", 5, 9), Span("a", 9, 12)))
    with pytest.raises(ValueError, match="1 <= first <= last"):
        Span("a", 3, 2)
