"""The process that carries out large requests: ``python -m historyapp.front.request_process PIPE PARENT
IDLE_SECONDS``.

It runs the WSGI application of the web process, one request at a time. The kernel kills it if a request takes
too much processor time. See :mod:`historyapp.front.large_requests` for its parent.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from multiprocessing.connection import Connection
from typing import Any

from historyapp.child import limit_processor_time, pipe_to_parent
from historyapp.core.call_stack import with_room_for_calls
from historyapp.front.environ import Wsgi
from historyapp.front.process_messages import (
    BEGUN,
    BODY,
    COUNT,
    END,
    HEAD,
    LENT,
    MAX_PART,
    OWNER,
    RETURNED,
    WRITTEN,
    max_processor_seconds,
)

SendMessage = Callable[[str, object], None]
"""Sends a message of a kind and a content to the parent."""


def carry_out(application: Wsgi, environ: dict[str, Any], send: SendMessage) -> None:
    """Calls the application, and sends its response."""
    head: list[tuple[int, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        head[:] = [(int(status[:3]), headers)]

    response = application({**environ, "wsgi.errors": sys.stderr}, start_response)
    try:
        is_stream = bool(getattr(response, "streaming", False))
        parts = response if is_stream else (b"".join(response),)
        send(HEAD, (*head[0], is_stream))
        for part in parts:
            for start in range(0, len(part), MAX_PART):
                send(BODY, part[start : start + MAX_PART])
    finally:
        getattr(response, "close", lambda: None)()
    send(END, None)


class RequestServer:
    """Receives requests from the parent, one at a time."""

    def __init__(self, pipe: Connection, application: Wsgi) -> None:
        self._pipe = pipe
        self._application = application

    def send(self, kind: str, content: object = None) -> None:
        self._pipe.send((kind, content))

    @contextmanager
    def lending_thread(self) -> Iterator[None]:
        """As in :mod:`historyapp.services.token_counts`: the request waits for a provider within it."""
        self.send(LENT)
        try:
            yield
        finally:
            self.send(RETURNED)

    @with_room_for_calls
    def serve(self, idle_seconds: float, begin: Callable[[float], AbstractContextManager[None]]) -> None:
        """Serves until no request came for ``idle_seconds``.

        Args:
            begin: returns the context of a request, from the seconds that it has waited.
        """
        while self._pipe.poll(idle_seconds):
            environ, length, waited = self._pipe.recv()
            self.send(BEGUN)
            body = BytesIO()
            while body.tell() < length:
                body.write(self._pipe.recv_bytes())
            body.seek(0)
            with begin(waited):
                limit_processor_time(max_processor_seconds(environ))
                carry_out(self._application, {**environ, "wsgi.input": body}, self.send)
                limit_processor_time(0)


def main() -> None:
    pipe = pipe_to_parent(sys.argv[1:])
    from historyapp import meters, wsgi  # first, because it sets up Django
    from historyapp.announcements import announce_changes
    from historyapp.front.request_context import request_context
    from historyapp.models.large_reads import RequestRead
    from historyapp.services.token_counts import lending_thread

    server = RequestServer(pipe, wsgi.application)

    def begin(waited: float) -> AbstractContextManager[None]:
        read = RequestRead(on_write=lambda: server.send(WRITTEN))
        return request_context(read, lambda owner: server.send(OWNER, owner), waited)

    lending_thread.set(server.lending_thread)
    announce_changes()
    meters.forward_to(lambda *count: server.send(COUNT, count))
    try:
        server.serve(float(sys.argv[3]), begin)
    except (EOFError, ConnectionError):
        os._exit(0)


if __name__ == "__main__":
    main()
