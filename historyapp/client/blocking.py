"""The client that blocks."""

import time
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from historyapp.client import wire
from historyapp.client.answers import Page
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
from historyapp.client.retrying import Outcome

P = ParamSpec("P")
T = TypeVar("T")


def _answered(describe: Callable[P, Call[T]]) -> Callable[Concatenate["Playhead", P], T]:
    @wraps(describe)
    def method(self: "Playhead", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.carry_out(describe(*args, **kwargs))

    return wire.as_method(method)


def _paged(describe: Callable[P, Pages[T]]) -> Callable[Concatenate["Playhead", P], Iterator[T]]:
    @wraps(describe)
    def method(self: "Playhead", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._items(describe(*args, **kwargs))

    return wire.as_method(method, Iterator)


def _streamed(describe: Callable[P, Stream[T]]) -> Callable[Concatenate["Playhead", P], Iterator[T]]:
    @wraps(describe)
    def method(self: "Playhead", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._received(describe(*args, **kwargs))

    return wire.as_method(method, Iterator)


class Playhead:
    """A Playhead server, as one API key may use it. Threads may share it; close it, or use it in a ``with``.

    Failed requests are sent again where that may help: lost connections, 429 and 503 after the pause that the
    server asks for, other 5xx. Nothing is recorded twice.

    Args:
        base_url: scheme, host and port, as in ``http://127.0.0.1:8000``.
        api_key: ``ph_…``
        timeout: seconds to wait for the server to connect, take or say something.
        attempts: how often a request is sent at most.
        transport: for proxies, certificates and tests.

    Raises:
        PlayheadError: from every method; see :mod:`historyapp.client.errors`.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 30.0,
        attempts: int = 6,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._attempts = attempts
        self._http = httpx.Client(
            base_url=wire.api_url(base_url),
            headers=wire.headers(api_key),
            timeout=timeout,
            transport=transport,
        )

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

    def carry_out(self, call: Call[T]) -> T:
        """What a described call answers."""
        return wire.value_of(call, self._send(call))

    def wait_for_compression(
        self, session_id: Id, run_id: Id, *, timeout: float | None = None
    ) -> CompressionRun:
        """The run once it has ended, however it did: see its ``state``, ``note`` and ``errors``.

        Args:
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            TimeoutError: when it is still under way then; it goes on.
        """
        pauses = wire.pauses(timeout)
        while (run := self.compression(session_id, run_id)).active:
            time.sleep(next(pauses))
        return run

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url.copy_with(userinfo=b''))!r})"

    def _items(self, pages: Pages[T]) -> Iterator[T]:
        call: Call[Page[T]] | None = pages.first
        while call is not None:
            page = self.carry_out(call)
            yield from page.items
            call = pages.after(page)

    def _received(self, stream: Stream[T]) -> Iterator[T]:
        response, decoder = self._send(stream.call, stream=True), stream.decoder()
        try:
            for chunk in response.iter_bytes():
                yield from decoder.feed(chunk)
            decoder.finish()
        except httpx.RequestError as error:
            raise wire.unavailable(error, stream.call) from error
        finally:
            response.close()

    def _send(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        request = wire.request_of(self._http, call)
        attempt = 0
        while True:
            attempt += 1
            outcome: Outcome
            try:
                outcome = response = self._http.send(request, stream=stream)
                if not response.is_success:
                    response.read()
            except httpx.RequestError as error:
                outcome = error
            pause = wire.pause_after(outcome, attempt, self._attempts, call)
            if pause is None:
                return wire.settled(outcome, call)
            time.sleep(pause)
