"""Saved What ifs of the key's project."""

from typing import Annotated
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, BeforeValidator, Field

from historyapp.api.auth import ApiRequest, actor
from historyapp.api.context_requests import FormatName, ModelName, PolicyName
from historyapp.api.cursors import Cursor, Limit, cut_page, decode_cursor
from historyapp.api.fields import UUID_SCHEMA, Line, RequestBody, id_of, integral
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.models import WhatIf
from historyapp.models.what_ifs import MAX_NAME, MAX_TOKENS
from historyapp.services.what_ifs import WhatIfOptions, delete_what_if, save_what_if
from historyapp.wire.base import with_example
from historyapp.wire.what_ifs import WhatIfOut, WhatIfPage

router = Router(tags=["contexts"])

_LIST = "what-ifs"
Budget = Annotated[int, Field(ge=0, le=MAX_TOKENS), BeforeValidator(integral)]
WhatIfId = Annotated[UUID, id_of("saved What if"), UUID_SCHEMA]


class WhatIfIn(RequestBody):
    """At least one of `policy`, `max_tokens`, `format` and `model` is required. Null: as the session's."""

    model_config = with_example({"name": "small and cheap", "policy": "masked", "max_tokens": 4096})

    name: Line = Field(min_length=1, max_length=MAX_NAME)
    policy: PolicyName | None = None
    max_tokens: Budget | None = Field(default=None, description="Budget in tokens.")
    format: FormatName | None = None
    model: ModelName | None = None


class WhatIfFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None


@router.get("/what-ifs", response=WhatIfPage, summary="List saved What ifs")
def list_what_ifs(request: ApiRequest, filter: Query[WhatIfFilter]) -> HttpResponse:
    """The What ifs of the key's project, oldest first."""
    what_ifs = WhatIf.objects.filter(project=request.auth.project).order_by("pk")
    if filter.cursor is not None:
        (last_id,) = decode_cursor(_LIST, filter.cursor, UUID)
        what_ifs = what_ifs.filter(pk__gt=last_id)
    page, cursor = cut_page(_LIST, list(what_ifs[: filter.limit + 1]), filter.limit, lambda row: (row.pk,))
    return json_response(WhatIfPage(items=[_what_if_out(row) for row in page], next=cursor))


@router.put("/what-ifs", response=WhatIfOut, summary="Save a What if")
@raises(Conflict, Invalid)
def write_what_if(request: ApiRequest, what_if: WhatIfIn) -> HttpResponse:
    """Replaces an earlier What if of the same name, which keeps its id."""
    options = WhatIfOptions(
        what_if.policy or "", what_if.max_tokens, what_if.format or "", what_if.model or ""
    )
    saved = save_what_if(request.auth.project, what_if.name, options, actor=actor(request))
    return json_response(_what_if_out(saved))


@router.delete("/what-ifs/{what_if_id}", response={204: None}, summary="Delete a saved What if")
@raises(NotFound)
def remove_what_if(request: ApiRequest, what_if_id: WhatIfId) -> HttpResponse:
    """Sessions that use its settings keep them."""
    delete_what_if(request.auth.project, what_if_id)
    return HttpResponse(status=204)


def _what_if_out(row: WhatIf) -> WhatIfOut:
    return fill(WhatIfOut, row, policy=row.policy or None, format=row.format or None, model=row.model or None)
