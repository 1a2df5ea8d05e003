"""Model calls are carried out by a process of their own, so that nothing that a provider sends can stop the
web process: it only passes the responses on."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from historyapp.front.messages import UNSENT, Message
from historyapp.front.outbox import ClientGone, Outbox
from historyapp.wire.problems import ServerFailed

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from historyapp.child import Child

MODULE = "historyapp.front.call_process"
ENDED = "The process that carried out the model call has ended. Look into the session before you repeat it."


class CallProcess:
    """The process. It starts with the first call, and ends after ``idle_seconds`` without one."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._child: Child | None = None
        self._lock = threading.Lock()

    def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
        """Sends a call, and yields the messages of :class:`CallServer` about it until its end.

        Raises:
            ClientGone: when the client closes its connection. The call is then cancelled.
            ServerFailed: when the process has ended.
        """
        with closing(self._begin(environ, outbox, waited)) as pipe, outbox.when_abandoned(_shut(pipe)):
            kind = ""
            while kind != "end":
                try:
                    kind, content = pipe.recv()
                except (EOFError, OSError):
                    if outbox.abandoned:
                        raise ClientGone from None
                    raise ServerFailed(ENDED) from None
                yield kind, content

    def stop(self) -> None:
        with self._lock:
            if self._child is not None:
                self._child.stop()
                self._child = None

    def _begin(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> "Connection":
        """Sends a call, if necessary to a new process, and returns the pipe for its messages."""
        from multiprocessing.connection import Connection
        from multiprocessing.reduction import send_handle

        from historyapp.child import Child

        body = environ["wsgi.input"]
        body.seek(0)
        sent = {name: value for name, value in environ.items() if name not in UNSENT}
        request = sent, body.read(), outbox.client.owner, waited
        for _ in range(2):  # a process that was idle may have ended just now
            pipe, other_end = socket.socketpair()
            with other_end, suppress(EOFError, OSError):
                with self._lock:
                    child = self._child = self._child or Child(MODULE, str(self._idle_seconds))
                    child.pipe.send(request)
                    send_handle(child.pipe, other_end.fileno(), child.pid)
                other_end.close()
                call = Connection(pipe.detach())
                call.recv()
                return call
            pipe.close()
            with self._lock:
                if self._child is child:
                    child.stop()
                    self._child = None
        raise ServerFailed(ENDED)


def _shut(pipe: "Connection") -> Callable[[], None]:
    """Returns a function that ends the call's pipe, so that the threads at both ends notice."""

    def shut() -> None:
        with suppress(OSError), socket.socket(fileno=socket.dup(pipe.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    return shut
