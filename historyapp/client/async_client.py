"""The async client, with the same methods as :class:`historyapp.client.Playhead`.

Its loops are those of ``sync_client`` with ``await``. They are written twice on purpose: one form for both
would hide each request and each pause behind a generator. Shared code that never waits is in
``http_messages``, ``retrying`` and ``api_methods``.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import httpx

from historyapp.client import http_messages, spooled_writes
from historyapp.client.api_call import ApiCall, Id, LiveStream, Pages, Stream
from historyapp.client.api_methods import ApiMethods
from historyapp.client.async_spool_sender import AsyncSender
from historyapp.client.http_messages import ServerConnection
from historyapp.client.outage import OnOutage, retry_limit_of
from historyapp.client.retrying import QUICK_ATTEMPTS, Attempts, Outcome, RetryLimit, is_outage
from historyapp.client.spool import Spool, Write
from historyapp.wire.base import Page
from historyapp.wire.compressions import RunOut

T = TypeVar("T")


class AsyncPlayhead(ApiMethods, ServerConnection[httpx.AsyncClient]):
    """A Playhead server, as one API key may use it. Close it with ``aclose``, or use it in an ``async with``.

    Arguments and retries are those of :class:`historyapp.client.Playhead`.
    """

    _RETURNS: ClassVar[Any] = Awaitable
    _RETURNS_LIST: ClassVar[Any] = AsyncIterator

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        on_outage: OnOutage = "wait",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        options = http_messages.client_options(base_url, api_key, timeout)
        super().__init__(httpx.AsyncClient(transport=transport, **options), timeout, on_outage)
        self._sender = None
        if isinstance(self._outage, Spool):
            self._sender = AsyncSender(
                self._outage,
                self._server,
                lambda write, seconds: self._attempt(*self._attempt_of(write, seconds)),
            )

    async def execute(self, api_call: ApiCall[T]) -> T:
        """Sends an API call and returns its response. While writes wait in the spool, new ones join them."""
        sender, spooled = self._sender, api_call.spooled
        if sender is None or spooled is None:
            return http_messages.parse_response(api_call, await self._send(api_call), self._server)
        api_call = spooled_writes.with_times(api_call)
        request = http_messages.request_of(self._http, api_call)
        if not await asyncio.to_thread(sender.spool.first, self._server):
            retry_limit = RetryLimit(sender.spool.patience, QUICK_ATTEMPTS)
            outcome, attempts = await self._deliver(api_call, request, retry_limit)
            if not is_outage(outcome):
                response = http_messages.checked(outcome, api_call, attempts, self._server)
                return http_messages.parse_response(api_call, response, self._server)
        key = request.headers["Idempotency-Key"]
        await sender.put(Write(self._server, api_call.path, key, request.content))
        return spooled()

    async def flush(self, timeout: float = 60.0) -> int:
        """Sends the writes in the spool as soon as the server is back. Returns how many writes still wait.

        Args:
            timeout: the maximum time in seconds.
        """
        if self._sender is None:
            return 0
        await self._sender.send_all(RetryLimit(timeout))
        return await asyncio.to_thread(self._sender.spool.waiting, self._server)

    async def wait_for_compression(
        self, session_id: Id, run_id: Id, *, timeout: float | None = None
    ) -> RunOut:
        """Waits until the run has succeeded or failed: see its ``state``, ``note`` and ``errors``.

        Args:
            timeout: seconds to wait; None: no limit.

        Raises:
            TimeoutError: when the run has not ended within ``timeout``. The run continues.
        """
        pauses = http_messages.pauses(timeout)
        while (run := await self.compression(session_id, run_id)).active:
            await asyncio.sleep(next(pauses))
        return run

    async def aclose(self) -> None:
        """Closes all connections. Writes in the spool stay there; see :meth:`flush`."""
        if self._sender is not None:
            await self._sender.stop()
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        if self._sender is not None:
            await self._sender.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _items(self, source: Pages[T] | Stream[T] | LiveStream[T]) -> AsyncIterator[T]:
        if isinstance(source, Pages):
            api_call: ApiCall[Page[T]] | None = source.first
            while api_call is not None:
                page = await self.execute(api_call)
                for item in page.items:
                    yield item
                api_call = source.after(page)
            return
        if isinstance(source, LiveStream):
            async for item in self._follow(source):
                yield item
            return
        response, decode = await self._send(source.api_call, stream=True), source.decoder()
        try:
            async for chunk in response.aiter_bytes():
                for item in decode(chunk):
                    yield item
            for item in decode(None):
                yield item
        except httpx.RequestError as error:
            raise http_messages.unavailable(error, source.api_call, self._server) from error
        finally:
            await response.aclose()

    async def _follow(self, stream: LiveStream[T]) -> AsyncIterator[T]:
        reader = stream.reader()
        while True:
            response = await self._send(reader.resume_request(stream.first), stream=True)
            try:
                async for chunk in response.aiter_bytes():
                    for item in reader.feed(chunk):
                        yield item
            except httpx.RequestError:
                pass  # the next connection continues after the last event
            finally:
                await response.aclose()
            await asyncio.sleep(http_messages.RECONNECT_SECONDS)

    async def _send(self, api_call: ApiCall[Any], *, stream: bool = False) -> httpx.Response:
        request = http_messages.request_of(self._http, api_call)
        retry_limit = retry_limit_of(self._outage, self._timeout)
        sender = self._sender
        if sender and (await asyncio.to_thread(sender.spool.first, self._server)) is not None:
            started = time.monotonic()
            if reason := await sender.send_all(retry_limit):
                raise await asyncio.to_thread(
                    spooled_writes.not_spoolable, sender.spool, self._server, reason, api_call
                )
            retry_limit = replace(retry_limit, seconds=retry_limit.seconds - (time.monotonic() - started))
        outcome, attempts = await self._deliver(api_call, request, retry_limit, stream=stream)
        return http_messages.checked(outcome, api_call, attempts, self._server)

    async def _deliver(
        self, api_call: ApiCall[Any], request: httpx.Request, retry_limit: RetryLimit, *, stream: bool = False
    ) -> tuple[Outcome, Attempts]:
        """Sends a request until its outcome is final."""
        attempts = Attempts(api_call, self._timeout, retry_limit)
        while True:
            outcome = await self._attempt(api_call, request, attempts.limit, stream=stream)
            pause = attempts.pause_after(outcome)
            if pause is None:
                return outcome, attempts
            await asyncio.sleep(pause)

    async def _attempt(
        self, api_call: ApiCall[Any], request: httpx.Request, seconds: float, *, stream: bool = False
    ) -> Outcome:
        http_messages.limit_attempt(request, api_call, seconds)
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.send(request, stream=stream)
                if not response.is_success:
                    await response.aread()
                return response
        except httpx.RequestError as error:
            return error
        except TimeoutError:
            return httpx.ReadTimeout("the time limit of the whole request has passed", request=request)
