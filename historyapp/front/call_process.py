"""The process that carries out model calls: ``python -m historyapp.front.call_process PIPE PARENT
IDLE_SECONDS``.

Each model call has a thread of its own, which mostly waits for a provider, and a pipe of its own to the web
process. When the client has closed its connection, the web process closes the pipe, and the next piece of the
response cancels the call. See :mod:`historyapp.front.calls` for the parent.
"""

import os
import sys
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from io import BytesIO
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

from historyapp.child import pipe_to_parent
from historyapp.front.connections import close_connection
from historyapp.front.request_process import Send, Wsgi, carry_out
from historyapp.services.connections import limited_connections, set_owner

send_of_call: ContextVar[Send | None] = ContextVar("send_of_call", default=None)
"""Sends a message about the call of this thread."""


class CallServer:
    """Starts a thread for each model call that the parent sends.

    Args:
        begin: called by the thread before the call, with how it sends messages and how long it has waited.
    """

    def __init__(self, application: Wsgi, begin: Callable[[Send, float], None]) -> None:
        self._application = application
        self._begin = begin
        self._calls = 0
        self._lock = threading.Lock()

    def serve(self, pipe: Connection, idle_seconds: float) -> None:
        """Serves until there was no call for ``idle_seconds``."""
        while pipe.poll(idle_seconds) or self._calls:
            if not pipe.poll():
                continue
            environ, body, owner, waited = pipe.recv()
            own = Connection(recv_handle(pipe))
            with self._lock:
                self._calls += 1
            call = environ | {"wsgi.input": BytesIO(body)}
            threading.Thread(target=self._call, args=(own, call, owner, waited), daemon=True).start()

    def _call(self, pipe: Connection, environ: dict[str, Any], owner: Hashable, waited: float) -> None:
        def send(kind: str, content: object = None) -> None:
            pipe.send((kind, content))

        send_of_call.set(send)
        try:
            with pipe, suppress(BrokenPipeError, ConnectionResetError):
                send("begun")
                with limited_connections(owner):
                    self._begin(send, waited)
                    carry_out(self._application, environ, send)
        finally:
            close_connection()
            with self._lock:
                self._calls -= 1


def begin_call(send: Send, waited: float) -> None:
    """Sets what the threads of the web process set before a request."""
    from historyapp.models.large_reads import RequestRead, read_for, request_read
    from historyapp.models.long_rows import MAX_READ, bytes_left
    from historyapp.services.keys import on_credential
    from historyapp.services.transactions import is_long_request, queued_seconds

    def notify(owner: bytes) -> None:
        set_owner(owner)
        read_for(owner)
        with suppress(OSError):  # the client has left, which the next piece of the response finds
            send("owner", owner)

    queued_seconds.set(waited)
    is_long_request.set(True)
    bytes_left.set(MAX_READ)
    request_read.set(RequestRead())
    on_credential.set(notify)


def _count(*count: object) -> None:
    if send := send_of_call.get():
        with suppress(OSError):
            send("count", count)


def main() -> None:
    pipe = pipe_to_parent(sys.argv[1:])
    from historyapp import meters, wsgi  # first, because it sets up Django
    from historyapp.announcements import announce_changes
    from historyapp.front.interpreter import tune_interpreter

    announce_changes()
    meters.forward_to(_count)
    tune_interpreter()
    with suppress(EOFError, ConnectionError):
        CallServer(wsgi.application, begin_call).serve(pipe, float(sys.argv[3]))
    os._exit(0)


if __name__ == "__main__":
    main()
