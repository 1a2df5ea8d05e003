"""What stands for which steps: reading summaries, and writing them by hand."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply, reply_unless_known
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.compression_schemas import MONEY, money
from historyapp.api.cursors import FOREIGN_CURSOR, Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.fields import RequestBody, SessionId, StepNumber, iso
from historyapp.api.problems import raises
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Page, shown
from historyapp.core.errors import Conflict
from historyapp.core.text import Text
from historyapp.llm.router import LOCAL
from historyapp.models import Session, Summary
from historyapp.models.history import History
from historyapp.services.summaries import SummaryText, summarise
from historyapp.wire import examples
from historyapp.wire.problems import NotValid

router = Router(tags=["summaries"])

_LIST = "summaries"


class SummaryIn(RequestBody):
    model_config = shown({"from_step": 1, "to_step": 2, "text": "Found that the parser drops the last line."})

    from_step: StepNumber = Field(description="Negative numbers count from the end.")
    to_step: StepNumber
    text: Text
    key_points: list[Text] = Field(default_factory=list, max_length=100)


class SummaryOut(BaseModel):
    model_config = shown(examples.SUMMARY)

    id: UUID
    from_step: int
    to_step: int
    first_position: int
    last_position: int
    level: int = Field(description="1: one step, 2: a range, 3 and more: a digest of summaries.")
    text: str
    key_points: list[str]
    strategy: str
    model: str
    tokens_before: int
    tokens_after: int
    made_at: int = Field(description="The head when it was made.")
    money: float | str | None = Field(description=MONEY + " Null: no model was asked.")
    run: UUID | None = Field(description="The compression that made it; null where none did.")
    created_at: datetime


class SummaryPage(Page[SummaryOut]):
    model_config = shown({"items": [examples.SUMMARY], "next": None})


class SummaryFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.post("/sessions/{session_id}/summaries", response={201: SummaryOut}, summary="Write a summary")
@raises(Conflict)
def write_summary(request: ApiRequest, session_id: SessionId, summary: SummaryIn) -> HttpResponse:
    """It wins over older ones of the same steps."""
    written = SummaryText(summary.text, tuple(summary.key_points))
    steps = (summary.from_step, summary.to_step)
    made = summarise(request.auth.project, session_id, steps, written, actor=actor(request))
    return reply(summary_json(made), 201)


@router.get("/sessions/{session_id}/summaries", response=SummaryPage, summary="List summaries")
def list_summaries(request: ApiRequest, session_id: SessionId, filter: Query[SummaryFilter]) -> HttpResponse:
    """Those whose steps are live, by the position at which they end."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _page(session, filter))


def _page(session: Session, filter: SummaryFilter) -> dict[str, Any]:
    history = History(session, filter.as_of)
    rows = Summary.objects.page(
        session,
        history.lineage,
        filter.limit + 1,
        after=_after(filter.cursor) if filter.cursor is not None else None,
        as_of=filter.as_of,
    )
    page = rows[: filter.limit]
    more = len(rows) > len(page)
    cursor = encode_cursor(_LIST, page[-1].last_position, str(page[-1].pk)) if more else None
    return {"items": [summary_json(row) for row in page], "next": cursor}


def _after(cursor: str) -> tuple[int, UUID]:
    position, id = decode_cursor(_LIST, cursor, int, str)
    try:
        return position, UUID(id)
    except ValueError as error:
        raise NotValid(FOREIGN_CURSOR) from error


def summary_json(summary: Summary) -> dict[str, Any]:
    """The row as :class:`SummaryOut`."""
    return {
        "id": str(summary.pk),
        "from_step": summary.first_step,
        "to_step": summary.last_step,
        "first_position": summary.first_position,
        "last_position": summary.last_position,
        "level": summary.level,
        "text": summary.text,
        "key_points": summary.key_points,
        "strategy": summary.strategy,
        "model": summary.model,
        "tokens_before": summary.tokens_before,
        "tokens_after": summary.tokens_after,
        "made_at": summary.made_at,
        "money": money(summary.cost) if summary.model not in ("", LOCAL) else None,
        "run": str(summary.run_id) if summary.run_id else None,
        "created_at": iso(summary.created_at),
    }
