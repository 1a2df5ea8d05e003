"""Server-sent events for agents and pages: the first part of a stream. ``historyapp.front`` sends later
events."""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from django.contrib.sessions.models import Session as BrowserSession
from django.db.models import Q
from django.http import HttpResponse
from django.utils import timezone

from historyapp.core.json import dump_json
from historyapp.models import ApiKey, Membership
from historyapp.models.changes import Cursor, ReadChange, changes_since, newest_cursor

MEDIA_TYPE = "text/event-stream"
RETRY_MILLISECONDS = 1000
"""Milliseconds after which clients reconnect."""


class Reader(NamedTuple):
    """The reader of a stream. The stream ends when the reader may no longer read the project."""

    project: UUID
    key: UUID | None = None
    """The API key, or None for a person."""
    user: int | None = None
    browser: str = ""
    """The key of the person's browser session, which ends when they sign out."""
    password: str = ""
    """A hash of the person's password. Another password ends all of their browser sessions."""


class Subscription(NamedTuple):
    """The events that a stream sends."""

    project: UUID
    session: UUID | None
    """None: the whole project."""
    cursor: Cursor
    """The client already has the events up to this cursor, which is not after ``newest``."""
    newest: Cursor
    """The newest cursor of the project when the stream began."""
    reader: Reader


class EventStream(HttpResponse):
    """The events after the cursor ``after``, or without it those from now on.

    ``historyapp.front`` keeps the response open and sends later events.
    Other servers end the response here, and their clients reconnect a second later, with their cursor.

    Raises:
        CursorExpired: when changes after ``after`` have been deleted because of their age.
        Invalid: when ``after`` is not a cursor.
    """

    def __init__(self, reader: Reader, session: UUID | None, after: str | None) -> None:
        project = reader.project
        first = Cursor.parse(after) if after else newest_cursor(project)
        page = changes_since(project, first, session=session)
        newest = newest_cursor(project)
        cursor = min(page.cursor, newest)  # no change has the cursor that a client made up
        self.subscription = Subscription(project, session, cursor, newest, reader)
        texts = [f"retry: {RETRY_MILLISECONDS}\n", *map(event_text, page.changes), cursor_text(cursor)]
        super().__init__("".join(texts), content_type=MEDIA_TYPE)
        self["Cache-Control"] = "no-cache"
        self["X-Accel-Buffering"] = "no"


def event_fields(change: ReadChange) -> dict[str, object]:
    """A change as JSON values, as :class:`historyapp.wire.events.EventOut` describes it."""
    return {
        "cursor": str(change.cursor),
        "kind": change.kind,
        "session": str(change.session),
        "first_position": change.first_position,
        "position": change.last_position,
        "run": change.run and str(change.run),
        "at": change.at.isoformat().replace("+00:00", "Z"),
    }


def event_text(change: ReadChange) -> str:
    """A change as a server-sent event."""
    return f"event: {change.kind}\ndata: {dump_json(event_fields(change))}\n{cursor_text(change.cursor)}"


def cursor_text(cursor: Cursor) -> str:
    """An event without data that only sets the client's cursor."""
    return f"id: {cursor}\n\n"


def still_allowed(readers: Collection[Reader]) -> set[Reader]:
    """The readers who may still read their project."""
    keys = ApiKey.objects.filter(pk__in={reader.key for reader in readers if reader.key}, revoked_at=None)
    valid = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    usable = set(keys.filter(valid).values_list("project_id", "pk"))
    users = {reader.user for reader in readers if reader.user}
    members = Membership.objects.filter(user_id__in=users, user__is_active=True).select_related("user")
    member_of: dict[tuple[UUID, int | None], str] = {
        (row.project_id, row.user_id): row.user.get_session_auth_hash() for row in members
    }
    browsers = BrowserSession.objects.filter(session_key__in={reader.browser for reader in readers})
    signed_in = set(browsers.filter(expire_date__gt=timezone.now()).values_list("session_key", flat=True))
    return {
        reader
        for reader in readers
        if (reader.project, reader.key) in usable
        or (reader.browser in signed_in and member_of.get((reader.project, reader.user)) == reader.password)
    }
