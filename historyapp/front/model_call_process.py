"""The process that carries out model calls: ``python -m historyapp.front.model_call_process PIPE PARENT
IDLE_SECONDS``.

Each model call has a thread of its own, which mostly waits for a provider, and a pipe of its own to the web
process. When the client has closed its connection, the web process closes the pipe, and the next part of the
response cancels the call. See :mod:`historyapp.front.model_calls` for the parent.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from io import BytesIO
from multiprocessing.connection import Connection
from typing import Any

from historyapp.child import pipe_to_parent, receive_descriptor
from historyapp.front.connections import close_connection
from historyapp.front.environ import Wsgi
from historyapp.front.process_messages import BEGUN, COUNT, FAILED, OWNER
from historyapp.front.request_process import SendMessage, carry_out
from historyapp.processes import CANCEL_SECONDS
from historyapp.services.connections import limited_connections, set_owner
from historyapp.services.leaving_clients import has_client_left

log = logging.getLogger(__name__)

send_of_call: ContextVar[SendMessage | None] = ContextVar("send_of_call", default=None)
"""Sends a message about the model call of this thread."""


class ModelCallServer:
    """Starts a thread for each model call that the parent sends.

    Args:
        begin: returns the context of a model call, from how it sends messages and how long it has waited.
    """

    def __init__(
        self, application: Wsgi, begin: Callable[[SendMessage, float], AbstractContextManager[None]]
    ) -> None:
        self._application = application
        self._begin = begin
        self._calls = 0
        self._lock = threading.Lock()

    def serve(self, pipe: Connection, idle_seconds: float) -> None:
        """Serves until there was no model call for ``idle_seconds``, or the parent has closed the pipe and
        all model calls have ended."""
        with suppress(EOFError, ConnectionError):
            while pipe.poll(idle_seconds) or self._calls:
                if pipe.poll():
                    self._receive(pipe)
        while self._calls:
            time.sleep(0.1)

    def _receive(self, pipe: Connection) -> None:
        """Starts the next model call. If it cannot be started, the parent notices that its pipe is closed."""
        environ, body, owner, waited = pipe.recv()
        descriptor = receive_descriptor(pipe)
        if descriptor is None:
            log.error("A model call cannot be started: the process has too many open files.")
            return
        own = Connection(descriptor)
        request = {**environ, "wsgi.input": BytesIO(body)}
        with self._lock:
            self._calls += 1
        try:
            threading.Thread(target=self._call, args=(own, request, owner, waited), daemon=True).start()
        except RuntimeError:
            log.exception("A model call cannot be started")
            own.close()
            with self._lock:
                self._calls -= 1

    def _call(self, pipe: Connection, environ: dict[str, Any], owner: Hashable, waited: float) -> None:
        def send(kind: str, content: object = None) -> None:
            pipe.send((kind, content))

        send_of_call.set(send)
        has_client_left.set(pipe.poll)  # the parent sends nothing: it only closes the pipe
        try:
            with pipe, suppress(BrokenPipeError, ConnectionResetError):
                send(BEGUN)
                try:
                    with limited_connections(owner), self._begin(send, waited):
                        carry_out(self._application, environ, send)
                except (BrokenPipeError, ConnectionResetError):
                    raise
                except Exception:
                    log.exception("A model call failed")
                    send(FAILED)
        finally:
            close_connection()
            with self._lock:
                self._calls -= 1


def begin_call(send: SendMessage, waited: float) -> AbstractContextManager[None]:
    """The context of a model call, in which it waits for a slot once its key is known."""
    from historyapp.front.request_context import request_context
    from historyapp.services.model_call_slots import ModelCallRead

    read = ModelCallRead()

    def notify(owner: bytes) -> None:
        set_owner(owner)
        with suppress(OSError):  # the client has left, which the next part of the response finds
            send(OWNER, owner)
        read.begin(owner)

    return request_context(read, notify, waited, is_long=True)


def _count(*count: object) -> None:
    if send := send_of_call.get():
        with suppress(OSError):
            send(COUNT, count)


def pipe_to_web_process() -> Connection:
    """As :func:`pipe_to_parent`. When the web process has ended, for any reason, the pipes of all calls are
    closed, and each call has a moment to end its reservation and its ``Idempotency-Key``."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return pipe_to_parent(sys.argv[1:], CANCEL_SECONDS)


def main() -> None:
    pipe = pipe_to_web_process()
    from historyapp import meters, wsgi  # first, because it sets up Django
    from historyapp.announcements import announce_changes
    from historyapp.front.interpreter import tune_interpreter

    announce_changes()
    meters.forward_to(_count)
    tune_interpreter()
    ModelCallServer(wsgi.application, begin_call).serve(pipe, float(sys.argv[3]))
    os._exit(0)


if __name__ == "__main__":
    main()
