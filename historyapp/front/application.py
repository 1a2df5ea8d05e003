"""The ASGI application: it waits for clients in the event loop, and runs WSGI handlers in threads.

A request gets a thread when its body has arrived, and returns the thread before the client has read the
response. So a stalled client does not slow other clients.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from types import MappingProxyType
from typing import IO

from historyapp.announcements import announce_changes, listen
from historyapp.core.errors import PlayheadError
from historyapp.event_streams import Subscription
from historyapp.front.all_pools import KEYS, make_pools
from historyapp.front.attempts import PasswordAttempts
from historyapp.front.bodies import BodyRoom, Receive, length_of, max_bytes, read_body
from historyapp.front.deadlines import Deadlines
from historyapp.front.environ import Scope, Wsgi, check_head, environ_of, headers_of
from historyapp.front.interpreter import tune_interpreter
from historyapp.front.limits import (
    Clients,
    KnownClients,
    Limits,
    client_of,
    credential_of,
    known_at,
    strangers_at,
)
from historyapp.front.native import NATIVE, Send, error_response
from historyapp.front.outbox import MAX_SEND, Head, Outbox
from historyapp.front.pool_names import CALLS, KNOWN_DEVICES, LONG, PASSWORDS, pool_name
from historyapp.front.pools import Client
from historyapp.front.request_runner import CREDENTIAL, Processes, RequestRunner
from historyapp.front.sockets import Connections, peer_of
from historyapp.front.strangers import Strangers
from historyapp.front.streams import Streams
from historyapp.front.unread import UnreadBytes
from historyapp.meters import count_request
from historyapp.network import network_of
from historyapp.processes import REQUEST_SECONDS
from historyapp.services.changes import on_change
from historyapp.services.devices import known_device
from historyapp.wire.problems import HeadTooLarge, TooManyRequests

log = logging.getLogger(__name__)

REFUSED_SECONDS = 1.0
"""A stranger gets 429, and anybody 431, after this time. Otherwise hundreds of connections could repeat
refused requests as fast as the event loop answers.
"""
REFUSED = "refused"
"""The route of refused requests in ``/metrics``: their paths are not resolved."""


@dataclass(slots=True)
class StreamStart:
    """The start of a stream of events."""

    head: Head
    text: bytes
    subscription: Subscription


class Front:
    """Serves a WSGI application.

    Args:
        threads: the number of threads of the pool for reads, and of the pool for writes. Each of the two
            pools has as many spare threads.
        processes: the processes that carry out the requests of some pools, by the pool's name.
    """

    def __init__(
        self,
        application: Wsgi,
        limits: Limits,
        threads: int,
        processes: Mapping[str, Processes] = MappingProxyType({}),
    ) -> None:
        self._processes = processes.values()
        self._limits = limits
        self._deadlines = Deadlines()
        self.clients = Clients(limits)
        self.known_clients = KnownClients()
        self._unread = UnreadBytes(limits)
        self._bodies = BodyRoom(limits)
        self._connections: Connections | None = None
        self._streams = Streams()
        on_change(self._streams.wake)
        self._attempts = PasswordAttempts()
        self._pools = make_pools(threads, limits.queue_seconds, self._attempts)
        self._runner = RequestRunner(application, self._pools, processes, self.known_clients)
        self._strangers = Strangers(self.known_clients, self._pools[KEYS], limits.queue_seconds)

    @property
    def is_busy(self) -> bool:
        """Whether a request has a thread or waits for one."""
        return any(pool.is_busy for pool in self._pools.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            if self._connections is None:
                self._connections = self._prepare(send)
            scope["method"] = scope["method"].upper()  # as Django reads it
            if native := NATIVE.get(scope["path"]):
                await native(scope, receive, send)
            else:
                await self._handle(scope, receive, send, self._connections)

    def _prepare(self, send: Send) -> Connections:
        """Sets up what needs a listening server. Called at the first request."""
        tune_interpreter()
        announce_changes()
        listen(self._streams.wake)
        # granian's send() takes effect when called, in any thread. Other servers' send() must be awaited.
        self._runner.sends_from_threads = (
            type(getattr(send, "__self__", None)).__module__ == "granian._granian"
        )
        return Connections(self._limits.stall_seconds, self._limits.client_connections)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Handles the stop signal: the server waits for open requests before ``lifespan.shutdown``."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # granian's own event loop is notified of the signal in another way.
            with suppress(ValueError):  # not in the main thread
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._stop))
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                for process in self._processes:
                    await asyncio.to_thread(process.end)
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    def _stop(self) -> None:
        self._deadlines.stop()
        self._strangers.stop()
        self._streams.stop()
        for process in self._processes:
            asyncio.get_running_loop().call_later(REQUEST_SECONDS, process.cancel)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, connections: Connections) -> None:
        started = time.perf_counter()
        headers = headers_of(scope)
        peer = peer_of(scope)
        connections.busy.add(peer)
        is_stranger = False
        try:
            check_head(scope)
            length = length_of(headers)
            cookies, authorization = headers.get(b"cookie", b""), headers.get(b"authorization", b"")
            name = pool_name(scope["method"], scope["path"], cookies, length)
            network = network_of(peer[0])
            strangers = strangers_at(network, name)
            client = client_of(scope["path"], authorization, strangers)
            credential = credential_of(client, scope["path"], cookies)
            holder = self._holder(name, credential, network, cookies)
            refusal = None
            if is_stranger := holder.is_stranger:
                with self.clients.admitted(client, strangers):
                    refusal = await self._strangers.admit(
                        scope["path"], authorization, credential, network, pool=name
                    )
                holder = self._holder(name, credential, network, cookies)
                is_stranger = holder.is_stranger
            share = (client, strangers) if is_stranger else (holder.id, known_at(network))
            with self.clients.admitted(*share, size=length, is_long=name in LONG):
                max_length = max_bytes(scope["path"], headers.get(b"content-type", b""), self._limits)
                kept = length if length <= max_length and refusal is None else 0
                with self._bodies.reserve(kept) as in_memory:
                    body: IO[bytes] = BytesIO()
                    if length:
                        read = partial(read_body, in_memory=in_memory, keep=refusal is None)
                        body = await read(length, max_length, receive, self._limits, self._deadlines)
                    if refusal is not None:
                        raise refusal
                    outbox = Outbox(asyncio.get_running_loop(), self._unread, holder)
                    environ = environ_of(scope, headers, body)
                    environ[CREDENTIAL] = credential
                    if name == PASSWORDS:
                        self._attempts.add(network.encode())
                    self._runner.submit(name, environ, outbox, send)
                    stream_start = await self._respond(
                        outbox, scope, receive, send, watches_early=name == CALLS
                    )
            if stream_start is not None:
                with self.clients.streaming(*share):
                    await self._send_events(stream_start, scope, receive, send)
        except PlayheadError as error:
            if isinstance(error, HeadTooLarge) or (isinstance(error, TooManyRequests) and is_stranger):
                await asyncio.sleep(REFUSED_SECONDS)
            head, content = error_response(scope["path"], headers, error)
            count_request(scope["method"], REFUSED, head[0], time.perf_counter() - started)
            await self._send(scope, send, head, content)
        finally:
            connections.busy.discard(peer)

    def _holder(self, pool: str, credential: bytes, network: str, cookies: bytes) -> Client:
        if pool == KNOWN_DEVICES and (device := known_device(cookies)):
            return Client(device.id.encode(), device.account.encode())
        return self.known_clients.holder(credential, network)

    async def _respond(
        self, outbox: Outbox, scope: Scope, receive: Receive, send: Send, *, watches_early: bool
    ) -> StreamStart | None:
        """Sends the response. Returns the start of a stream of events instead of sending it.

        Args:
            watches_early: whether a client that leaves before the response begins ends the work for it.
        """
        watch: asyncio.Task[None] | None = None
        try:
            if watches_early:
                watch = asyncio.create_task(_call_when_closed(receive, outbox.stop_reading))
            head = await outbox.head
            if head is None:
                return None
            if outbox.body is not None:
                if outbox.subscription is not None and scope["method"] != "HEAD":
                    return StreamStart(head, outbox.body, outbox.subscription)
                await self._send(scope, send, head, outbox.body)
                return None
            watch = watch or asyncio.create_task(_call_when_closed(receive, outbox.stop_reading))
            await self._stream(scope, send, head, outbox)
        finally:
            if watch is not None:
                watch.cancel()
            outbox.stop_reading()
        return None

    async def _send_events(self, start: StreamStart, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends a stream of events until the client closes it or loses access."""
        status, headers = start.head
        headers = [header for header in headers if header[0] != b"content-length"]
        with self._streams.open_stream(start.subscription) as stream:
            watch = asyncio.create_task(_call_when_closed(receive, stream.end))
            try:
                await send({"type": "http.response.start", "status": status, "headers": headers})
                piece, start.text = start.text, b""
                texts = self._streams.texts(stream)
                while await self._send_piece(scope, send, piece):
                    piece = b""  # a stream may wait for hours, and there may be thousands
                    text = await anext(texts, None)
                    if text is None or watch.done():
                        await send({"type": "http.response.body", "body": b""})
                        return
                    piece, text = text.encode(), ""
            finally:
                watch.cancel()

    async def _send(self, scope: Scope, send: Send, head: Head, body: bytes) -> None:
        """Sends a complete response. The connection is closed if the reader stalls."""
        status, headers = head
        await send({"type": "http.response.start", "status": status, "headers": headers})
        pieces = [body[n : n + MAX_SEND] for n in range(0, len(body), MAX_SEND)] or [b""]
        for piece in pieces[:-1]:
            if not await self._send_piece(scope, send, piece):
                return
        await send({"type": "http.response.body", "body": pieces[-1]})

    async def _stream(self, scope: Scope, send: Send, head: Head, outbox: Outbox) -> None:
        status, headers = head
        await send({"type": "http.response.start", "status": status, "headers": headers})
        while piece := await outbox.read():
            if not await self._send_piece(scope, send, piece):
                return
        if outbox.failed:
            await self._close(scope)
        await send({"type": "http.response.body", "body": b""})

    async def _send_piece(self, scope: Scope, send: Send, piece: bytes) -> bool:
        """Returns False and closes the connection if the client does not read in time."""
        wait = self._deadlines.begin(self._limits.stall_seconds)
        try:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        except asyncio.CancelledError:
            if not wait.expired:
                raise
            wait.task.uncancel()
            await self._close(scope)
            return False
        finally:
            self._deadlines.end(wait)
        return True

    async def _close(self, scope: Scope) -> None:
        """Closes the connection and waits until it is closed: if the server could still send the end of the
        response, a part of it would look complete."""
        if self._connections:
            await asyncio.wait([self._connections.close(peer_of(scope))])


async def _call_when_closed(receive: Receive, end: Callable[[], object]) -> None:
    """Calls a function when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    end()
