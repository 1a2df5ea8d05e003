"""The feed of events."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from historyapp.client.api_call import ApiCall, Id, LiveStream, drop_nulls, get, path_of
from historyapp.wire.events import EventOut, EventPage
from historyapp.wire.problems import ServerFailed

SILENCE = 45.0
"""Seconds without data after which the connection counts as lost: three missing heartbeats."""


@dataclass(slots=True)
class StreamedEvents:
    """Reads server-sent events and remembers where to continue."""

    cursor: str | None = None
    buffer: bytes = b""

    def feed(self, chunk: bytes) -> Iterable[EventOut]:
        """The events that are complete with this chunk.

        Raises:
            ServerFailed: when an event cannot be read.
        """
        *blocks, self.buffer = (self.buffer + chunk).split(b"\n\n")
        for block in blocks:
            lines = [line.partition(b": ") for line in block.split(b"\n")]
            fields = {name: value for name, _, value in lines}
            if b"data" in fields:
                try:
                    yield EventOut.model_validate(json.loads(fields[b"data"]))
                except (ValueError, RecursionError) as error:
                    raise ServerFailed(f"An event of the stream cannot be read: {error}") from error
            if b"id" in fields:
                self.cursor = fields[b"id"].decode("ascii", "replace")

    def resume_request(self, first: ApiCall[None]) -> ApiCall[None]:
        """The request for the events after the last complete event."""
        self.buffer = b""
        return first if self.cursor is None else replace(first, query={**first.query, "after": self.cursor})


def events(*, after: str | None = None, limit: int | None = None) -> ApiCall[EventPage]:
    """One page of the changes in the project's sessions, in order.

    Args:
        after: ``next`` of the previous page, or the cursor of an event; without it the page begins with the
            oldest change that is kept. ``next`` is never null: send it later to get new changes.
    """
    return get("/events", EventPage, after=after, limit=limit)


def follow_events(*, after: str | None = None) -> LiveStream[EventOut]:
    """The changes in the project's sessions as they happen, until you end the iteration. After a lost
    connection it continues after the last event: no event is lost or repeated.

    Args:
        after: the cursor of an event; without it the stream begins now.

    Raises:
        CursorExpired: when the changes after the cursor are no longer kept.
    """
    return _follow("/events", after)


def follow_session(session_id: Id, *, after: str | None = None) -> LiveStream[EventOut]:
    """The changes in one session as they happen; see :func:`follow_events`.

    Raises:
        NotFound: when there is no such session, or when it is deleted.
    """
    return _follow(path_of("sessions", session_id, "stream"), after)


def _follow(path: str, after: str | None) -> LiveStream[EventOut]:
    query = drop_nulls({"after": after})
    api_call = ApiCall("GET", path, lambda _: None, query, silence=SILENCE, accept="text/event-stream")
    return LiveStream(api_call, StreamedEvents)
