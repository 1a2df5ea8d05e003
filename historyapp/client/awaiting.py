"""The client that awaits: the same calls as :class:`historyapp.client.Playhead`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from historyapp.client import spooling, wire
from historyapp.client.answers import Page
from historyapp.client.async_sending import AsyncSender
from historyapp.client.calls import (
    compressing,
    contexts,
    costs,
    model_calls,
    organising,
    reading,
    recording,
    rewinding,
    transfers,
)
from historyapp.client.calls.making import Id
from historyapp.client.compression_answers import CompressionRun
from historyapp.client.description import Call, Pages, Stream
from historyapp.client.outage import OnOutage, outage_of, patience_of
from historyapp.client.retrying import QUICK_ATTEMPTS, Attempts, Outcome, Patience, is_outage
from historyapp.client.spool import Spool, Write

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["AsyncPlayhead", P], T]


def _answered(describe: Callable[P, Call[T]]) -> Method[P, Awaitable[T]]:
    @wraps(describe)
    def method(self: "AsyncPlayhead", /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.carry_out(describe(*args, **kwargs))

    return wire.as_method(method, Awaitable)


def _paged(describe: Callable[P, Pages[T]]) -> Method[P, AsyncIterator[T]]:
    @wraps(describe)
    def method(self: "AsyncPlayhead", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._items(describe(*args, **kwargs))

    return wire.as_method(method, AsyncIterator)


def _streamed(describe: Callable[P, Stream[T]]) -> Method[P, AsyncIterator[T]]:
    @wraps(describe)
    def method(self: "AsyncPlayhead", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._received(describe(*args, **kwargs))

    return wire.as_method(method, AsyncIterator)


class AsyncPlayhead:
    """A Playhead server, as one API key may use it. Close it with ``aclose``, or use it in an ``async with``.

    Arguments and retries are those of :class:`historyapp.client.Playhead`.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        on_outage: OnOutage = "wait",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._timeout = timeout
        self._outage = outage_of(on_outage)
        self._http = httpx.AsyncClient(
            base_url=wire.api_url(base_url),
            headers=wire.headers(api_key),
            timeout=timeout,
            transport=transport,
        )
        self._server = wire.server_of(self._http)
        self._sender = None
        if isinstance(self._outage, Spool):
            self._sender = AsyncSender(self._outage, self._server, self._attempt_spooled)

    create_session = _answered(organising.create_session)
    sessions = _paged(organising.sessions)
    session = _answered(organising.session)
    change_session = _answered(organising.change_session)
    archive_session = _answered(organising.archive_session)
    fork = _answered(organising.fork)

    append = _answered(recording.append)
    register_action = _answered(recording.register_action)
    register_result = _answered(recording.register_result)
    append_step = _answered(recording.append_step)
    entries = _paged(recording.entries)
    entry = _answered(recording.entry)

    episodes = _paged(reading.episodes)
    full_episodes = _paged(reading.full_episodes)
    episode = _answered(reading.episode)
    progress = _answered(reading.progress)
    history = _answered(reading.history)
    messages = _answered(reading.messages)

    context = _answered(contexts.context)
    serve_context = _answered(contexts.serve_context)
    snapshots = _paged(contexts.snapshots)
    snapshot = _answered(contexts.snapshot)
    snapshot_request = _answered(contexts.snapshot_request)
    snapshot_diff = _answered(contexts.snapshot_diff)

    call_model = _streamed(model_calls.call_model)

    ledger = _answered(costs.ledger)
    step_ledgers = _paged(costs.step_ledgers)

    rewind = _answered(rewinding.rewind)
    undo_rewind = _answered(rewinding.undo_rewind)
    rewinds = _paged(rewinding.rewinds)
    summaries = _paged(rewinding.summaries)
    write_summary = _answered(rewinding.write_summary)

    compress = _answered(compressing.compress)
    compressions = _paged(compressing.compressions)
    compression = _answered(compressing.compression)
    cancel_compression = _answered(compressing.cancel_compression)
    retry_compression = _answered(compressing.retry_compression)
    estimate_compression = _answered(compressing.estimate_compression)
    compare = _answered(compressing.compare)
    comparison = _answered(compressing.comparison)

    import_files = _answered(transfers.import_files)
    export = _streamed(transfers.export)

    async def carry_out(self, call: Call[T]) -> T:
        """What a described call answers."""
        if self._sender is not None and call.spooled is not None:
            return await self._record(call, call.spooled, self._sender)
        return wire.value_of(call, await self._send(call), self._server)

    async def flush(self, timeout: float = 60.0) -> int:
        """Sends what waits in the spool, as soon as the server is back. How many writes wait still.

        Args:
            timeout: seconds that this may take.
        """
        if self._sender is None:
            return 0
        await self._sender.send_all(Patience(timeout))
        return await asyncio.to_thread(self._sender.spool.waiting, self._server)

    async def wait_for_compression(
        self, session_id: Id, run_id: Id, *, timeout: float | None = None
    ) -> CompressionRun:
        """The run once it has ended, however it did: see its ``state``, ``note`` and ``errors``.

        Args:
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            TimeoutError: when it is still under way then; it goes on.
        """
        pauses = wire.pauses(timeout)
        while (run := await self.compression(session_id, run_id)).active:
            await asyncio.sleep(next(pauses))
        return run

    async def aclose(self) -> None:
        """Closes all connections. What waits in the spool stays there; see :meth:`flush`."""
        if self._sender is not None:
            await self._sender.stop()
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        if self._sender is not None:
            await self._sender.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url.copy_with(userinfo=b''))!r})"

    async def _items(self, pages: Pages[T]) -> AsyncIterator[T]:
        call: Call[Page[T]] | None = pages.first
        while call is not None:
            page = await self.carry_out(call)
            for item in page.items:
                yield item
            call = pages.after(page)

    async def _received(self, stream: Stream[T]) -> AsyncIterator[T]:
        response, decoder = await self._send(stream.call, stream=True), stream.decoder()
        try:
            async for chunk in response.aiter_bytes():
                for item in decoder.feed(chunk):
                    yield item
            decoder.finish()
        except httpx.RequestError as error:
            raise wire.unavailable(error, stream.call, self._server) from error
        finally:
            await response.aclose()

    async def _record(self, call: Call[T], spooled: Callable[[], T], sender: AsyncSender) -> T:
        """Sends a write, or keeps it behind those that wait."""
        call = spooling.stamped(call)
        request = wire.request_of(self._http, call)
        if await asyncio.to_thread(sender.spool.is_empty, self._server):
            patience = Patience(sender.spool.patience, QUICK_ATTEMPTS)
            outcome, attempts = await self._deliver(call, request, patience)
            if not is_outage(outcome):
                return wire.value_of(call, wire.settled(outcome, call, attempts, self._server), self._server)
        await sender.put(spooling.write_of(request, call, self._server))
        return spooled()

    async def _send(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        request = wire.request_of(self._http, call)
        patience = patience_of(self._outage, self._timeout)
        if self._sender is not None:
            patience = await self._sender.send_first(call, patience)
        outcome, attempts = await self._deliver(call, request, patience, stream=stream)
        return wire.settled(outcome, call, attempts, self._server)

    async def _deliver(
        self, call: Call[Any], request: httpx.Request, patience: Patience, *, stream: bool = False
    ) -> tuple[Outcome, Attempts]:
        """Sends a request until its outcome is final."""
        attempts = Attempts(call, self._timeout, patience)
        while True:
            outcome = await self._attempt(call, request, attempts.limit, stream=stream)
            pause = wire.pause_after(outcome, attempts, call)
            if pause is None:
                return outcome, attempts
            await asyncio.sleep(pause)

    async def _attempt(
        self, call: Call[Any], request: httpx.Request, seconds: float, *, stream: bool = False
    ) -> Outcome:
        wire.limit_attempt(request, call, seconds)
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.send(request, stream=stream)
                if not response.is_success:
                    await response.aread()
                return response
        except httpx.RequestError as error:
            return error
        except TimeoutError:
            return httpx.ReadTimeout("the time for the whole request is over", request=request)

    async def _attempt_spooled(self, write: Write, seconds: float) -> Outcome:
        request = spooling.request_of(self._http, write)
        return await self._attempt(spooling.call_of(write), request, min(seconds, self._timeout))
