"""The description of an API call, which both the blocking and the async client send."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from historyapp.core.errors import NotFound
from historyapp.wire.base import Answer, Page

T = TypeVar("T")
R = TypeVar("R", covariant=True)
A = TypeVar("A", bound=Answer)
Id = UUID | str
File = tuple[str, Any]
"""A file's name and its bytes, or an open binary file."""
_PART = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """One request and how its answer is read. Null in ``query`` and ``body`` means left out."""

    method: str
    path: str
    read: Callable[[Any], T]
    """From parsed JSON; null where the answer has no body."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    files: tuple[File, ...] = ()
    """Sent as ``multipart/form-data``, with ``body`` as its fields."""
    idempotency_key: str | None = None
    """The Idempotency-Key of a POST; null: one is generated. Retries use the same key."""
    repeatable: bool = True
    """False if it must not be sent again once its response has begun."""
    silence: float | None = None
    """Seconds that the server may take between two messages; null: the client's timeout."""
    accept: str | None = None
    """The media type to ask for, where the server has several."""
    spooled: Callable[[], T] | None = None
    """The answer while the write waits on disk for the server; null: the call needs the server's answer."""


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that comes in pages."""

    first: ApiCall[Page[T]]

    def after(self, page: Page[T]) -> ApiCall[Page[T]] | None:
        """The request for the next page; None after the last one."""
        if page.next is None:
            return None
        return replace(self.first, query={**self.first.query, "cursor": page.next})


@dataclass(frozen=True, slots=True)
class Stream(Generic[T]):
    """An answer that is read while it arrives. The request is retried only until the answer has begun."""

    api_call: ApiCall[None]
    decoder: Callable[[], Callable[[bytes | None], Iterable[T]]]
    """Makes a function that is given the body's chunks, then None for its end, and returns their items.
    At the end it raises a PlayheadError if the body is not complete."""


class EventReader(Protocol[R]):
    """Reads a stream of events."""

    def feed(self, chunk: bytes) -> Iterable[R]:
        """The events that are complete with this chunk."""

    def resumed(self, first: ApiCall[None]) -> ApiCall[None]:
        """The request for the following events; only complete events have been read."""


@dataclass(frozen=True, slots=True)
class Followed(Generic[T]):
    """A stream that continues until the caller ends it. After a lost connection it continues where it was."""

    first: ApiCall[None]
    reader: Callable[[], EventReader[T]]


def at(*parts: Id | int) -> str:
    """The path of these parts.

    Raises:
        NotFound: for an id that would lead elsewhere; servers undo the quoting of slashes.
    """
    texts = [str(part) for part in parts]
    for text in texts:
        if not _PART.fullmatch(text):
            raise NotFound(f"There is nothing with the id {text[:100]!r}.")
    return "/" + "/".join(texts)


def get(path: str, answer: type[A], **query: Any) -> ApiCall[A]:
    return ApiCall("GET", path, answer.model_validate, given(query))


def post(path: str, answer: type[A], body: Mapping[str, Any], *, key: str | None = None) -> ApiCall[A]:
    return ApiCall("POST", path, answer.model_validate, body=given(body), idempotency_key=key)


def pages(path: str, page: type[Page[T]], **query: Any) -> Pages[T]:
    return Pages(ApiCall("GET", path, page.model_validate, given(query)))


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not null, as JSON or a query can hold them."""
    found = {}
    for name, value in fields.items():
        if isinstance(value, UUID):
            found[name] = str(value)
        elif isinstance(value, datetime):
            # As everywhere in Python, a time without a zone is local time.
            found[name] = value.astimezone(UTC).isoformat()
        elif value is not None:
            found[name] = value
    return found
