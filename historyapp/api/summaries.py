"""Lists summaries of steps, and stores summaries that clients write."""

from typing import Annotated
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import RequestBody, SessionId, StepNumber, money
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response, response_or_304
from historyapp.core.errors import Conflict
from historyapp.core.text import Text
from historyapp.llm.router import LOCAL
from historyapp.models import Summary
from historyapp.models.history import History
from historyapp.services.summaries import MAX_KEY_POINT, MAX_SUMMARY, SummaryText, add_summary
from historyapp.wire.base import with_example
from historyapp.wire.summaries import SummaryOut, SummaryPage

router = Router(tags=["summaries"])

_LIST = "summaries"


class SummaryIn(RequestBody):
    model_config = with_example(
        {"from_step": 1, "to_step": 2, "text": "Found that the parser drops the last line."}
    )

    from_step: StepNumber = Field(description="Negative numbers count from the end.")
    to_step: StepNumber
    text: Annotated[Text, Field(max_length=MAX_SUMMARY)]
    key_points: list[Annotated[Text, Field(max_length=MAX_KEY_POINT)]] = Field(
        default_factory=list, max_length=100
    )


@router.post("/sessions/{session_id}/summaries", response={201: SummaryOut}, summary="Write a summary")
@raises(Conflict)
def write_summary(request: ApiRequest, session_id: SessionId, summary: SummaryIn) -> HttpResponse:
    """It takes precedence over older summaries of the same steps."""
    text = SummaryText(summary.text, tuple(summary.key_points))
    steps = (summary.from_step, summary.to_step)
    row = add_summary(request.auth.project, session_id, steps, text, actor=actor(request))
    return json_response(_summary_out(row), 201)


@router.get("/sessions/{session_id}/summaries", response=SummaryPage, summary="List summaries")
def list_summaries(request: ApiRequest, session_id: SessionId, filter: Query[PageQuery]) -> HttpResponseBase:
    """Summaries of live steps, in the order of their last positions. A page ends after 8 MB."""
    session = find_session(request, session_id)

    def make_content() -> SummaryPage:
        history = History(session, filter.as_of)
        after = tuple(decode_cursor(_LIST, filter.cursor, int, UUID)) if filter.cursor is not None else None
        page, has_more = Summary.objects.page(
            session, history.lineage, filter.limit, after=after, as_of=filter.as_of
        )
        cursor = encode_cursor(_LIST, page[-1].last_position, page[-1].pk) if page and has_more else None
        return SummaryPage(items=[_summary_out(row) for row in page], next=cursor)

    return response_or_304(request, session, make_content)


def _summary_out(summary: Summary) -> SummaryOut:
    return fill(
        SummaryOut,
        summary,
        from_step=summary.first_step,
        to_step=summary.last_step,
        money=money(summary.cost) if summary.model not in ("", LOCAL) else None,
        run=summary.run_id,
    )
