"""Evaluations: for each policy and budget, the share of what the next actions used that the context has."""

from collections import Counter
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp import enqueue
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.context_requests import ModelName, PolicyName
from historyapp.api.cursors import Cursor, Limit, cut_page, decode_cursor
from historyapp.api.fields import UUID_SCHEMA, IdField, Position, RequestBody, id_of
from historyapp.api.idempotency import concerns_sessions
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict, NotFound
from historyapp.core.evaluation.figures import Averages, cautions
from historyapp.core.evaluation.intervals import Interval
from historyapp.core.usage import MICRO
from historyapp.models import EvaluatedSession, Evaluation
from historyapp.models.evaluations import MAX_BUDGETS, MAX_EVALUATED
from historyapp.services.evaluations.results import (
    EvaluationProgress,
    EvaluationResults,
    SessionProgress,
    evaluation_progress,
)
from historyapp.services.evaluations.start import (
    DEFAULT_BUDGETS,
    EvaluationRequest,
    cancel_evaluation,
    find_evaluation,
    start_evaluation,
)
from historyapp.wire.base import with_example
from historyapp.wire.evaluations import (
    ChoiceFiguresOut,
    ChoiceResultOut,
    EvaluatedSessionOut,
    EvaluationItem,
    EvaluationOut,
    EvaluationPage,
    EvaluationResultsOut,
    IntervalOut,
    RecommendationOut,
)

router = Router(tags=["evaluations"])

_LIST = "evaluations"
EvaluationId = Annotated[UUID, id_of("evaluation"), UUID_SCHEMA]


class EvaluationIn(RequestBody):
    model_config = with_example(
        {"sessions": ["0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"], "budgets": [2000, 8000]}
    )

    sessions: Annotated[list[IdField], Field(min_length=1, max_length=MAX_EVALUATED)]
    budgets: Annotated[list[Position], Field(min_length=1, max_length=MAX_BUDGETS)] = Field(
        default=[*DEFAULT_BUDGETS], description="Tokens of a whole request, like `max_tokens`."
    )
    policies: Annotated[list[PolicyName], Field(max_length=20)] = Field(
        default_factory=list, description="Default: all."
    )
    model: ModelName | None = Field(
        default=None,
        description="The model whose tokens and prices apply. Default: each session's `model`.",
    )


class EvaluationQuery(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None


@router.post("/evaluations", response={202: EvaluationOut}, summary="Evaluate policies and budgets")
@raises(Conflict)
def post_evaluation(request: ApiRequest, body: EvaluationIn) -> HttpResponse:
    """A worker measures one session after another. `GET` the evaluation for its progress and results. No
    model is called.
    """
    evaluation_request = EvaluationRequest(body.sessions, body.budgets, body.policies, body.model or "")
    evaluation = start_evaluation(request.auth.project, evaluation_request, actor=actor(request))
    transaction.on_commit(partial(enqueue.wake_evaluation, evaluation.pk), robust=True)
    concerns_sessions(request, body.sessions)
    return json_response(_evaluation_out(evaluation_progress(evaluation)), 202)


@router.get("/evaluations", response=EvaluationPage, summary="List evaluations")
def list_evaluations(request: ApiRequest, filter: Query[EvaluationQuery]) -> HttpResponse:
    """Newest first."""
    evaluations = Evaluation.objects.filter(project=request.auth.project_id).defer("results")
    if filter.cursor is not None:
        (last_id,) = decode_cursor(_LIST, filter.cursor, UUID)
        evaluations = evaluations.filter(pk__lt=last_id)
    rows = evaluations.newest(filter.limit + 1)
    page, cursor = cut_page(_LIST, rows, filter.limit, lambda row: (row[0].pk,))
    items = [
        fill(EvaluationItem, row, prices_as_of=row.prices_as_of or None, **_counts_fields(counts))
        for row, counts in page
    ]
    return json_response(EvaluationPage(items=items, next=cursor))


@router.get("/evaluations/{evaluation_id}", response=EvaluationOut, summary="Read an evaluation")
@raises(NotFound)
def read_evaluation(request: ApiRequest, evaluation_id: EvaluationId) -> HttpResponse:
    evaluation = find_evaluation(request.auth.project, evaluation_id)
    return json_response(_evaluation_out(evaluation_progress(evaluation)))


@router.post(
    "/evaluations/{evaluation_id}/cancellations",
    response={200: EvaluationOut},
    summary="Cancel an evaluation",
)
@raises(Conflict, NotFound)
def post_cancellation(request: ApiRequest, evaluation_id: EvaluationId) -> HttpResponse:
    """The results so far are kept. 409 if the evaluation has ended."""
    progress = evaluation_progress(cancel_evaluation(find_evaluation(request.auth.project, evaluation_id)))
    concerns_sessions(request, [item.session for item in progress.items])
    return json_response(_evaluation_out(progress))


def _evaluation_out(progress: EvaluationProgress) -> EvaluationOut:
    return fill(
        EvaluationOut,
        progress.evaluation,
        prices_as_of=progress.evaluation.prices_as_of or None,
        progress=progress.share,
        results=progress.results and _results_out(progress.results),
        items=[_evaluated_session_out(item) for item in progress.items],
        **_counts_fields(progress.counts),
    )


def _counts_fields(counts: Counter[str]) -> dict[str, int]:
    """The number of sessions in each state, and in total."""
    return {state.value: counts[state] for state in EvaluatedSession.State} | {"total": counts.total()}


def _results_out(results: EvaluationResults) -> EvaluationResultsOut:
    recommended = results.recommended
    choices = [
        ChoiceResultOut(
            **result.choice._asdict(),
            **_averages_fields(result.averages),
            recall=_interval_out(result.recall),
            grounded=_interval_out(result.grounded),
            behind=_interval_out(result.behind),
        )
        for result in results.choices
    ]
    return fill(
        EvaluationResultsOut,
        results,
        choices=choices,
        recommendation=recommended and RecommendationOut(**recommended._asdict(), reason=results.reason),
        cautions=cautions(results.sessions, results.unpriced),
    )


def _evaluated_session_out(item: SessionProgress) -> EvaluatedSessionOut:
    return fill(
        EvaluatedSessionOut,
        item,
        figures=[
            ChoiceFiguresOut(
                **choice._asdict(),
                recall=averages.recall,
                grounded=averages.grounded,
                **_averages_fields(averages),
            )
            for choice, averages in item.figures
        ],
    )


def _averages_fields(figures: Averages) -> dict[str, Any]:
    money = "unknown" if figures.cost is None else round(figures.cost / MICRO, 9)
    names = ("tokens", "cached", "steps", "refused")
    return {**{name: getattr(figures, name) for name in names}, "money": money}


def _interval_out(interval: Interval) -> IntervalOut:
    return IntervalOut(**interval._asdict())
