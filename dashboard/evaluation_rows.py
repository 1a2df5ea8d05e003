"""The rows of an evaluation's page: one for each policy with a budget, and one for each session."""

from dataclasses import dataclass

from django.utils.safestring import SafeString, mark_safe

from dashboard.timeline.bars import percent
from historyapp.core.evaluation.figures import Averages, Choice
from historyapp.core.evaluation.intervals import Interval
from historyapp.services.evaluations.results import ChoiceResult, EvaluationProgress, SessionProgress

HEIGHT = 24
"""The height of a row's picture in pixels."""
_RECALL, _GROUNDED = 8, 17
"""The heights of its two lines."""

POLICY_WORDS = {
    "budgeted": "the best mix: inputs, notes on older steps, newer steps as messages",
    "episodic": "every input, older steps as one message, the newest steps as messages",
    "sliding_window": "summaries of older steps, then the newest steps in full",
    "live": "every step in full, the newest first, until the budget is full",
    "masked": "like live, with one line in place of each older result",
}
"""What each policy chooses."""


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """The figures of one policy and budget."""

    result: ChoiceResult
    picture: SafeString
    is_recommended: bool
    is_shown: bool
    """Whether the table of sessions shows the figures of this choice."""

    @property
    def is_best(self) -> bool:
        return not any(self.result.behind)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session, with its figures of the shown choice."""

    item: SessionProgress
    averages: Averages | None
    """None until a step is measured."""


def choice_rows(progress: EvaluationProgress, shown: Choice) -> list[ChoiceRow]:
    """A row for each policy and budget; empty until there are results."""
    results = progress.results
    if results is None:
        return []
    return [
        ChoiceRow(
            result,
            interval_picture(result.recall, result.grounded),
            result.choice == results.recommended,
            result.choice == shown,
        )
        for result in results.choices
    ]


def session_rows(progress: EvaluationProgress, shown: Choice) -> list[SessionRow]:
    return [SessionRow(item, dict(item.figures).get(shown)) for item in progress.items]


def shown_choice(progress: EvaluationProgress, key: str) -> Choice:
    """The choice with this key, or else the recommended one, or the first."""
    choices = {choice.key: choice for choice in progress.evaluation.choices}
    recommended = progress.results and progress.results.recommended
    return choices.get(key) or recommended or next(iter(choices.values()))


def interval_picture(recall: Interval, grounded: Interval) -> SafeString:
    """Two intervals between 0 and 100 %: a line each, with a dot at the mean."""
    shapes = ""
    for name, interval, y in (("recall", recall, _RECALL), ("grounded", grounded, _GROUNDED)):
        mean, low, high = (percent(value, 1) for value in interval)
        shapes += f'<line class="interval-{name}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>'
        shapes += f'<circle class="interval-{name}" cx="{mean}" cy="{y}" r="3.5"/>'
    picture = f'<svg class="intervals" height="{HEIGHT}" aria-hidden="true">{shapes}</svg>'
    return mark_safe(picture)  # noqa: S308 nothing but numbers
