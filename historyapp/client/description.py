"""What a call is: described once, carried out by a transport that blocks or by one that awaits."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from historyapp.client.answers import Page

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
File = tuple[str, Any]
"""A file's name and its bytes, or an open binary file."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
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
    """Of a POST; null: one is made, and kept across retries."""
    repeatable: bool = True
    """False where it shall not be sent again once it has begun."""
    silence: float | None = None
    """Seconds that the server may take to say something; null: as the client has it."""
    spooled: Callable[[], T] | None = None
    """The answer while the write waits on disk for the server; null: the call needs the server's answer."""


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that comes in pages."""

    first: Call[Page[T]]

    def after(self, page: Page[T]) -> Call[Page[T]] | None:
        """The call for the next page; None after the last one."""
        if page.next is None:
            return None
        return replace(self.first, query={**self.first.query, "cursor": page.next})


class Decoder(Protocol[T_co]):
    """Makes items of a body as it arrives."""

    def feed(self, chunk: bytes) -> Iterable[T_co]: ...

    def finish(self) -> None:
        """Raises:
        PlayheadError: when the body ended too early.
        """


@dataclass(frozen=True, slots=True)
class Stream(Generic[T]):
    """An answer that is read while it arrives. It is retried until it has begun, and not after."""

    call: Call[None]
    decoder: Callable[[], Decoder[T]]


class Chunks:
    """The bytes as they come."""

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        return (chunk,)

    def finish(self) -> None:
        """Any end will do."""


def nothing(_: Any) -> None:
    """Reads an answer that says nothing."""
