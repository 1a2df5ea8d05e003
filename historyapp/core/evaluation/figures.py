"""Compares policies and budgets over recorded sessions, and recommends one.

docs/evaluate.md explains the rule.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from historyapp.core.evaluation.intervals import Interval, SessionTotal, difference, mean, mean_interval
from historyapp.core.usage import rounded_dollars

TOLERANCE = 0.02
"""The recall that the cheaper choice may lose, as a share."""
_POINTS = 100 * TOLERANCE
FEW_SESSIONS = 10
"""Below this number of sessions, the figures say little about other sessions."""


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
    """Tokens of the whole request. 0: the policy refused the budget, because mandatory parts did not fit."""
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
"""The figures of one session: by the key of each choice, the figures of each measured step."""


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
    """Its recall minus the recall of the best choice, on the same steps: negative if it is behind."""


class Recommendation(NamedTuple):
    """The choice with the best price, and the reason."""

    choice: Choice
    reason: str


def averages(steps: Sequence[StepFigures]) -> Averages:
    """The means over steps. A step whose budget was refused counts as a recall of 0, and not for tokens."""
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
        sessions: the sessions with measured steps.
    """
    recalls = {choice: _session_totals(choice, sessions, "recall") for choice in choices}
    best = max(choices, key=lambda choice: mean(recalls[choice]))
    return [
        ChoiceFigures(
            choice,
            averages([step for session in sessions for step in session[choice.key]]),
            mean_interval(recalls[choice]),
            mean_interval(_session_totals(choice, sessions, "grounded")),
            difference(recalls[choice], recalls[best]),
        )
        for choice in choices
    ]


def _session_totals(choice: Choice, sessions: Sequence[SessionFigures], figure: str) -> list[SessionTotal]:
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
    chosen = min(
        _within_tolerance(figures), key=lambda figures: (_price(figures, all_priced), -figures.recall.mean)
    )
    return Recommendation(chosen.choice, _reason(chosen, figures, all_priced))


def cautions(sessions: int, unpriced: int) -> list[str]:
    """Sentences that say why the figures are uncertain.

    Args:
        sessions: the number of measured sessions.
        unpriced: the number of those whose model has no known price.
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


def _price(figures: ChoiceFigures, all_priced: bool) -> float:
    return (
        figures.averages.cost if all_priced and figures.averages.cost is not None else figures.averages.tokens
    )


def _reason(chosen: ChoiceFigures, compared: Sequence[ChoiceFigures], priced: bool) -> str:
    best, similar = _best(compared), _within_tolerance(compared)
    cost_text = f"It takes {chosen.averages.tokens:,.0f} tokens a request on average"
    if priced and chosen.averages.cost is not None:
        cost_text += f", which cost {rounded_dollars(round(1000 * chosen.averages.cost))} for 1,000 requests"
    recall_text = _percent(chosen.recall.mean)
    rule = f"the cheapest of the {len(similar)} choices that are at most {_POINTS:.0f} points behind the best"
    if chosen.choice != best.choice:
        behind = [f"{100 * value:+.1f}" for value in chosen.behind]
        text = (
            f"Its recall is {recall_text}. It is {rule}, {best.choice}, whose recall is "
            f"{_percent(best.recall.mean)}: the difference is {behind[0]} points (95 % interval "
            f"{behind[1]} to {behind[2]})."
        )
    elif len(similar) > 1:
        text = f"Its recall of {recall_text} is the best, and it is {rule}."
    elif len(compared) == 1:
        text = f"It is the only choice. Its recall is {recall_text}."
    else:
        text = (
            f"Its recall of {recall_text} is the best. Every other choice may be more than {_POINTS:.0f} "
            "points behind (95 % interval)."
        )
    if chosen.averages.refused:
        cost_text += (
            f". In {chosen.averages.refused:,} of {chosen.averages.steps:,} steps the budget was too small "
            "for what must be sent; these count as a recall of 0"
        )
    return f"{text} {_grounded(chosen, compared)} {cost_text}."


def _grounded(chosen: ChoiceFigures, compared: Sequence[ChoiceFigures]) -> str:
    """Its grounded recall, and the best one: the choice with the best recall may be far behind in it."""
    best = max(compared, key=lambda figures: figures.grounded.mean)
    text = f"Its grounded recall is {_percent(chosen.grounded.mean)}"
    if best.grounded.mean <= chosen.grounded.mean + TOLERANCE:
        return f"{text}."
    return f"{text}; that of {best.choice} is {_percent(best.grounded.mean)}."


def _best(compared: Sequence[ChoiceFigures]) -> ChoiceFigures:
    return max(compared, key=lambda figures: figures.recall.mean)


def _within_tolerance(compared: Sequence[ChoiceFigures]) -> list[ChoiceFigures]:
    return [figures for figures in compared if figures.behind.low >= -TOLERANCE]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
