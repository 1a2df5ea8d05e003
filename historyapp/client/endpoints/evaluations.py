"""Evaluations of policies and budgets on recorded sessions."""

from collections.abc import Iterable, Sequence

from historyapp.client.api_call import ApiCall, Id, Pages, get, pages, path_of, post
from historyapp.wire.evaluations import EvaluationItem, EvaluationOut, EvaluationPage


def evaluate(
    sessions: Iterable[Id],
    *,
    budgets: Sequence[int] | None = None,
    policies: Sequence[str] | None = None,
    model: str | None = None,
) -> ApiCall[EvaluationOut]:
    """Starts an evaluation of at most 100 sessions. :func:`evaluation` returns its progress and results.

    Args:
        budgets: at most four, in tokens; default: 2,000 and 8,000.
        policies: default: all.
        model: the model whose tokens and prices apply; default: each session's own model.

    Raises:
        Conflict: when too many evaluations of the project are running.
    """
    body = {
        "sessions": [str(id) for id in sessions],
        "budgets": None if budgets is None else list(budgets),
        "policies": None if policies is None else list(policies),
        "model": model,
    }
    return post("/evaluations", EvaluationOut, body)


def evaluation(evaluation_id: Id) -> ApiCall[EvaluationOut]:
    """The progress of an evaluation, and its results when it has ended."""
    return get(path_of("evaluations", evaluation_id), EvaluationOut)


def evaluations(*, limit: int | None = None) -> Pages[EvaluationItem]:
    """The project's evaluations, newest first, without their figures.

    Args:
        limit: the number of evaluations of each request.
    """
    return pages("/evaluations", EvaluationPage, limit=limit)


def cancel_evaluation(evaluation_id: Id) -> ApiCall[EvaluationOut]:
    """Cancels an evaluation. The results so far are kept.

    Raises:
        Conflict: when the evaluation has ended.
    """
    return post(path_of("evaluations", evaluation_id, "cancellations"), EvaluationOut, {})
