"""Comparing two runs: their shared part, the first difference, and their steps side by side."""

from functools import partial
from typing import Any
from zlib import crc32

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.fields import Line
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.dates import known_time
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.usage import MICRO
from historyapp.models.history import History
from historyapp.services.ledger import StepAccount
from historyapp.services.run_comparisons import (
    REFERENCE_FORMAT,
    ComparedRun,
    RunComparison,
    RunPart,
    RunReference,
    compare_runs,
    parse_reference,
    read_run,
)
from historyapp.services.step_pairs import PairDelta, PairPlace, StepPair, align_steps
from historyapp.wire.problems import NotValid
from historyapp.wire.run_comparisons import (
    CommonPartOut,
    ComparedRunOut,
    ComparedStepOut,
    PairCountsOut,
    PairDeltaOut,
    PairPlaceOut,
    RunComparisonOut,
    RunPartOut,
    StepPairOut,
    StepPairPage,
)

router = Router(tags=["compare"])

_LIST = "compare"
_NO_COST = ("unknown", "none")
Reference = Line


class ComparisonQuery(BaseModel):
    a: Reference = Field(max_length=100, description=f"The first run: {REFERENCE_FORMAT}.")
    b: Reference = Field(max_length=100, description="The second run, in the same form.")
    limit: Limit = 50

    def references(self) -> tuple[RunReference, RunReference]:
        return parse_reference("a", self.a), parse_reference("b", self.b)


class PairQuery(ComparisonQuery):
    cursor: Cursor | None = None


@router.get("/compare", response=RunComparisonOut, summary="Compare two runs")
@raises(Invalid, NotFound)
def compare(request: ApiRequest, query: Query[ComparisonQuery]) -> HttpResponse:
    """The shared part of two sessions, forks, takes or points in time, the first difference, and the totals
    of each. For forks and takes, the shared part is exact: it comes from the lineages. The later steps are
    aligned by their tool calls. The response time does not depend on the length of the runs.
    """
    comparison = compare_runs(*query.references(), partial(find_session, request))
    pairs, next_place = comparison.steps.page(0, query.limit)
    sides = comparison.a.history, comparison.b.history
    return json_response(
        RunComparisonOut(
            a=_compared_run_out(comparison.a),
            b=_compared_run_out(comparison.b),
            common=fill(CommonPartOut, comparison.common),
            counts=PairCountsOut(**comparison.counts(pairs)._asdict(), complete=comparison.steps.is_complete),
            first_difference=_pair_place_out(comparison, comparison.first_difference(pairs)),
            first_divergence=_pair_place_out(comparison, comparison.first_divergence(pairs)),
            pairs=_pair_page(query, sides, pairs, next_place),
        )
    )


@router.get("/compare/pairs", response=StepPairPage, summary="List the steps of two runs side by side")
@raises(Invalid, NotFound)
def list_pairs(request: ApiRequest, query: Query[PairQuery]) -> HttpResponse:
    """The steps after the common part, in the order of both runs.

    All pages show the runs as they were at the first page.
    """
    references = query.references()
    find = partial(find_session, request)
    if query.cursor is None:
        comparison = compare_runs(*references, find)
        sides, steps = (comparison.a.history, comparison.b.history), comparison.steps
    else:
        cursor_hash, *positions, a, b = decode_cursor(_LIST, query.cursor, *[int] * 5)
        if cursor_hash != _hash(query):
            raise NotValid("This cursor belongs to another `a` or `b`. Send the same ones with each page.")
        run_a, run_b = (read_run(reference, find) for reference in references)
        sides = History(run_a.session, positions[0]), History(run_b.session, positions[1])
        if not (1 <= a <= sides[0].steps + 1 and 1 <= b <= sides[1].steps + 1):
            raise NotValid("This cursor does not fit these runs. Start again without a cursor.")
        steps = align_steps(*sides, PairPlace(a, b))
    return json_response(_pair_page(query, sides, *steps.page(0, query.limit)))


def _hash(query: ComparisonQuery) -> int:
    return crc32(f"{query.a} {query.b}".encode()) & 0x7FFFFFFF


def _pair_page(
    query: ComparisonQuery,
    sides: tuple[History, History],
    pairs: list[StepPair],
    next_place: PairPlace | None,
) -> StepPairPage:
    positions = [side.session.head if side.as_of is None else side.as_of for side in sides]
    next_cursor = encode_cursor(_LIST, _hash(query), *positions, *next_place) if next_place else None
    return StepPairPage(items=[_step_pair_out(pair) for pair in pairs], next=next_cursor)


def _compared_run_out(side: ComparedRun) -> ComparedRunOut:
    session = side.history.session
    return ComparedRunOut(
        reference=str(side.reference),
        session=str(session.pk),
        as_of=side.history.as_of,
        title=session.title,
        agent=session.agent,
        model=session.model,
        head=session.head,
        totals=_run_part_out(side.whole),
        apart=_run_part_out(side.after_common),
    )


def _run_part_out(part: RunPart) -> RunPartOut:
    return RunPartOut(
        steps=part.steps,
        errors=part.errors,
        likely_failures=part.likely_failures,
        tokens=part.tokens.shown,
        token_source=part.tokens.source,
        money=None if part.money.source in _NO_COST else part.money.micros / MICRO,
        money_is_minimum=part.money.is_minimum,
        seconds=None if part.duration is None else part.duration.total_seconds(),
    )


def _pair_place_out(comparison: RunComparison, pair: int | None) -> PairPlaceOut | None:
    if pair is None:
        return None
    a, b = comparison.steps_at(pair)
    return PairPlaceOut(a=a, b=b)


def _step_pair_out(pair: StepPair) -> StepPairOut:
    return StepPairOut(
        a=_compared_step_out(pair.a),
        b=_compared_step_out(pair.b),
        change=pair.change,
        differs=list(pair.differs),
        delta=_pair_delta_out(pair.delta),
        exact=pair.is_exact,
    )


def _pair_delta_out(delta: PairDelta | None) -> PairDeltaOut | None:
    if delta is None:
        return None
    return PairDeltaOut(
        tokens=delta.tokens,
        money=None if delta.money is None else delta.money / MICRO,
        seconds=None if delta.duration is None else delta.duration.total_seconds(),
    )


def _compared_step_out(account: StepAccount | None) -> ComparedStepOut | None:
    if account is None:
        return None
    row, money = account.row, account.money
    started, ended = known_time(row.started_at), known_time(row.finished_at)
    fields: dict[str, Any] = {
        "money": None if money is None else money / MICRO,
        "seconds": (ended - started).total_seconds() if started and ended else None,
    }
    return fill(ComparedStepOut, row, **fields)
