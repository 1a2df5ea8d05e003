"""Spending caps of the project, its sessions and its API keys."""

from collections.abc import Mapping
from typing import Annotated, Any

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.auth import ApiRequest, actor, check_scope, find_session
from historyapp.api.cursors import Cursor, Limit, cut_page, decode_cursor
from historyapp.api.fields import IdField, Line, RequestBody
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.usage import MICRO
from historyapp.models import SpendingCounter
from historyapp.services.caps import Cap, caps_of, set_caps
from historyapp.services.keys import usable_key
from historyapp.services.spending import Spender
from historyapp.services.transactions import writing
from historyapp.wire.base import with_example
from historyapp.wire.caps import CapOut, CapPage
from historyapp.wire.problems import SpendForbidden

router = Router(tags=["project"])

_LIST = "caps"
Dollars = Annotated[float, Field(ge=0, le=1e9)]
DailyCap = Annotated[
    Dollars | None,
    Field(
        description="US dollars that a day (UTC) may cost. Null: no cap. If omitted, the cap does not change."
    ),
]
MonthlyCap = Annotated[
    Dollars | None, Field(description="US dollars that a month (UTC) may cost, like `daily_cap`.")
]
KeyName = Annotated[Line, Field(max_length=100)]


class CapFilter(BaseModel):
    session: IdField | None = Field(default=None, description="Only caps of this session.")
    key: KeyName | None = Field(
        default=None, description="Only caps of the API key that begins with this text."
    )
    limit: Limit = 50
    cursor: Cursor | None = None


class CapPatch(RequestBody):
    """New caps of a session or an API key. Without `session` and `key`: of the project."""

    model_config = with_example({"session": "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d", "daily_cap": 0.5})

    session: IdField | None = None
    key: KeyName | None = Field(default=None, description="The first characters of the API key, or its id.")
    daily_cap: DailyCap = None
    monthly_cap: MonthlyCap = None


@router.get("/caps", response=CapPage, summary="List spending caps")
def list_caps(request: ApiRequest, filter: Query[CapFilter]) -> HttpResponse:
    """The caps of the project, its sessions and its keys, each with the amount spent this period."""
    counters = SpendingCounter.objects.capped().filter(project=request.auth.project)
    if filter.session is not None:
        counters = counters.filter(session=filter.session)
    if filter.key is not None:
        counters = counters.filter(key__prefix=filter.key)
    if filter.cursor is not None:
        (last_id,) = decode_cursor(_LIST, filter.cursor, int)
        counters = counters.filter(pk__gt=last_id)
    rows = list(counters.select_related("key").order_by("pk")[: filter.limit + 1])
    page, cursor = cut_page(_LIST, rows, filter.limit, lambda counter: (counter.pk,))
    return json_response(CapPage(items=[cap_out(cap) for cap in caps_of(page)], next=cursor))


@router.patch("/caps", response=CapPage, summary="Set spending caps")
@raises(Conflict, Invalid, NotFound, SpendForbidden)
def patch_caps(request: ApiRequest, changes: CapPatch) -> HttpResponse:
    """Sets caps. Needs the scopes `admin` and `spend` in addition to `write`.

    Returns all caps of the session, key or project that the request names.
    """
    check_scope(request.auth, "admin")
    Spender(request.auth).check("A spending cap")
    if changes.session is not None and changes.key is not None:
        raise Invalid("A cap belongs to a session or to a key. Leave one of them out.")
    project = request.auth.project
    with writing():
        session = None if changes.session is None else find_session(request, changes.session)
        key = None if changes.key is None else usable_key(project, changes.key)
        limits = pop_limits(changes.model_dump(include={"daily_cap", "monthly_cap"}, exclude_unset=True))
        set_caps(project, limits, session=session, key=key, actor=actor(request))
    counters = SpendingCounter.objects.capped().filter(project=project, session=session, key=key)
    caps = list(counters.select_related("key").order_by("period"))
    return json_response(CapPage(items=[cap_out(cap) for cap in caps_of(caps)], next=None))


def pop_limits(fields: dict[str, Any]) -> Mapping[str, int | None]:
    """Removes the caps from the fields, and returns them by period, in millionths of a dollar."""
    limits: dict[str, int | None] = {}
    for name, period in (("daily_cap", "day"), ("monthly_cap", "month")):
        if name in fields:
            dollars = fields.pop(name)
            limits[period] = None if dollars is None else round(dollars * MICRO)
    return limits


def cap_out(cap: Cap) -> CapOut:
    counter, fields = cap.counter, ("limit", "spent", "reserved", "left")
    return fill(
        CapOut,
        counter,
        session=counter.session_id,
        key=None if counter.key is None else counter.key.prefix,
        **{name: getattr(cap, name) / MICRO for name in fields},
    )
