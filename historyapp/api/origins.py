"""The origins of the names in a step's action."""

from typing import Annotated

from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp import enqueue
from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.fields import AsOf, Line, QueryStep, SessionId
from historyapp.api.responses import response_or_304
from historyapp.core.identifiers import MAX_IDENTIFIER
from historyapp.models.history import History
from historyapp.services.names.origins import NameOrigin, NamePlace, origins_of, places_of
from historyapp.wire.origins import NameOriginOut, NamePlaceOut, OriginsOut, UsedLineOut, UsedNameOut

router = Router(tags=["episodes"])


class OriginsQuery(BaseModel):
    as_of: AsOf = None
    name: Annotated[Line, Field(min_length=1, max_length=MAX_IDENTIFIER)] | None = Field(
        default=None, description="Also returns `places`: where this name appears up to the step."
    )


@router.get(
    "/sessions/{session_id}/episodes/{number}/origins",
    response=OriginsOut,
    summary="Find where a step's names came from",
)
def read_origins(
    request: ApiRequest, session_id: SessionId, number: QueryStep, query: Query[OriginsQuery]
) -> HttpResponseBase:
    """The paths, URLs, hashes, numbers and names in the step's tool calls, and where each appeared before.
    With `name`, also the newest 50 places of that name up to the step. The first request of a long session
    may find only a part of the log in the index: then `complete` is false, and a worker indexes the log.
    """
    session = find_session(request, session_id)
    history = History(session, query.as_of)
    number = history.resolve(number)
    state = enqueue.name_index_state(history)

    def make_content() -> OriginsOut:
        origins, name = origins_of(history, number), query.name
        places = None if name is None else [_place_out(place) for place in places_of(history, number, name)]
        return OriginsOut(
            number=origins.number,
            complete=origins.is_complete,
            window=origins.window,
            compacted_at=origins.compacted_at,
            names=[_name_out(name) for name in origins.names],
            used=[
                UsedLineOut(
                    result=line.part,
                    line=line.line,
                    text=line.text,
                    names=[UsedNameOut(name=name, step=step) for name, step in line.names],
                )
                for line in origins.used
            ],
            result_used=origins.is_used,
            places=None if places is None else [place for place in places if place],
        )

    return response_or_304(request, session, make_content, state=state)


def _name_out(name: NameOrigin) -> NameOriginOut:
    return NameOriginOut(
        name=name.name,
        kind=name.kind,
        call=name.call,
        origin=name.origin,
        match=name.match,
        first=_place_out(name.first),
        first_given=_place_out(name.first_given),
        last_position=name.last_position,
        in_view=name.in_view,
        acted_on=name.is_acted_on,
    )


def _place_out(place: NamePlace | None) -> NamePlaceOut | None:
    if place is None:
        return None
    return NamePlaceOut(
        position=place.position, step=place.step, role=place.role, line=place.line, text=place.text
    )
