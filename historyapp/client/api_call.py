"""The description of an API call. Both the blocking and the async client send it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from historyapp.core.errors import NotFound
from historyapp.wire.base import Page, ResponseModel

T = TypeVar("T")
R = TypeVar("R", covariant=True)
A = TypeVar("A", bound=ResponseModel)
Id = UUID | str
File = tuple[str, Any]
"""A file's name and its bytes, or an open binary file."""
_PART = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """A request and how to parse its response. Nulls in ``query`` and ``body`` are left out."""

    method: str
    path: str
    read: Callable[[Any], T]
    """Converts the parsed JSON of the response; its argument is None if there is no body."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    files: tuple[File, ...] = ()
    """Sent as ``multipart/form-data``, with ``body`` as its fields."""
    idempotency_key: str | None = None
    """The Idempotency-Key of a POST. None: the client generates a key. Retries use the same key."""
    repeatable: bool = True
    """Whether to retry the request after its response has started."""
    silence: float | None = None
    """The longest pause between two messages of the server, in seconds. None: the client's timeout."""
    accept: str | None = None
    """The requested media type, if the server supports several."""
    spooled: Callable[[], T] | None = None
    """Creates the response to a write that waits in the spool. None: the API call needs the server's response
    and cannot be spooled.
    """


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A paginated list."""

    first: ApiCall[Page[T]]

    def after(self, page: Page[T]) -> ApiCall[Page[T]] | None:
        """The request for the next page, or None after the last page."""
        if page.next is None:
            return None
        return replace(self.first, query={**self.first.query, "cursor": page.next})


@dataclass(frozen=True, slots=True)
class Stream(Generic[T]):
    """A streamed response. The request is not retried after the response has started."""

    api_call: ApiCall[None]
    decoder: Callable[[], Callable[[bytes | None], Iterable[T]]]
    """Returns a function that converts each chunk of the body to items. It gets None at the end of the body,
    and then raises a PlayheadError if the body is not complete.
    """


class EventReader(Protocol[R]):
    """Reads a stream of events."""

    def feed(self, chunk: bytes) -> Iterable[R]:
        """The events that this chunk completes."""

    def resume_request(self, first: ApiCall[None]) -> ApiCall[None]:
        """The request for the events after the last complete event."""


@dataclass(frozen=True, slots=True)
class LiveStream(Generic[T]):
    """A stream that runs until the caller ends it. After a lost connection it resumes at the last event."""

    first: ApiCall[None]
    reader: Callable[[], EventReader[T]]


def path_of(*parts: Id | int) -> str:
    """The URL path of these parts.

    Raises:
        NotFound: if an id has a character that ids do not have. Quoting it is not enough, because servers
            decode quoted slashes.
    """
    texts = [str(part) for part in parts]
    for text in texts:
        if not _PART.fullmatch(text):
            raise NotFound(f"There is nothing with the id {text[:100]!r}.")
    return "/" + "/".join(texts)


def get(path: str, response_type: type[A], **query: Any) -> ApiCall[A]:
    return ApiCall("GET", path, response_type.model_validate, drop_nulls(query))


def post(path: str, response_type: type[A], body: Mapping[str, Any], *, key: str | None = None) -> ApiCall[A]:
    return ApiCall("POST", path, response_type.model_validate, body=drop_nulls(body), idempotency_key=key)


def pages(path: str, page: type[Page[T]], **query: Any) -> Pages[T]:
    return Pages(ApiCall("GET", path, page.model_validate, drop_nulls(query)))


def drop_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not null, as values for JSON or a query string."""
    values = {}
    for name, value in fields.items():
        if isinstance(value, UUID):
            values[name] = str(value)
        elif isinstance(value, datetime):
            # As usual in Python, a time without a zone is local time.
            values[name] = value.astimezone(UTC).isoformat()
        elif value is not None:
            values[name] = value
    return values
