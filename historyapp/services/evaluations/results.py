"""The results of an evaluation, and its progress while it runs."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from historyapp.core.evaluation.figures import Averages, Choice, averages, compare_choices, recommend
from historyapp.core.evaluation.intervals import Interval
from historyapp.models import EvaluatedSession, Evaluation, Session
from historyapp.services.prices import price_list


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    """The figures of one policy and budget over all measured sessions."""

    policy: str
    max_tokens: int
    averages: Averages
    recall: Interval
    grounded: Interval
    behind: Interval
    """Its recall minus the recall of the best choice."""

    @property
    def choice(self) -> Choice:
        return Choice(self.policy, self.max_tokens)


@dataclass(frozen=True, slots=True)
class EvaluationResults:
    """The results over all measured sessions."""

    sessions: int
    steps: int
    unpriced: int
    """Sessions whose model has no known price. They do not count in costs."""
    choices: tuple[ChoiceResult, ...]
    recommended: Choice | None
    reason: str
    """Why it is recommended."""

    @property
    def drawn(self) -> str:
        """What the intervals resample: ``sessions``, or the ``steps`` of the only session."""
        return "steps" if self.sessions == 1 else "sessions"

    @classmethod
    def load(cls, stored: dict[str, Any]) -> "EvaluationResults":
        """The results from the stored JSON."""
        choices = tuple(
            ChoiceResult(
                choice["policy"],
                choice["max_tokens"],
                Averages(*choice["averages"]),
                *(Interval(*choice[name]) for name in ("recall", "grounded", "behind")),
            )
            for choice in stored["choices"]
        )
        recommended = stored["recommended"] and Choice(*stored["recommended"])
        return cls(**{**stored, "choices": choices, "recommended": recommended})


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """One session of an evaluation."""

    session: UUID
    title: str
    """Empty if the session has no title, or was deleted."""
    exists: bool
    state: str
    reason: str
    model: str
    steps: int
    measured: int
    figures: list[tuple[Choice, Averages]]
    """Empty until a step is measured."""


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """An evaluation and its sessions."""

    evaluation: Evaluation
    items: list[SessionProgress]
    counts: Counter[str]
    """Sessions by state."""
    results: EvaluationResults | None
    """None until the evaluation has ended, or if no session was measured completely."""

    @property
    def total(self) -> int:
        return len(self.items)

    @property
    def active(self) -> bool:
        return self.evaluation.state == Evaluation.State.RUNNING

    @property
    def ended(self) -> int:
        """The number of sessions that are not waiting."""
        return self.total - self.counts[EvaluatedSession.State.WAITING]

    @property
    def share(self) -> float:
        """The share of the work that is done, from 0 to 1."""
        partly_done = sum(
            item.measured / item.steps for item in self.items if item.state == "waiting" and item.steps
        )
        return (self.ended + partly_done) / max(1, self.total)


def evaluation_progress(evaluation: Evaluation) -> EvaluationProgress:
    """The progress and the results of an evaluation. Takes two queries for any number of sessions."""
    items = list(evaluation.items.order_by("number"))
    sessions = Session.objects.filter(
        project_id=evaluation.project_id, pk__in=[item.session_id for item in items]
    )
    titles = dict(sessions.values_list("pk", "title"))
    choices = evaluation.choices
    session_progress = [
        SessionProgress(
            session=item.session_id,
            title=titles.get(item.session_id, ""),
            exists=item.session_id in titles,
            state=item.state,
            reason=item.reason,
            model=item.model,
            steps=item.steps,
            measured=item.measured,
            figures=[(choice, averages(item.figures_of(choice))) for choice in choices if item.figures],
        )
        for item in items
    ]
    stored = evaluation.results
    results = EvaluationResults.load(stored) if stored else None
    return EvaluationProgress(
        evaluation, session_progress, Counter(item.state for item in session_progress), results
    )


def end_evaluation(evaluation: Evaluation, state: str, results: EvaluationResults | None) -> None:
    """Ends a locked evaluation in this state and stores its results.

    They are computed before the transaction, because comparing many choices takes seconds on a busy machine.
    """
    evaluation.results = results and asdict(results)
    evaluation.state, evaluation.finished_at = state, timezone.now()
    evaluation.prices_as_of = price_list().as_of
    evaluation.save(update_fields=("state", "finished_at", "prices_as_of", "results"))


def compute_results(evaluation: Evaluation) -> EvaluationResults | None:
    """The results over all sessions that were measured completely; None if there are none."""
    items = list(evaluation.items.filter(state=EvaluatedSession.State.DONE).order_by("number"))
    if not items:
        return None
    choices = evaluation.choices
    compared = compare_choices(
        choices, [{choice.key: item.figures_of(choice) for choice in choices} for item in items]
    )
    unpriced = sum(not item.model for item in items)
    recommendation = recommend(compared, all_priced=unpriced == 0)
    return EvaluationResults(
        sessions=len(items),
        steps=sum(item.measured for item in items),
        unpriced=unpriced,
        choices=tuple(
            ChoiceResult(*result.choice, result.averages, result.recall, result.grounded, result.behind)
            for result in compared
        ),
        recommended=recommendation and recommendation.choice,
        reason=recommendation.reason if recommendation else "",
    )
