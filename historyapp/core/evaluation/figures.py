"""The figures of policies and budgets over recorded sessions, and which of them to choose.

docs/evaluate.md explains the rule.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from historyapp.core.evaluation.intervals import Interval, SessionTotal, difference, mean, mean_interval
from historyapp.core.usage import rounded_dollars

TOLERANCE = 0.02
"""The recall that a cheaper choice may lose."""
_POINTS = 100 * TOLERANCE
FEW_SESSIONS = 10
"""Fewer sessions than this say little about others."""


class Choice(NamedTuple):
    """A policy with a budget in tokens."""

    policy: str
    max_tokens: int

    @property
    def key(self) -> str:
        return f"{self.policy} {self.max_tokens}"

    def __str__(self) -> str:
        return f"{self.policy} at {self.max_tokens:,} tokens"


class StepFigures(NamedTuple):
    """The figures of one context. If the policy refused the budget, all are 0."""

    recall: float
    grounded: float
    tokens: int = 0
    """Of the whole request. 0: the policy refused the budget, because what it must send did not fit."""
    cached: int = 0
    cost: float | None = None
    """Millionths of a US dollar; None if the price of the model is unknown."""

    @property
    def refused(self) -> bool:
        return self.tokens == 0

    @classmethod
    def load(cls, stored: Sequence[Any]) -> Self:
        return cls(*stored)


SessionFigures = Mapping[str, Sequence[StepFigures]]
"""The figures of one session: for each choice's key one value for each measured step."""


class Averages(NamedTuple):
    """Means over measured steps, without intervals."""

    recall: float
    grounded: float
    tokens: float
    cached: float
    """The share of the tokens that a provider's cache serves, from 0 to 1."""
    cost: float | None
    """Millionths of a US dollar for one request; None if no price is known."""
    steps: int
    refused: int


class ChoiceFigures(NamedTuple):
    """The figures of a choice over all sessions."""

    choice: Choice
    averages: Averages
    recall: Interval
    grounded: Interval
    behind: Interval
    """The difference of its recall to that of the best choice, on the same steps."""


class Recommendation(NamedTuple):
    """The choice to make, and why."""

    choice: Choice
    reason: str


def averages(steps: Sequence[StepFigures]) -> Averages:
    """The means over some steps. Steps whose budget was refused have a recall of 0 and no tokens."""
    built = [step for step in steps if not step.refused]
    costs = [step.cost for step in built if step.cost is not None]
    tokens = sum(step.tokens for step in built)
    return Averages(
        recall=sum(step.recall for step in steps) / max(1, len(steps)),
        grounded=sum(step.grounded for step in steps) / max(1, len(steps)),
        tokens=tokens / max(1, len(built)),
        cached=sum(step.cached for step in built) / max(1, tokens),
        cost=sum(costs) / len(costs) if costs else None,
        steps=len(steps),
        refused=len(steps) - len(built),
    )


def compare_choices(choices: Sequence[Choice], sessions: Sequence[SessionFigures]) -> list[ChoiceFigures]:
    """The figures of all choices.

    Intervals are resampled from the sessions, or from the steps of a single session.

    Args:
        sessions: those with measured steps.
    """
    recalls = {choice: _totals(choice, sessions, "recall") for choice in choices}
    best = max(choices, key=lambda choice: mean(recalls[choice]))
    return [
        ChoiceFigures(
            choice,
            averages([step for session in sessions for step in session[choice.key]]),
            mean_interval(recalls[choice]),
            mean_interval(_totals(choice, sessions, "grounded")),
            difference(recalls[choice], recalls[best]),
        )
        for choice in choices
    ]


def _totals(choice: Choice, sessions: Sequence[SessionFigures], figure: str) -> list[SessionTotal]:
    values = [[getattr(step, figure) for step in session[choice.key]] for session in sessions]
    if len(values) == 1:
        return [SessionTotal(value, 1) for value in values[0]]
    return [SessionTotal(sum(steps), len(steps)) for steps in values]


