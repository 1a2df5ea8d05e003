"""The log itself: appending entries of any kind, and reading them by position."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply, reply_unless_known
from historyapp.api.auth import ApiRequest
from historyapp.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.entry_schemas import EntryIn, EntryOut, entry_json
from historyapp.api.fields import PathPosition, QueryPosition, SessionId
from historyapp.api.problems import raises
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Expecting, Page, shown
from historyapp.core.entries import KINDS
from historyapp.core.errors import Conflict, NotFound
from historyapp.core.lineage import Lineage
from historyapp.models import Entry, Session
from historyapp.models.history import History
from historyapp.models.unpaired import LOOKED_AT, Reason
from historyapp.services.append import append
from historyapp.wire import examples

router = Router(tags=["entries"])

_LIST = "entries"
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[KINDS]


class EntriesIn(Expecting):
    model_config = shown({"entries": [examples.INPUT, examples.OUTPUT, examples.RESULTS]})

    entries: list[EntryIn] = Field(min_length=1, max_length=1000)


class UnpairedOut(BaseModel):
    """A result that answered no open call. It is recorded, and contexts show it as a late result."""

    position: int = Field(description="Of the entry that holds it.")
    index: int = Field(description="Its place among the results of that entry, from 0.")
    tool_call_id: str | None
    reason: Reason = Field(
        description="`answered`: the call has its result already. `abandoned`: the next step began before "
        f"its step had all results. `unknown`: none of the newest {LOOKED_AT} steps made such a call. "
        "`no_open_call`: the result names no call, and none is open."
    )
    step: int | None = Field(description="The step that made the call; null where it is not known.")


class AppendedOut(BaseModel):
    model_config = shown({"positions": [1, 2, 3], "head": 3, "unpaired": []})

    positions: list[int] = Field(description="One for each entry, in their order.")
    head: int
    unpaired: list[UnpairedOut] = Field(description="Results among them that answered no open call.")


class EntryPage(Page[EntryOut]):
    model_config = shown({"items": [examples.ENTRY], "next": None})


class EntryFilter(BaseModel):
    after: QueryPosition | None = Field(default=None, description="Only entries after this position.")
    before: QueryPosition | None = Field(default=None, description="Only entries before this position.")
    kind: Kind | None = None
    take: Literal["live", "all"] = Field(
        default="live", description="`all`: with what rewinds cut off, marked `live: false`."
    )
    order: Literal["oldest", "newest"] = Field(default="oldest", description="Which come first.")
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.post("/sessions/{session_id}/entries", response={201: AppendedOut}, summary="Append entries")
@raises(Conflict)
def append_entries(request: ApiRequest, session_id: SessionId, batch: EntriesIn) -> HttpResponse:
    """All of them or none, in one transaction.

    A `model_output` begins a step. Where calls of the step before are still open, that step ends as
    `abandoned`; `expected_position` guards against that. A result that answers no open call is recorded,
    and listed in `unpaired`.
    """
    appended = append(
        request.auth.project, session_id, batch.entries, expected_position=batch.expected_position
    )
    unpaired = [asdict(one) for one in appended.unpaired]
    return reply({"positions": appended.positions, "head": appended.head, "unpaired": unpaired}, 201)


@router.get("/sessions/{session_id}/entries", response=EntryPage, summary="Page through entries")
def list_entries(request: ApiRequest, session_id: SessionId, filter: Query[EntryFilter]) -> HttpResponse:
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _page(session, filter))


def _page(session: Session, filter: EntryFilter) -> dict[str, Any]:
    as_of, after, before = filter.as_of, filter.after or 0, filter.before
    if filter.cursor is not None:
        as_of, position = decode_cursor(_LIST, filter.cursor, int, int)
        after, before = (position, before) if filter.order == "oldest" else (after, position)
    history = History(session, as_of)
    found = Entry.objects.live(
        history.lineage if filter.take == "live" else recorded(session, as_of),
        after=after,
        before=before,
        kinds=[filter.kind] if filter.kind else (),
        newest_first=filter.order == "newest",
        limit=filter.limit + 1,
    )
    rows = list(found)
    page = rows[: filter.limit]
    state = session.head if as_of is None else as_of
    cursor = encode_cursor(_LIST, state, page[-1].position) if len(rows) > len(page) else None
    return {"items": list(_entries(page, history.lineage)), "next": cursor}


def _entries(rows: list[Entry], live: Lineage) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield entry_json(row, live=live.contains(str(row.session_id), row.position))


@router.get("/sessions/{session_id}/entries/{position}", response=EntryOut, summary="Read one entry")
def read_entry(
    request: ApiRequest, session_id: SessionId, position: PathPosition, as_of: AsOf = None
) -> HttpResponse:
    """Live ones and those in takes."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _entry(session, position, as_of))


def _entry(session: Session, position: int, as_of: int | None) -> dict[str, Any]:
    lineage = History(session, as_of).lineage
    owner = recorded(session, as_of).session_at(position)
    if owner is None:
        head = session.head if as_of is None else as_of
        raise NotFound(f"There is no entry at position {position}; the head is {head}.", head=head)
    entry = Entry.objects.get(session_id=owner, position=position)
    return entry_json(entry, live=lineage.contains(owner, position))


def recorded(session: Session, as_of: int | None = None) -> Lineage:
    """Everything that the session shares or has recorded up to a position, takes included."""
    head = session.head if as_of is None else as_of
    shared = Lineage.of(session.fork_spans)
    if head <= session.fork_position:
        return shared.cut(head)
    return shared.extend(str(session.pk), session.fork_position + 1, head)
