"""The figures of policies and budgets over sessions, and which of them is recommended."""

import pytest

from historyapp.core.evaluation.figures import (
    Choice,
    ChoiceFigures,
    StepFigures,
    averages,
    compare_choices,
    recommend,
)

SMALL, LARGE = Choice("budgeted", 2000), Choice("budgeted", 8000)


def compared(small: list[list[float]], large: list[list[float]]) -> list[ChoiceFigures]:
    """The figures for the recalls of each session's steps."""
    sessions = [
        {
            SMALL.key: [StepFigures(recall, 0.5, 2000, 1000, 100.0) for recall in one],
            LARGE.key: [StepFigures(recall, 0.6, 8000, 2000, 300.0) for recall in other],
        }
        for one, other in zip(small, large, strict=True)
    ]
    return compare_choices([SMALL, LARGE], sessions)


def test_refused_budgets_count_as_a_recall_of_0_and_not_in_tokens() -> None:
    means = averages([StepFigures(1.0, 0.5, 2000, 500, 100.0), StepFigures(0.0, 0.0)])
    assert means == (0.5, 0.25, 2000, 0.25, 100.0, 2, 1)
    assert averages([StepFigures(1.0, 1.0, 100)]).cost is None


def test_steps_count_equally_and_intervals_draw_sessions() -> None:
    small, large = compared([[1.0, 0.0], [1.0, 1.0, 1.0, 1.0]], [[1.0] * 2, [1.0] * 4])
    assert small.recall.mean == pytest.approx(5 / 6)
    assert (small.recall.low, small.recall.high) == (0.5, 1.0)
    assert small.behind.mean == pytest.approx(-1 / 6)
    assert large.behind == (0.0, 0.0, 0.0)
    assert (small.averages.cached, small.averages.steps) == (0.5, 6)


def test_one_session_is_drawn_by_its_steps() -> None:
    small, _ = compared([[1.0, 0.0, 1.0, 0.0]], [[1.0] * 4])
    assert small.recall.low < 0.5 < small.recall.high


def test_the_cheapest_choice_within_two_points_of_the_best_is_recommended() -> None:
    close = recommend(compared([[0.99]] * 12, [[1.0]] * 12), all_priced=True)
    assert close is not None
    assert close.choice == SMALL
    assert "the cheapest of the 2 choices that are at most 2 points behind the best, budgeted" in close.reason
    assert "the difference is -1.0 points (95 % interval -1.0 to -1.0)" in close.reason
    assert "$0.10 for 1,000 requests" in close.reason


def test_a_choice_is_not_close_while_its_interval_is_wide() -> None:
    wide = recommend(compared([[1.0]] * 9 + [[0.9]], [[1.0]] * 10), all_priced=False)
    assert wide is not None
    assert wide.choice == LARGE
    assert "Every other choice may be more than 2 points behind (95 % interval)." in wide.reason
    assert "8,000 tokens a request on average." in wide.reason


def test_refused_steps_are_named_and_nothing_is_recommended_without_recall() -> None:
    refused = [{SMALL.key: [StepFigures(1.0, 1.0, 2000), StepFigures(0.0, 0.0)]}]
    recommendation = recommend(compare_choices([SMALL], refused), all_priced=True)
    assert recommendation is not None
    assert "In 1 of 2 steps the budget was too small" in recommendation.reason
    nothing = compare_choices([SMALL], [{SMALL.key: [StepFigures(0.0, 0.0)]}])
    assert recommend(nothing, all_priced=True) is None
