"""Appends entries of any kind to the log, and reads them by position."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field, WrapValidator

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.entry_models import AnyEntry, AnyEntryPage, EntryIn, entry_json
from historyapp.api.fields import AppendRequest, AsOf, PathPosition, QueryPosition, SessionId
from historyapp.api.problems import raises
from historyapp.api.responses import (
    LargePage,
    LongResponse,
    json_response,
    response_or_304,
)
from historyapp.core.embedded_json import with_shared_limit
from historyapp.core.entries import KINDS
from historyapp.core.errors import Conflict, NotFound
from historyapp.core.lineage import Lineage
from historyapp.models import Entry, Session
from historyapp.models.history import History
from historyapp.services.append import AppendedEntries, append
from historyapp.services.idempotency import KEPT_CHARACTERS
from historyapp.wire import examples
from historyapp.wire.base import with_example
from historyapp.wire.entries import AppendedOut, UnpairedOut
from historyapp.wire.problems import DiskLow

router = Router(tags=["entries"])

MAX_ENTRIES = 1_000
"""The maximum number of entries of one request."""
_LIST = "entries"
_MAX_KEPT_UNPAIRED = KEPT_CHARACTERS // 70
"""More unpaired results take more than ``KEPT_CHARACTERS``: each has at least 70 characters of JSON."""
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[KINDS]


class EntriesIn(AppendRequest):
    model_config = with_example({"entries": [examples.INPUT, examples.OUTPUT, examples.RESULTS]})

    entries: Annotated[
        list[EntryIn], Field(min_length=1, max_length=MAX_ENTRIES), WrapValidator(with_shared_limit)
    ]


class EntryFilter(PageQuery):
    after: QueryPosition | None = Field(default=None, description="Only entries after this position.")
    before: QueryPosition | None = Field(default=None, description="Only entries before this position.")
    kind: Kind | None = None
    take: Literal["live", "all"] = Field(
        default="live", description="`all`: includes entries that rewinds cut off, marked `live: false`."
    )
    order: Literal["oldest", "newest"] = Field(
        default="oldest", description="Whether the oldest or the newest come first."
    )


@router.post("/sessions/{session_id}/entries", response={201: AppendedOut}, summary="Append entries")
@raises(Conflict, DiskLow)
def append_entries(
    request: ApiRequest, session_id: SessionId, batch: EntriesIn
) -> HttpResponse | LongResponse:
    """Appends all entries or none, in one transaction.

    A `model_output` starts a step. If tool calls of the previous step are still open, that step ends as
    `abandoned`; `expected_position` prevents this. A result that matches no open tool call is recorded and
    listed in `unpaired`."""
    appended = append(
        request.auth.project, session_id, batch.entries, expected_position=batch.expected_position
    )
    if len(appended.unpaired) > _MAX_KEPT_UNPAIRED:
        return LongResponse(201, partial(_appended_json, appended))
    return json_response(_appended_json(appended), 201)


def _appended_json(appended: AppendedEntries) -> dict[str, Any]:
    """As :class:`AppendedOut`. A model for each of 15,000 unpaired results takes 0.1 s of a transaction."""
    names = tuple(UnpairedOut.model_fields)
    unpaired = [{name: getattr(result, name) for name in names} for result in appended.unpaired]
    return {"positions": list(appended.positions), "head": appended.head, "unpaired": unpaired}


@router.get("/sessions/{session_id}/entries", response=AnyEntryPage, summary="Page through entries")
def list_entries(request: ApiRequest, session_id: SessionId, filter: Query[EntryFilter]) -> HttpResponseBase:
    """A page ends after `limit` entries or 8 MB."""
    session = find_session(request, session_id)

    def make_content() -> str:
        as_of, after, before = filter.as_of, filter.after or 0, filter.before
        if filter.cursor is not None:
            as_of, position = decode_cursor(_LIST, filter.cursor, int, int)
            after, before = (position, before) if filter.order == "oldest" else (after, position)
        history = History(session, as_of)
        entries = Entry.objects.live(
            history.lineage if filter.take == "live" else recorded_lineage(session, as_of),
            after=after,
            before=before,
            kinds=[filter.kind] if filter.kind else (),
            newest_first=filter.order == "newest",
            limit=filter.limit + 1,
        )
        state = session.head if as_of is None else as_of
        live = history.lineage
        last_position, cursor, page = 0, None, LargePage()
        for row in entries:
            if len(page.items) == filter.limit or page.is_full:
                cursor = encode_cursor(_LIST, state, last_position)
                break
            is_live = filter.take == "live" or live.contains(str(row.session_id), row.position)
            page.add(entry_json(row, live=is_live))
            last_position = row.position
        return page.json(cursor)

    return response_or_304(request, session, make_content)


@router.get("/sessions/{session_id}/entries/{position}", response=AnyEntry, summary="Read one entry")
def read_entry(
    request: ApiRequest, session_id: SessionId, position: PathPosition, as_of: AsOf = None
) -> HttpResponseBase:
    """The entry may be live or in a take."""
    session = find_session(request, session_id)

    def make_content() -> dict[str, Any]:
        live = History(session, as_of).lineage
        owner = recorded_lineage(session, as_of).session_at(position)
        if owner is None:
            head = session.head if as_of is None else as_of
            raise NotFound(f"There is no entry at position {position}; the head is {head}.", head=head)
        entry = Entry.objects.get(session_id=owner, position=position)
        return entry_json(entry, live=live.contains(owner, position))

    return response_or_304(request, session, make_content)


def recorded_lineage(session: Session, as_of: int | None = None) -> Lineage:
    """All entries that the session shares or has recorded up to a position, takes included."""
    head = session.head if as_of is None else as_of
    shared = session.shared_lineage
    if head <= session.fork_position:
        return shared.cut(head)
    return shared.extend(str(session.pk), session.fork_position + 1, head)
