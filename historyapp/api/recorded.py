"""The request that led to a step."""

from django.http.response import HttpResponseBase
from ninja import Query, Router

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import QueryStep, SessionId, money
from historyapp.api.responses import MAX_PAGE_BYTES, fill, response_or_304
from historyapp.core.json import dump_json
from historyapp.models.history import History
from historyapp.services.recorded.changes import RequestChanges, request_changes
from historyapp.services.recorded.notes import notes
from historyapp.services.recorded.requests import (
    RecordedRequest,
    RequestMessage,
    message_count,
    messages,
    recorded_request,
)
from historyapp.wire.recorded import (
    BilledTokens,
    ChangedPartOut,
    RecordedRequestOut,
    RequestChangesOut,
    RequestMessageOut,
    RequestPartOut,
    RequestTokensOut,
    RequestWindowOut,
)

router = Router(tags=["episodes"])

_LIST = "request"


@router.get(
    "/sessions/{session_id}/episodes/{number}/request",
    response=RecordedRequestOut,
    summary="What the model saw before a step",
)
def read_request(
    request: ApiRequest, session_id: SessionId, number: QueryStep, filter: Query[PageQuery]
) -> HttpResponseBase:
    """The recorded request that led to the step, its estimated and billed tokens, and its messages."""
    session = find_session(request, session_id)

    def make_content() -> RecordedRequestOut:
        history = History(session, filter.as_of)
        start = decode_cursor(_LIST, filter.cursor, int)[0] if filter.cursor is not None else 0
        recorded = recorded_request(history, history.resolve(number))
        changes = request_changes(recorded)
        total = message_count(recorded)
        page = _message_page(messages(recorded, start, filter.limit))
        after = start + len(page)
        snapshot = recorded.snapshot
        return RecordedRequestOut(
            step=recorded.step,
            position=recorded.output.position,
            source=recorded.source,
            model=recorded.model,
            snapshot=snapshot.pk if snapshot else None,
            sha256=snapshot.sha256 if snapshot else None,
            window=_window_out(recorded),
            tokens=_tokens_out(recorded),
            changes=_changes_out(changes) if changes else None,
            notes=notes(recorded, changes),
            total=total,
            messages=page,
            next=encode_cursor(_LIST, after) if after < total else None,
        )

    return response_or_304(request, session, make_content)


def _message_page(messages: list[RequestMessage]) -> list[RequestMessageOut]:
    """The first messages, up to and including the one that exceeds ``MAX_PAGE_BYTES`` of JSON."""
    page: list[RequestMessageOut] = []
    size = 0
    for message in messages:
        size += len(dump_json(message.content))
        page.append(fill(RequestMessageOut, message))
        if size > MAX_PAGE_BYTES:
            break
    return page


def _window_out(recorded: RecordedRequest) -> RequestWindowOut:
    return fill(
        RequestWindowOut,
        recorded.window,
        first_step=recorded.first_step,
        max_tokens=recorded.model_window,
        at_least=recorded.largest,
    )


def _tokens_out(recorded: RecordedRequest) -> RequestTokensOut:
    tokens = recorded.tokens
    return RequestTokensOut(
        billed=fill(BilledTokens, tokens.reported) if tokens.reported else None,
        expected=tokens.expected,
        difference=tokens.difference,
        parts=[RequestPartOut(part=part, tokens=count) for part, count in tokens.parts.items()],
        cost=money(recorded.billed) if tokens.reported else None,
    )


def _changes_out(changes: RequestChanges) -> RequestChangesOut:
    positions = [row.position for row in changes.new]
    return RequestChangesOut(
        place=changes.place,
        first_byte=changes.first_byte,
        part=fill(ChangedPartOut, changes.part) if changes.part else None,
        new_positions=[min(positions), max(positions)] if positions else [],
        shared_tokens=changes.shared,
        reusable_tokens=changes.cache.reusable,
        missed_tokens=changes.missed,
        saved=money(changes.cache.saved),
        cached_cost=money(changes.cached_cost),
    )
