"""The blocking client."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from historyapp.client import deadline, endpoints, http_messages, spooled_writes
from historyapp.client.api_call import ApiCall, Id, LiveStream, Pages, Stream
from historyapp.client.outage import OnOutage, patience_of
from historyapp.client.retrying import QUICK_ATTEMPTS, Attempts, Outcome, RetryLimit, is_outage
from historyapp.client.spool import Spool, Write
from historyapp.client.spool_sender import Sender
from historyapp.wire.base import Page
from historyapp.wire.compressions import RunOut

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["Playhead", P], T]


def _api_method(describe: Callable[P, ApiCall[T]]) -> Method[P, T]:
    return http_messages.as_method(
        describe, lambda self, /, *args, **kwargs: self.execute(describe(*args, **kwargs))
    )


def _listed(describe: Callable[P, Pages[T] | Stream[T] | LiveStream[T]]) -> Method[P, Iterator[T]]:
    return http_messages.as_method(
        describe, lambda self, /, *args, **kwargs: self._items(describe(*args, **kwargs)), Iterator
    )


class Playhead(http_messages.ServerConnection[httpx.Client]):
    """A Playhead server, as one API key may use it. Threads may share it; close it, or use it in a ``with``.

    Failed requests are retried if that may help, and nothing is recorded twice.

    Args:
        base_url: scheme, host and port, as in ``http://127.0.0.1:8000``.
        api_key: ``ph_…``
        timeout: seconds that one attempt may take, from looking up the address to the end of the response.
            A stream may take longer in total, but no pause in it may.
        on_outage: what calls do while the server cannot be reached: ``"wait"`` for it, ``"spool"`` writes to
            a file that is sent later, or ``"raise"``; :class:`Wait`, :class:`Spool` and :class:`Raise` have
            settings.
        transport: for proxies, certificates and tests. A transport of your own must keep time limits itself.

    Raises:
        PlayheadError: from every method; see :mod:`historyapp.client.errors`.
        ValueError: from here, when an argument is wrong.
    """

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

    create_session = _api_method(endpoints.sessions.create_session)
    sessions = _listed(endpoints.sessions.sessions)
    session_facets = _api_method(endpoints.sessions.session_facets)
    session = _api_method(endpoints.sessions.session)
    change_session = _api_method(endpoints.sessions.change_session)
    annotate_session = _api_method(endpoints.sessions.annotate_session)
    archive_session = _api_method(endpoints.sessions.archive_session)
    fork = _api_method(endpoints.sessions.fork)

    append = _api_method(endpoints.entries.append)
    register_action = _api_method(endpoints.entries.register_action)
    register_result = _api_method(endpoints.entries.register_result)
    append_step = _api_method(endpoints.entries.append_step)
    entries = _listed(endpoints.entries.entries)
    entry = _api_method(endpoints.entries.entry)

    episodes = _listed(endpoints.episodes.episodes)
    full_episodes = _listed(endpoints.episodes.full_episodes)
    episode = _api_method(endpoints.episodes.episode)
    recorded_request = _api_method(endpoints.episodes.recorded_request)
    recorded_messages = _listed(endpoints.episodes.recorded_messages)
    origins = _api_method(endpoints.episodes.origins)
    find = _listed(endpoints.finding.find)
    search = _listed(endpoints.searching.search)
    search_suggestions = _api_method(endpoints.searching.search_suggestions)
    saved_searches = _listed(endpoints.saved_searches.saved_searches)
    save_search = _api_method(endpoints.saved_searches.save_search)
    rename_search = _api_method(endpoints.saved_searches.rename_search)
    delete_search = _api_method(endpoints.saved_searches.delete_search)
    progress = _api_method(endpoints.episodes.progress)
    history = _api_method(endpoints.episodes.history)
    messages = _api_method(endpoints.episodes.messages)

    context = _api_method(endpoints.contexts.context)
    serve_context = _api_method(endpoints.contexts.serve_context)
    snapshots = _listed(endpoints.contexts.snapshots)
    snapshot = _api_method(endpoints.contexts.snapshot)
    snapshot_request = _api_method(endpoints.contexts.snapshot_request)
    snapshot_diff = _api_method(endpoints.contexts.snapshot_diff)

    call_model = _listed(endpoints.model_calls.call_model)

    ledger = _api_method(endpoints.ledger.ledger)
    step_ledgers = _listed(endpoints.ledger.step_ledgers)
    overview = _api_method(endpoints.overview.overview)
    figures = _api_method(endpoints.figures.figures)

    rewind = _api_method(endpoints.rewinds.rewind)
    undo_rewind = _api_method(endpoints.rewinds.undo_rewind)
    rewinds = _listed(endpoints.rewinds.rewinds)
    summaries = _listed(endpoints.rewinds.summaries)
    write_summary = _api_method(endpoints.rewinds.write_summary)

    events = _api_method(endpoints.events.events)
    follow_events = _listed(endpoints.events.follow_events)
    follow_session = _listed(endpoints.events.follow_session)

    compare_sessions = _api_method(endpoints.run_comparisons.compare_sessions)
    compared_steps = _listed(endpoints.run_comparisons.compared_steps)

    notes = _listed(endpoints.notes.notes)
    write_note = _api_method(endpoints.notes.write_note)
    delete_note = _api_method(endpoints.notes.delete_note)

    compress = _api_method(endpoints.compressions.compress)
    compressions = _listed(endpoints.compressions.compressions)
    compression = _api_method(endpoints.compressions.compression)
    cancel_compression = _api_method(endpoints.compressions.cancel_compression)
    retry_compression = _api_method(endpoints.compressions.retry_compression)
    estimate_compression = _api_method(endpoints.compressions.estimate_compression)
    compare = _api_method(endpoints.compressions.compare)
    comparison = _api_method(endpoints.compressions.comparison)
    comparison_rows = _listed(endpoints.compressions.comparison_rows)

    project = _api_method(endpoints.projects.project)
    change_project = _api_method(endpoints.projects.change_project)
    caps = _listed(endpoints.projects.caps)
    set_caps = _api_method(endpoints.projects.set_caps)

    what_ifs = _listed(endpoints.what_ifs.what_ifs)
    save_what_if = _api_method(endpoints.what_ifs.save_what_if)
    delete_what_if = _api_method(endpoints.what_ifs.delete_what_if)

    share = _api_method(endpoints.shares.share)
    shares = _listed(endpoints.shares.shares)
    revoke_share = _api_method(endpoints.shares.revoke_share)

    webhooks = _listed(endpoints.webhooks.webhooks)
    create_webhook = _api_method(endpoints.webhooks.create_webhook)
    webhook = _api_method(endpoints.webhooks.webhook)
    change_webhook = _api_method(endpoints.webhooks.change_webhook)
    delete_webhook = _api_method(endpoints.webhooks.delete_webhook)
    rotate_webhook_secret = _api_method(endpoints.webhooks.rotate_webhook_secret)
    send_test_event = _api_method(endpoints.webhooks.send_test_event)
    webhook_deliveries = _listed(endpoints.webhooks.webhook_deliveries)
    webhook_delivery = _api_method(endpoints.webhooks.webhook_delivery)
    redeliver = _api_method(endpoints.webhooks.redeliver)

    import_files = _api_method(endpoints.transfers.import_files)
    export = _listed(endpoints.transfers.export)
    export_many = _listed(endpoints.bulk_actions.export_many)
    start_bulk_action = _api_method(endpoints.bulk_actions.start_bulk_action)
    bulk_action = _api_method(endpoints.bulk_actions.bulk_action)
    cancel_bulk_action = _api_method(endpoints.bulk_actions.cancel_bulk_action)
    estimate_bulk_compression = _api_method(endpoints.bulk_actions.estimate_bulk_compression)

    def execute(self, api_call: ApiCall[T]) -> T:
        """Sends an API call and returns its response. While writes wait in the spool, further ones do too."""
        sender, spooled = self._sender, api_call.spooled
        if sender is None or spooled is None:
            return http_messages.parse_response(api_call, self._send(api_call), self._server)
        api_call = spooled_writes.with_times(api_call)
        request = http_messages.request_of(self._http, api_call)
        if not sender.spool.first(self._server):
            patience = RetryLimit(sender.spool.patience, QUICK_ATTEMPTS)
            outcome, attempts = self._deliver(api_call, request, patience)
            if not is_outage(outcome):
                response = http_messages.checked(outcome, api_call, attempts, self._server)
                return http_messages.parse_response(api_call, response, self._server)
        key = request.headers["Idempotency-Key"]
        sender.put(Write(self._server, api_call.path, key, request.content))
        return spooled()

    def flush(self, timeout: float = 60.0) -> int:
        """Sends the writes in the spool as soon as the server is back. Returns how many writes still wait.

        Args:
            timeout: in seconds.
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
            TimeoutError: when the run has not ended by then; it continues.
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

    def _items(self, described: Pages[T] | Stream[T] | LiveStream[T]) -> Iterator[T]:
        if isinstance(described, Pages):
            api_call: ApiCall[Page[T]] | None = described.first
            while api_call is not None:
                page = self.execute(api_call)
                yield from page.items
                api_call = described.after(page)
            return
        if isinstance(described, LiveStream):
            yield from self._followed(described)
            return
        response, decode = self._send(described.api_call, stream=True), described.decoder()
        try:
            for chunk in response.iter_bytes():
                yield from decode(chunk)
            yield from decode(None)
        except httpx.RequestError as error:
            raise http_messages.unavailable(error, described.api_call, self._server) from error
        finally:
            response.close()

    def _followed(self, followed: LiveStream[T]) -> Iterator[T]:
        reader = followed.reader()
        while True:
            response = self._send(reader.resumed(followed.first), stream=True)
            try:
                for chunk in response.iter_bytes():
                    yield from reader.feed(chunk)
            except httpx.RequestError:
                pass  # it goes on with the next connection
            finally:
                response.close()
            time.sleep(http_messages.RECONNECT_SECONDS)

    def _send(self, api_call: ApiCall[Any], *, stream: bool = False) -> httpx.Response:
        request = http_messages.request_of(self._http, api_call)
        patience = patience_of(self._outage, self._timeout)
        sender = self._sender
        if sender and sender.spool.first(self._server) is not None:
            begun = time.monotonic()
            if why := sender.send_all(patience):
                raise spooled_writes.not_spoolable(sender.spool, self._server, why, api_call)
            patience = replace(patience, seconds=patience.seconds - (time.monotonic() - begun))
        outcome, attempts = self._deliver(api_call, request, patience, stream=stream)
        return http_messages.checked(outcome, api_call, attempts, self._server)

    def _deliver(
        self, api_call: ApiCall[Any], request: httpx.Request, patience: RetryLimit, *, stream: bool = False
    ) -> tuple[Outcome, Attempts]:
        """Sends a request until its outcome is final."""
        attempts = Attempts(api_call, self._timeout, patience)
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
