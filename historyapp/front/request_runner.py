"""Carries out requests in threads; large ones, and model calls, in other processes."""

import asyncio
import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any, Protocol

from historyapp.core.errors import PlayheadError
from historyapp.front.environ import Wsgi
from historyapp.front.large_requests import count_here
from historyapp.front.limits import KnownClients
from historyapp.front.long_reads import LongReads, ReadOfClient
from historyapp.front.native import Send
from historyapp.front.outbox import IN_MEMORY, MAX_SEND, ClientGone, Head, Outbox
from historyapp.front.pool_names import LARGE_REQUESTS, LONG, SHORT, can_move
from historyapp.front.pools import Client, Pool
from historyapp.front.process_messages import BODY, COUNT, HEAD, OWNER, Message
from historyapp.front.request_context import request_context
from historyapp.models.large_reads import LargeRead, RequestRead, read_for
from historyapp.models.long_rows import MAX_READ

log = logging.getLogger(__name__)

PAUSE, MAX_PAUSE = 0.002, 0.05
"""After each chunk of an export: seconds of one pause while short requests run, and of all pauses."""
CREDENTIAL = "playhead.credential"
"""The key of the request's credential in its WSGI environment."""


class Processes(Protocol):
    def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
        """Yields what another process sends about a request, see
        :func:`historyapp.front.request_process.carry_out`. Closing the generator ends its work.

        Raises:
            PlayheadError: when the request cannot be carried out.
            ClientGone: when the client no longer reads the response.
        """

    def cancel(self) -> None:
        """Cancels the requests that still run when the server has waited for them during its stop."""

    def end(self) -> None:
        """Waits until the cancelled requests have ended."""


