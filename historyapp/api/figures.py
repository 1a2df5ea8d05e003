"""Figures of a project over a span of days."""

import re
from datetime import UTC, date
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import BaseModel, Field, JsonValue, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from historyapp.api.auth import ApiRequest
from historyapp.api.fields import Line
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Invalid
from historyapp.core.usage import MICRO
from historyapp.models.day_figures import MAX_NAME
from historyapp.models.episodes import SEVERAL_TOOLS
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.services.figures.group_figures import ORDERS, GroupFigures, GroupOrder
from historyapp.services.figures.project_figures import (
    TOO_SLOW,
    FiguresQuery,
    grouped,
    is_current,
    total_in,
    undated,
)
from historyapp.wire.figures import FiguresGroupOut, FiguresOut, ProjectFiguresOut
from historyapp.wire.problems import SearchTooSlow

router = Router(tags=["figures"])

DAYS = 30
"""The length of the range in days if the request gives no first day."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _day(value: object) -> date:
    if isinstance(value, str) and _DAY.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise PydanticCustomError("day", "must be a day such as 2026-01-31")


Day = Annotated[date, PlainValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
NameFilter = Annotated[Line, Field(max_length=MAX_NAME)]


class SpanQuery(BaseModel):
    first: Day | None = Field(default=None, alias="from", description="The first day, in UTC.")
    last: Day | None = Field(default=None, alias="to", description="The last day, in UTC; by default today.")
    by: Literal["day", "agent", "model", "tool"] = "day"
    sort: str | None = Field(
        default=None,
        description="The sort key; `-` before it puts the highest first. Default: days by date, others by "
        "`-steps`. Unknown tokens and costs come last.",
        json_schema_extra={"enum": list[JsonValue]([sign + name for name in ORDERS for sign in ("", "-")])},
    )
    agent: NameFilter | None = None
    model: NameFilter | None = None
    tool: NameFilter | None = Field(
        default=None, description="Steps that called only this tool; empty: steps without a tool call."
    )
    take: Literal["live", "all"] = Field(
        default="live", description="`all` also counts steps that rewinds cut off."
    )


@router.get("/figures", response=ProjectFiguresOut, summary="Read a project's figures")
@raises(Invalid, SearchTooSlow)
def read_figures(request: ApiRequest, span: Query[SpanQuery]) -> HttpResponse:
    """Sessions, steps, errors, tokens and money of the key's project, by day, agent, model or tool.

    New entries are counted within a few seconds. A step counts on the day, in UTC, on which it started. Steps
    that a fork shares count once, for the session that recorded them.
    """
    project, last = request.auth.project_id, span.last or timezone.now().astimezone(UTC).date()
    first = span.first or date.fromordinal(max(1, last.toordinal() - DAYS + 1))
    query = FiguresQuery(first, last, span.agent, span.model, span.tool, span.take)
    order = GroupOrder.parse(span.sort) if span.sort else None
    with limit_statements(LIST_SECONDS, TOO_SLOW):
        groups = grouped(project, query, span.by, order)
        total, before = total_in(project, query), total_in(project, query.before)
        without_day = undated(project, query)
    items = [
        FiguresGroupOut(**_figure_fields(group), name=None if name == SEVERAL_TOOLS else str(name))
        for name, group in groups.listed.items()
    ]
    return json_response(
        ProjectFiguresOut(
            first=first,
            last=last,
            by=span.by,
            total=FiguresOut(**_figure_fields(total)),
            before=FiguresOut(**_figure_fields(before)),
            undated=FiguresOut(**_figure_fields(without_day)),
            items=items,
            item_count=groups.item_count,
            is_current=is_current(project),
        )
    )


def _figure_fields(group: GroupFigures) -> dict[str, Any]:
    figures = group.figures
    response = fill(
        FiguresOut,
        figures,
        recorded_tokens=figures.tokens,
        seconds=figures.milliseconds / 1000,
        money=group.micros / MICRO,
        money_is_minimum=group.is_minimum,
        unpriced_models=sorted(group.unpriced),
        unpriced_tokens=group.unpriced_tokens,
    )
    return response.model_dump()
