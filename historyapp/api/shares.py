"""Creates, lists and revokes share links."""

import json
from typing import Annotated
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.cursors import Cursor, Limit, cut_page, decode_cursor
from historyapp.api.fields import UUID_SCHEMA, Moment, Position, RequestBody, SessionId, id_of
from historyapp.api.idempotency import handles_own_key, once_per_key
from historyapp.api.openapi import without_etag
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.models import ShareLink
from historyapp.services.shares import ShareOptions, create_share, revoke_share, share_path
from historyapp.wire.base import with_example
from historyapp.wire.shares import NewShareOut, ShareOut, SharePage

router = Router(tags=["shares"])

_LIST = "shares"
ShareId = Annotated[UUID, id_of("link"), UUID_SCHEMA]


class ShareIn(RequestBody):
    model_config = with_example(
        {"as_of": 31, "takes": False, "inputs": True, "expires_at": "2026-12-24T00:00:00Z"}
    )

    as_of: Position | None = Field(
        default=None, description="The position to show; null: the whole session, including later entries."
    )
    takes: bool = Field(default=False, description="Show steps that rewinds cut off.")
    inputs: bool = Field(default=False, description="Show text that people wrote, and system instructions.")
    expires_at: Moment | None = Field(
        default=None, description="At most 365 days from now. Null: in 30 days."
    )


class ShareFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None


_DEFAULTS = ShareIn()


@router.post("/sessions/{session_id}/shares", response={201: NewShareOut}, summary="Create a share link")
@raises(Conflict, Invalid)
@handles_own_key
def post_share(request: ApiRequest, session_id: SessionId, share: ShareIn = _DEFAULTS) -> HttpResponse:
    """A read-only link for people without an account. Anyone who has its `url` can open it."""
    options = ShareOptions(share.as_of, share.takes, share.inputs, share.expires_at)

    def create() -> HttpResponse:
        link = create_share(request.auth.project, session_id, options, actor=actor(request))
        return json_response(_share_out(link), 201)

    # The response is stored for the Idempotency-Key without the URL, which gives access to the session.
    response = once_per_key(request, create)
    assert isinstance(response, HttpResponse)
    fields = json.loads(response.content)
    server = settings.PLAYHEAD_BASE_URL or request.build_absolute_uri("/").rstrip("/")
    response.content = json_response({**fields, "url": f"{server}{share_path(UUID(fields['id']))}"}).content
    return response


@router.get("/sessions/{session_id}/shares", response=SharePage, summary="List share links")
@without_etag  # share links are not part of the history
def list_shares(request: ApiRequest, session_id: SessionId, filter: Query[ShareFilter]) -> HttpResponse:
    """Share links, newest first. Includes expired and revoked links."""
    shares = ShareLink.objects.filter(session=find_session(request, session_id)).order_by("-pk")
    if filter.cursor is not None:
        (last_id,) = decode_cursor(_LIST, filter.cursor, UUID)
        shares = shares.filter(pk__lt=last_id)
    page, cursor = cut_page(_LIST, list(shares[: filter.limit + 1]), filter.limit, lambda row: (row.pk,))
    return json_response(SharePage(items=[_share_out(row) for row in page], next=cursor))


@router.delete(
    "/sessions/{session_id}/shares/{share_id}", response={204: None}, summary="Revoke a share link"
)
@raises(NotFound)
def delete_share(request: ApiRequest, session_id: SessionId, share_id: ShareId) -> HttpResponse:
    """The link stops working immediately. It stays in the list."""
    session = find_session(request, session_id)
    revoke_share(request.auth.project, share_id, session_id=session.pk, actor=actor(request))
    return HttpResponse(status=204)


def _share_out(row: ShareLink) -> ShareOut:
    return fill(ShareOut, row, takes=row.with_takes, inputs=row.with_inputs)
