"""The process that carries out large requests: ``python -m historyapp.front.request_process PIPE PARENT
IDLE_SECONDS``.

It runs the WSGI application of the web process, one request at a time. The kernel kills it if a request takes
too much processor time. See :mod:`historyapp.front.large_requests` for its parent.
"""

import os
import sys
from collections.abc import Callable, Iterable
from io import BytesIO
from multiprocessing.connection import Connection
from typing import Any

from historyapp.child import limit_processor_time, pipe_to_parent
from historyapp.front.messages import PIECE, SECONDS

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


Send = Callable[[str, object], None]
"""Sends a message of a kind and a content to the parent."""


def carry_out(application: Wsgi, environ: dict[str, Any], send: Send) -> None:
    """Calls the application, and sends its response: ``head``, each ``piece`` and ``end``. ``head`` has the
    status, the headers, and whether the response is a stream."""
    head: list[tuple[int, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        head[:] = [(int(status[:3]), headers)]

    response = application({**environ, "wsgi.errors": sys.stderr}, start_response)
    try:
        is_stream = bool(getattr(response, "streaming", False))
        pieces = response if is_stream else (b"".join(response),)
        send("head", (*head[0], is_stream))
        for piece in pieces:
            for start in range(0, len(piece), PIECE):
                send("piece", piece[start : start + PIECE])
    finally:
        getattr(response, "close", lambda: None)()
    send("end", None)


class RequestServer:
    """Receives requests from the parent, one at a time. It sends ``begun``; ``owner``, who sent the request;
    ``count``, for ``/metrics``; and the response, see :func:`carry_out`.
    """

    def __init__(self, pipe: Connection, application: Wsgi) -> None:
        self._pipe = pipe
        self._application = application

    def send(self, kind: str, content: object = None) -> None:
        self._pipe.send((kind, content))

    def serve(self, idle_seconds: float, begin: Callable[[float], None]) -> None:
        """Serves until no request came for ``idle_seconds``.

        Args:
            begin: called before each request, with the seconds that it has waited.
        """
        while self._pipe.poll(idle_seconds):
            environ, length, waited = self._pipe.recv()
            self.send("begun")
            body = BytesIO()
            while body.tell() < length:
                body.write(self._pipe.recv_bytes())
            body.seek(0)
            begin(waited)
            limit_processor_time(SECONDS)
            carry_out(self._application, {**environ, "wsgi.input": body}, self.send)
            limit_processor_time(0)


def main() -> None:
    pipe = pipe_to_parent(sys.argv[1:])
    from historyapp import meters, wsgi  # first, because it sets up Django
    from historyapp.announcements import announce_changes
    from historyapp.models.long_rows import MAX_READ, bytes_left
    from historyapp.services.keys import on_credential
    from historyapp.services.transactions import queued_seconds

    def begin(waited: float) -> None:
        bytes_left.set(MAX_READ)
        queued_seconds.set(waited)

    server = RequestServer(pipe, wsgi.application)
    announce_changes()
    meters.forward_to(lambda *count: server.send("count", count))
    on_credential.set(lambda owner: server.send("owner", owner))
    try:
        server.serve(float(sys.argv[3]), begin)
    except (EOFError, ConnectionError):
        os._exit(0)


if __name__ == "__main__":
    main()
