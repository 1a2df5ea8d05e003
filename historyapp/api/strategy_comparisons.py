"""Starts comparisons of two strategies, and reads their progress and their summaries row by row."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.compression_requests import ComparisonId, ComparisonIn
from historyapp.api.compressions import etag_by_content, run_out, wake
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import AsOf, SessionId, money
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict
from historyapp.core.needed_names import NeededName
from historyapp.models import CompressionItem
from historyapp.services.compression.request import RunRequest
from historyapp.services.spending import Spender
from historyapp.services.strategy_comparisons import (
    StrategyComparison,
    StrategyRecall,
    StrategyRow,
    SummaryCell,
    SummaryRecall,
    compare_strategies,
    find_comparison,
    start_comparison,
)
from historyapp.wire.compressions import (
    ComparisonOut,
    NeededNameOut,
    OriginalStepOut,
    SideOut,
    StrategyCellOut,
    StrategyRecallOut,
    StrategyRowOut,
    StrategyRowsOut,
    TrialOut,
)
from historyapp.wire.problems import DiskLow, ModelNotAllowed, NotValid, SpendForbidden

router = Router(tags=["compressions"])

_LIST = "comparison rows"
_SIDES = ("a", "b")


@router.post(
    "/sessions/{session_id}/comparisons", response={202: ComparisonOut}, summary="Compare two strategies"
)
@raises(Conflict, DiskLow, ModelNotAllowed, SpendForbidden)
def post_comparison(request: ApiRequest, session_id: SessionId, body: ComparisonIn) -> HttpResponse:
    """Both summarise the same steps, at most 500. Contexts do not use these summaries.

    `GET` the comparison for its results. The response never has them.
    """
    sides = [
        RunRequest(side.strategy, body.from_step, body.to_step, side.model, side.options)
        for side in body.sides
    ]
    runs = start_comparison(
        request.auth.project, session_id, sides, actor=actor(request), spender=Spender(request.auth)
    )
    for run in runs:
        wake(run)
    comparison = compare_strategies(runs[0].session, runs, with_recall=False)
    return json_response(_comparison_out(comparison), 202)


@router.get(
    "/sessions/{session_id}/comparisons/{comparison_id}", response=ComparisonOut, summary="Read a comparison"
)
def read_comparison(
    request: ApiRequest, session_id: SessionId, comparison_id: ComparisonId, as_of: AsOf = None
) -> HttpResponseBase:
    """The progress of both sides, their summaries, and which names they keep that later steps needed."""
    session = find_session(request, session_id)
    runs = find_comparison(session, comparison_id, as_of)
    return etag_by_content(request, session, _comparison_out(compare_strategies(session, runs, as_of)))


@router.get(
    "/sessions/{session_id}/comparisons/{comparison_id}/rows",
    response=StrategyRowsOut,
    summary="List the rows of a comparison",
)
def list_comparison_rows(
    request: ApiRequest, session_id: SessionId, comparison_id: ComparisonId, filter: Query[PageQuery]
) -> HttpResponseBase:
    """The original steps and each side's summaries, aligned where summaries of both sides begin and end.

    A page ends after `limit` rows, or after 50 steps if that is sooner.
    """
    session = find_session(request, session_id)
    runs = find_comparison(session, comparison_id, filter.as_of)
    start = runs[0].from_step
    if filter.cursor is not None:
        comparison, start = decode_cursor(_LIST, filter.cursor, UUID, int)
        if comparison != comparison_id:
            raise NotValid("This cursor belongs to another comparison. Start again without a cursor.")
    compared = compare_strategies(session, runs, filter.as_of)
    page = compared.page(start, filter.limit)
    next_cursor = encode_cursor(_LIST, comparison_id, page.next_step) if page.next_step else None
    rows = [_strategy_row_out(row, compared.recall) for row in page.rows]
    return etag_by_content(request, session, StrategyRowsOut(items=rows, next=next_cursor))


def _comparison_out(comparison: StrategyComparison) -> ComparisonOut:
    first = comparison.runs[0]
    assert first.comparison is not None
    sides = [
        run_out(SideOut, run, items=[_trial_out(item) for item in items])
        for run, items in zip(comparison.runs, comparison.items, strict=True)
    ]
    recall = None
    if comparison.recall is not None:
        recall = StrategyRecallOut(
            searched_steps=comparison.recall.searched,
            later_steps=comparison.recall.later,
            names=_needed_names_out(comparison.recall.names, comparison.recall.sides),
            kept=[len(side.kept) for side in comparison.recall.sides],
        )
    return ComparisonOut(
        id=first.comparison,
        from_step=first.from_step,
        to_step=first.to_step,
        ended=comparison.recall is not None,
        recall=recall,
        sides=sides,
    )


def _needed_names_out(names: Sequence[NeededName], sides: Sequence[SummaryRecall]) -> list[NeededNameOut]:
    kept_by_side = [set(side.kept) for side in sides]
    return [
        NeededNameOut(
            **name._asdict(),
            kept_by=[
                side for side, kept_names in zip(_SIDES, kept_by_side, strict=True) if name in kept_names
            ],
        )
        for name in names
    ]


def _strategy_row_out(row: StrategyRow, recall: StrategyRecall | None) -> StrategyRowOut:
    return StrategyRowOut(
        from_step=row.steps.first,
        to_step=row.steps.last,
        tokens=row.tokens,
        steps=[fill(OriginalStepOut, step.row) for step in row.originals],
        names=len(row.names),
        needed=_needed_names_out(row.needed, recall.sides) if recall else [],
        sides=[_strategy_cell_out(cell) for cell in row.cells],
    )


def _strategy_cell_out(cell: SummaryCell) -> StrategyCellOut:
    return StrategyCellOut(
        items=[_trial_out(item) for item in cell.items],
        tokens_after=cell.tokens,
        money=money(cell.cost),
        names_kept=len(cell.names),
        kept=[name.name for name in cell.recall.kept],
        lost=[name.name for name in cell.recall.lost],
    )


def _trial_out(item: CompressionItem) -> TrialOut:
    fields: dict[str, Any] = {"from_step": item.first_step, "to_step": item.last_step}
    return fill(TrialOut, item, money=money(item.cost), **fields)