def recommend(figures: Sequence[ChoiceFigures], *, all_priced: bool) -> Recommendation | None:
    """The cheapest choice whose recall is at most two points behind the best, by the lower end of the
    interval of the difference. None if nothing was measured.

    Args:
        all_priced: whether every session's model has a known price. Otherwise tokens decide.
    """
    if not figures or _best(figures).recall.mean == 0:
        return None
    chosen = min(_close(figures), key=lambda one: (_price(one, all_priced), -one.recall.mean))
    return Recommendation(chosen.choice, _reason(chosen, figures, all_priced))


def cautions(sessions: int, unpriced: int) -> list[str]:
    """What makes the figures of some sessions less certain, in sentences.

    Args:
        unpriced: sessions whose model has no known price.
    """
    sentences = []
    if sessions == 1:
        sentences.append(
            "Only one session was measured. The intervals are resampled from its steps and say nothing about "
            "other sessions."
        )
    elif sessions < FEW_SESSIONS:
        sentences.append(
            f"Only {sessions} sessions were measured. Intervals of so few sessions are too narrow: use "
            f"{FEW_SESSIONS} or more."
        )
    if unpriced:
        which = "the session" if sessions == 1 else f"{unpriced} of {sessions} sessions"
        sentences.append(
            f"The price of the model of {which} is unknown, so the recommendation compares tokens instead of "
            "costs. Name a model whose price is known to compare costs."
        )
    return sentences


def _price(one: ChoiceFigures, all_priced: bool) -> float:
    return one.averages.cost if all_priced and one.averages.cost is not None else one.averages.tokens


def _reason(chosen: ChoiceFigures, compared: Sequence[ChoiceFigures], priced: bool) -> str:
    best, close = _best(compared), _close(compared)
    cost = f"It takes {chosen.averages.tokens:,.0f} tokens a request on average"
    if priced and chosen.averages.cost is not None:
        cost += f", which cost {rounded_dollars(round(1000 * chosen.averages.cost))} for 1,000 requests"
    recall = _percent(chosen.recall.mean)
    rule = f"the cheapest of the {len(close)} choices that are at most {_POINTS:.0f} points behind the best"
    if chosen.choice != best.choice:
        behind = [f"{100 * value:+.1f}" for value in chosen.behind]
        text = (
            f"Its recall is {recall}. It is {rule}, {best.choice}, whose recall is "
            f"{_percent(best.recall.mean)}: the difference is {behind[0]} points (95 % interval "
            f"{behind[1]} to {behind[2]})."
        )
    elif len(close) > 1:
        text = f"Its recall of {recall} is the best, and it is {rule}."
    elif len(compared) == 1:
        text = f"It is the only choice. Its recall is {recall}."
    else:
        text = (
            f"Its recall of {recall} is the best. No other choice is shown to be at most {_POINTS:.0f} "
            "points behind (95 % interval)."
        )
    if chosen.averages.refused:
        cost += (
            f". In {chosen.averages.refused:,} of {chosen.averages.steps:,} steps the budget was too small "
            "for what must be sent; these count as a recall of 0"
        )
    return f"{text} {_grounded(chosen, compared)} {cost}."


def _grounded(chosen: ChoiceFigures, compared: Sequence[ChoiceFigures]) -> str:
    """Its grounded recall, and who has more: a choice with the best recall may be far behind in it."""
    best = max(compared, key=lambda one: one.grounded.mean)
    text = f"Its grounded recall is {_percent(chosen.grounded.mean)}"
    if best.grounded.mean <= chosen.grounded.mean + TOLERANCE:
        return f"{text}."
    return f"{text}; that of {best.choice} is {_percent(best.grounded.mean)}."


def _best(compared: Sequence[ChoiceFigures]) -> ChoiceFigures:
    return max(compared, key=lambda one: one.recall.mean)


def _close(compared: Sequence[ChoiceFigures]) -> list[ChoiceFigures]:
    return [one for one in compared if one.behind.low >= -TOLERANCE]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
