"""What every thread that carries out a request sets before it, in the web process and in others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from historyapp.models.large_reads import RequestRead, request_read
from historyapp.models.long_rows import MAX_READ, bytes_left
from historyapp.services.keys import on_credential
from historyapp.services.transactions import gives_way, queued_seconds


@contextmanager
def request_context(
    read: RequestRead,
    notify: Callable[[bytes], None],
    waited: float,
    *,
    is_long: bool = False,
    max_read: int | None = MAX_READ,
) -> Iterator[None]:
    """Sets the limits of a request.

    Args:
        read: counts what the request reads. Its slot is given back at the end.
        notify: called with the owner of the request's credential.
        waited: the seconds that the request has waited for a thread.
        is_long: whether it is a model call, an export or an import.
        max_read: the bytes that it may read; None: no limit.
    """
    queued_seconds.set(waited)
    gives_way.set(is_long)
    bytes_left.set(max_read)
    request_read.set(read)
    on_credential.set(notify)
    try:
        yield
    finally:
        read.end()