class RequestRunner:
    """Calls a WSGI application and sends its responses.

    Args:
        pools: the pools of threads, by name.
        processes: those that carry out the requests of some pools.
        known_clients: learns who sent a request.
    """

    def __init__(
        self,
        application: Wsgi,
        pools: Mapping[str, Pool],
        processes: Mapping[str, Processes],
        known_clients: KnownClients,
    ) -> None:
        self._application = application
        self._pools = pools
        self._processes = processes
        self._known_clients = known_clients
        self._long_reads = LongReads()
        self.sends_from_threads = False
        """Whether the server's ``send()`` can be called in any thread."""

    def submit(self, pool: str, environ: dict[str, Any], outbox: Outbox, send: Send) -> None:
        """Lets a thread of a pool carry out a request. Called in the event loop."""
        if pool == "reads" and self._may_move(pool, environ):
            if owner := self._long_reads.owner_of_moved(_read_of(environ)):
                pool, outbox.client = LARGE_REQUESTS, Client(environ[CREDENTIAL], owner)
            else:
                self._long_reads.start_checks(asyncio.get_running_loop())
        if pool in self._processes:
            run = partial(self._run_in_process, environ, outbox, pool)
        else:
            run = partial(self._run, environ, outbox, send, pool)
        outbox.lending_thread = self._pools[pool].lending_thread
        self._pools[pool].submit(outbox.client, run, outbox.refuse)

    def _run_in_process(self, environ: dict[str, Any], outbox: Outbox, pool: str, waited: float) -> None:
        """Lets another process carry out a request, and sends its response. Runs in a thread."""
        head: Head | None = None
        body: bytearray | None = bytearray()
        try:
            with closing(self._processes[pool].carry_out(environ, outbox, waited)) as messages:
                for kind, content in messages:
                    if kind == OWNER:
                        client = self._known_clients.add(environ[CREDENTIAL], content)
                        if outbox.client.is_stranger:
                            outbox.client = client
                            self._pools[pool].reassign(client, waits=False)
                    elif kind == COUNT:
                        count_here(content)
                    elif kind == HEAD:
                        status, headers, is_stream = content
                        head = _encoded(status, headers)
                        if is_stream:
                            outbox.begin(head)
                            body = None
                    elif kind == BODY and head is not None:
                        body = _buffer(outbox, head, body, content)
        except ClientGone:
            pass
        except PlayheadError as error:
            outbox.end_with_error(error)
        except Exception:
            log.exception("A request failed in another process")
            outbox.failed = True
        self._end(environ, outbox, head, None if body is None else bytes(body))

    def _run(self, environ: dict[str, Any], outbox: Outbox, send: Send, pool: str, waited: float) -> None:
        """Calls the application and sends its response. Runs in a thread."""
        try:
            head, body = self._response(environ, outbox, send, pool, waited)
        except LargeRead:
            outbox.call_in_loop(partial(self.submit, LARGE_REQUESTS, environ, outbox, send))
        else:
            self._end(environ, outbox, head, body)

    def _end(self, environ: dict[str, Any], outbox: Outbox, head: Head | None, body: bytes | None) -> None:
        environ["wsgi.input"].close()
        if head and head[0] == 401:  # a key that was valid before
            self._known_clients.remove(environ[CREDENTIAL])
        # The event loop is woken once, at the end. Earlier it would compete with this thread.
        outbox.end(head, body)

    def _response(
        self, environ: dict[str, Any], outbox: Outbox, send: Send, pool: str, waited: float
    ) -> tuple[Head | None, bytes | None]:
        """Calls the application. Returns the head, and the body if it is not sent yet."""
        is_transfer = pool == "transfers"
        started: list[Head] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started[:] = [_encoded(int(status[:3]), headers)]

        response: Iterable[bytes] = ()
        body: bytes | None = None
        count_for = partial(self._count_for, pool, environ[CREDENTIAL], outbox)
        read = RequestRead(may_move=self._may_move(pool, environ), on_owner=count_for)
        notify = partial(self._learn_owner, self._pools[pool], environ[CREDENTIAL])
        max_read = None if is_transfer else MAX_READ
        with request_context(read, notify, waited, is_long=pool in LONG, max_read=max_read):
            try:
                if pool == "reads" and read.may_move:
                    response = self._called_in_time(environ, start_response, read)
                else:
                    response = self._application(environ, start_response)
                read.may_move, read.on_owner = False, None
                if getattr(response, "streaming", False):
                    read.end()
                    outbox.begin(started[0])
                    for piece in _join_chunks(response) if is_transfer else response:
                        outbox.write(piece)
                        if is_transfer:
                            outbox.wait_for_loop(MAX_PAUSE)
                            self._yield_to_short_requests()
                else:
                    body = b"".join(response)
                    outbox.subscription = getattr(response, "subscription", None)
                    if outbox.subscription is not None:
                        pass  # the event loop sends the events
                    elif len(body) > IN_MEMORY:
                        outbox.begin(started[0])
                        outbox.write(body)  # to a file, so that a slow reader holds no memory
                        body = None
                    elif self.sends_from_threads and len(body) <= MAX_SEND:
                        outbox.sent = True
                        _send_at_once(send, started[0], body)
            except ClientGone:
                pass
            except Exception:
                log.exception("A response failed")
                outbox.failed = True
            finally:
                with suppress(Exception):
                    getattr(response, "close", lambda: None)()
        return started[0] if started else None, body

    def _called_in_time(
        self, environ: dict[str, Any], start_response: Any, read: RequestRead
    ) -> Iterable[bytes]:
        """Calls the application, for a limited processor time.

        Raises:
            LargeRead: when the request starts again in another process.
        """
        watched = self._long_reads.begin(read)
        if watched is None:
            return self._application(environ, start_response)
        try:
            try:
                return self._application(environ, start_response)
            finally:
                self._long_reads.end(watched)
        except LargeRead:  # perhaps raised by the watch, and then anywhere
            self._long_reads.end_interrupted(watched, _read_of(environ))
            raise

    def _may_move(self, pool: str, environ: dict[str, Any]) -> bool:
        return pool in SHORT and LARGE_REQUESTS in self._processes and can_move(environ)

    def _learn_owner(self, pool: Pool, credential: bytes, owner: bytes) -> None:
        """Counts the request of this thread for the owner of its credential, not for its address."""
        pool.reassign(self._known_clients.add(credential, owner))
        read_for(owner)

    def _count_for(self, pool: str, credential: bytes, outbox: Outbox, owner: bytes) -> None:
        """Counts the bytes of a response that nobody reads yet, and the threads of exports and imports, for
        the project that is read. Otherwise each of its members could use as many as all of its keys."""
        outbox.client = Client(credential, owner)
        if pool == "transfers":
            self._pools[pool].reassign(outbox.client)

    def _yield_to_short_requests(self) -> None:
        """Lets short requests run first: Python runs one thread at a time."""
        end = time.monotonic() + MAX_PAUSE
        while any(self._pools[name].is_busy for name in SHORT) and time.monotonic() < end:
            time.sleep(PAUSE)


def _read_of(request: Mapping[str, Any]) -> ReadOfClient:
    path: str = request["PATH_INFO"]
    return request[CREDENTIAL], f"{path}?{request['QUERY_STRING']}" if path.startswith("/s/") else path


def _encoded(status: int, headers: list[tuple[str, str]]) -> Head:
    return status, [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def _buffer(outbox: Outbox, head: Head, body: bytearray | None, piece: bytes) -> bytearray | None:
    """Adds a piece to a body. Once it is long, the outbox gets it, and the result is None."""
    if body is not None:
        body += piece
        if len(body) <= IN_MEMORY:
            return body
        outbox.begin(head)
        piece = bytes(body)
    outbox.write(piece)
    return None


def _send_at_once(send: Send, head: Head, body: bytes) -> None:
    """Sends a response in this thread, so that the client does not wait for the event loop."""
    status, headers = head
    send({"type": "http.response.start", "status": status, "headers": headers})
    send({"type": "http.response.body", "body": body})


def _join_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Joins small chunks, because each sent chunk wakes the event loop."""
    gathered: list[bytes] = []
    size = 0
    for chunk in chunks:
        gathered.append(chunk)
        size += len(chunk)
        if size >= MAX_SEND:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)
