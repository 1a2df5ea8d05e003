"""The blocking client."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import httpx

from historyapp.client import deadline, http_messages, spooled_writes
from historyapp.client.api_call import ApiCall, Id, LiveStream, Pages, Stream
from historyapp.client.api_methods import ApiMethods
from historyapp.client.http_messages import ServerConnection
from historyapp.client.outage import OnOutage, retry_limit_of
from historyapp.client.retrying import QUICK_ATTEMPTS, Attempts, Outcome, RetryLimit, is_outage
from historyapp.client.spool import Spool, Write
from historyapp.client.spool_sender import Sender
from historyapp.wire.base import Page
from historyapp.wire.compressions import RunOut

T = TypeVar("T")


class Playhead(ApiMethods, ServerConnection[httpx.Client]):
    """A Playhead server, as one API key may use it. Threads may share it; close it, or use it in a ``with``.

    Failed requests are retried if that may help, and nothing is recorded twice.

    Args:
        base_url: scheme, host and port, as in ``http://127.0.0.1:8000``.
        api_key: ``ph_…``
        timeout: seconds that one attempt may take, from looking up the address to the end of the response.
            A stream may take longer in total, but no pause in it may.
        on_outage: what API calls do while the server cannot be reached: ``"wait"`` for it, ``"spool"`` writes
            to a file that is sent later, or ``"raise"``; :class:`Wait`, :class:`Spool` and :class:`Raise`
            have settings.
        transport: for proxies, certificates and tests. Your own transport must enforce time limits itself.

    Raises:
        PlayheadError: from every method; see :mod:`historyapp.client.errors`.
        ValueError: from the constructor, when an argument is wrong.
    """

    _RETURNS: ClassVar[Any] = None
    _RETURNS_LIST: ClassVar[Any] = Iterator

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        on_outage: OnOutage = "wait",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        options = http_messages.client_options(base_url, api_key, timeout)
        super().__init__(httpx.Client(transport=transport, **options), timeout, on_outage)
        self._sender = None
        deadline.bound(self._http)
        if isinstance(self._outage, Spool):
            self._sender = Sender(
                self._outage,
                self._server,
                lambda write, seconds: self._attempt(*self._attempt_of(write, seconds)),
            )
            self._sender.start()

    def execute(self, api_call: ApiCall[T]) -> T:
        """Sends an API call and returns its response. While writes wait in the spool, new ones join them."""
        sender, spooled = self._sender, api_call.spooled
        if sender is None or spooled is None:
            return http_messages.parse_response(api_call, self._send(api_call), self._server)
        api_call = spooled_writes.with_times(api_call)
        request = http_messages.request_of(self._http, api_call)
        if not sender.spool.first(self._server):
            retry_limit = RetryLimit(sender.spool.patience, QUICK_ATTEMPTS)
            outcome, attempts = self._deliver(api_call, request, retry_limit)
            if not is_outage(outcome):
                response = http_messages.checked(outcome, api_call, attempts, self._server)
                return http_messages.parse_response(api_call, response, self._server)
        key = request.headers["Idempotency-Key"]
        sender.put(Write(self._server, api_call.path, key, request.content))
        return spooled()

    def flush(self, timeout: float = 60.0) -> int:
        """Sends the writes in the spool as soon as the server is back. Returns how many writes still wait.

        Args:
            timeout: the maximum time in seconds.
        """
        if self._sender is None:
            return 0
        self._sender.send_all(RetryLimit(timeout))
        return self._sender.spool.waiting(self._server)

    def wait_for_compression(self, session_id: Id, run_id: Id, *, timeout: float | None = None) -> RunOut:
        """Waits until the run has succeeded or failed: see its ``state``, ``note`` and ``errors``.

        Args:
            timeout: seconds to wait; None: no limit.

        Raises:
            TimeoutError: when the run has not ended within ``timeout``. The run continues.
        """
        pauses = http_messages.pauses(timeout)
        while (run := self.compression(session_id, run_id)).active:
            time.sleep(next(pauses))
        return run

    def close(self) -> None:
        """Closes all connections. Writes in the spool stay there; see :meth:`flush`."""
        if self._sender is not None:
            self._sender.stop(self._http.close)
        else:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _items(self, source: Pages[T] | Stream[T] | LiveStream[T]) -> Iterator[T]:
        if isinstance(source, Pages):
            api_call: ApiCall[Page[T]] | None = source.first
            while api_call is not None:
                page = self.execute(api_call)
                yield from page.items
                api_call = source.after(page)
            return
        if isinstance(source, LiveStream):
            yield from self._follow(source)
            return
        response, decode = self._send(source.api_call, stream=True), source.decoder()
        try:
            for chunk in response.iter_bytes():
                yield from decode(chunk)
            yield from decode(None)
        except httpx.RequestError as error:
            raise http_messages.unavailable(error, source.api_call, self._server) from error
        finally:
            response.close()

    def _follow(self, stream: LiveStream[T]) -> Iterator[T]:
        reader = stream.reader()
        while True:
            response = self._send(reader.resume_request(stream.first), stream=True)
            try:
                for chunk in response.iter_bytes():
                    yield from reader.feed(chunk)
            except httpx.RequestError:
                pass  # the next connection continues after the last event
            finally:
                response.close()
            time.sleep(http_messages.RECONNECT_SECONDS)

    def _send(self, api_call: ApiCall[Any], *, stream: bool = False) -> httpx.Response:
        request = http_messages.request_of(self._http, api_call)
        retry_limit = retry_limit_of(self._outage, self._timeout)
        sender = self._sender
        if sender and sender.spool.first(self._server) is not None:
            started = time.monotonic()
            if reason := sender.send_all(retry_limit):
                raise spooled_writes.not_spoolable(sender.spool, self._server, reason, api_call)
            retry_limit = replace(retry_limit, seconds=retry_limit.seconds - (time.monotonic() - started))
        outcome, attempts = self._deliver(api_call, request, retry_limit, stream=stream)
        return http_messages.checked(outcome, api_call, attempts, self._server)

    def _deliver(
        self, api_call: ApiCall[Any], request: httpx.Request, retry_limit: RetryLimit, *, stream: bool = False
    ) -> tuple[Outcome, Attempts]:
        """Sends a request until its outcome is final."""
        attempts = Attempts(api_call, self._timeout, retry_limit)
        while True:
            outcome = self._attempt(api_call, request, attempts.limit, stream=stream)
            pause = attempts.pause_after(outcome)
            if pause is None:
                return outcome, attempts
            time.sleep(pause)

    def _attempt(
        self, api_call: ApiCall[Any], request: httpx.Request, seconds: float, *, stream: bool = False
    ) -> Outcome:
        http_messages.limit_attempt(request, api_call, seconds)
        try:
            with deadline.limit(seconds):
                response = self._http.send(request, stream=stream)
                if not response.is_success:
                    response.read()
                return response
        except httpx.RequestError as error:
            return error
