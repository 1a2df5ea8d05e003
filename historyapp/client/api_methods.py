"""The methods of both clients: one for each API call of :mod:`historyapp.client.endpoints`.

A client has the methods ``execute`` and ``_items``. ``_RETURNS`` and ``_RETURNS_LIST`` are the generic types
that ``help`` shows for their return values. Type checkers choose the overload by the client's class.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import httpx

from historyapp.client import endpoints
from historyapp.client.api_call import ApiCall, LiveStream, Pages, Stream
from historyapp.client.http_messages import ServerConnection, as_method

P = ParamSpec("P")
T = TypeVar("T")
Blocking = ServerConnection[httpx.Client]
Async = ServerConnection[httpx.AsyncClient]


class ApiMethod(Generic[P, T]):
    """A method that sends an API call and returns its response, or in the async client an awaitable."""

    def __init__(self, describe: Callable[P, ApiCall[T]]) -> None:
        self._describe = describe

    @overload
    def __get__(self, client: None, kind: type[Any]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Blocking, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Async, kind: type[Any]) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, kind: type[Any]) -> Any:
        method = _method(self._describe, "execute", kind._RETURNS)
        return method if client is None else MethodType(method, client)


class ListMethod(Generic[P, T]):
    """A method that yields the items of a list or a stream, in the async client for ``async for``."""

    def __init__(self, describe: Callable[P, Pages[T] | Stream[T] | LiveStream[T]]) -> None:
        self._describe = describe

    @overload
    def __get__(self, client: None, kind: type[Any]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Blocking, kind: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Async, kind: type[Any]) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, kind: type[Any]) -> Any:
        method = _method(self._describe, "_items", kind._RETURNS_LIST)
        return method if client is None else MethodType(method, client)


@cache
def _method(describe: Callable[..., Any], send: str, returns: Any) -> Callable[..., Any]:
    """The function behind a method, with the name, docstring and signature of the endpoint's function."""
    return as_method(
        describe, lambda self, /, *args, **kwargs: getattr(self, send)(describe(*args, **kwargs)), returns
    )


class ApiMethods:
    """The methods of :class:`historyapp.client.Playhead` and :class:`historyapp.client.AsyncPlayhead`."""

    create_session = ApiMethod(endpoints.sessions.create_session)
    sessions = ListMethod(endpoints.sessions.sessions)
    session_facets = ApiMethod(endpoints.sessions.session_facets)
    session = ApiMethod(endpoints.sessions.session)
    change_session = ApiMethod(endpoints.sessions.change_session)
    annotate_session = ApiMethod(endpoints.sessions.annotate_session)
    archive_session = ApiMethod(endpoints.sessions.archive_session)
    erase_session = ApiMethod(endpoints.sessions.erase_session)
    fork = ApiMethod(endpoints.sessions.fork)

    append = ApiMethod(endpoints.entries.append)
    register_action = ApiMethod(endpoints.entries.register_action)
    register_result = ApiMethod(endpoints.entries.register_result)
    append_step = ApiMethod(endpoints.entries.append_step)
    entries = ListMethod(endpoints.entries.entries)
    entry = ApiMethod(endpoints.entries.entry)

    episodes = ListMethod(endpoints.episodes.episodes)
    full_episodes = ListMethod(endpoints.episodes.full_episodes)
    episode = ApiMethod(endpoints.episodes.episode)
    recorded_request = ApiMethod(endpoints.episodes.recorded_request)
    recorded_messages = ListMethod(endpoints.episodes.recorded_messages)
    origins = ApiMethod(endpoints.episodes.origins)
    find = ListMethod(endpoints.find.find)
    search = ListMethod(endpoints.search.search)
    search_suggestions = ApiMethod(endpoints.search.search_suggestions)
    saved_searches = ListMethod(endpoints.saved_searches.saved_searches)
    save_search = ApiMethod(endpoints.saved_searches.save_search)
    rename_search = ApiMethod(endpoints.saved_searches.rename_search)
    delete_search = ApiMethod(endpoints.saved_searches.delete_search)
    progress = ApiMethod(endpoints.episodes.progress)
    history = ApiMethod(endpoints.episodes.history)
    messages = ApiMethod(endpoints.episodes.messages)

    context = ApiMethod(endpoints.contexts.context)
    serve_context = ApiMethod(endpoints.contexts.serve_context)
    snapshots = ListMethod(endpoints.contexts.snapshots)
    snapshot = ApiMethod(endpoints.contexts.snapshot)
    snapshot_request = ApiMethod(endpoints.contexts.snapshot_request)
    snapshot_diff = ApiMethod(endpoints.contexts.snapshot_diff)

    call_model = ListMethod(endpoints.model_calls.call_model)

    ledger = ApiMethod(endpoints.ledger.ledger)
    step_ledgers = ListMethod(endpoints.ledger.step_ledgers)
    overview = ApiMethod(endpoints.overview.overview)
    figures = ApiMethod(endpoints.figures.figures)

    rewind = ApiMethod(endpoints.rewinds.rewind)
    undo_rewind = ApiMethod(endpoints.rewinds.undo_rewind)
    rewinds = ListMethod(endpoints.rewinds.rewinds)
    summaries = ListMethod(endpoints.summaries.summaries)
    write_summary = ApiMethod(endpoints.summaries.write_summary)

    events = ApiMethod(endpoints.events.events)
    follow_events = ListMethod(endpoints.events.follow_events)
    follow_session = ListMethod(endpoints.events.follow_session)

    compare_sessions = ApiMethod(endpoints.run_comparisons.compare_sessions)
    compared_steps = ListMethod(endpoints.run_comparisons.compared_steps)

    notes = ListMethod(endpoints.notes.notes)
    write_note = ApiMethod(endpoints.notes.write_note)
    delete_note = ApiMethod(endpoints.notes.delete_note)

    compress = ApiMethod(endpoints.compressions.compress)
    compressions = ListMethod(endpoints.compressions.compressions)
    compression = ApiMethod(endpoints.compressions.compression)
    cancel_compression = ApiMethod(endpoints.compressions.cancel_compression)
    retry_compression = ApiMethod(endpoints.compressions.retry_compression)
    estimate_compression = ApiMethod(endpoints.compressions.estimate_compression)
    compare = ApiMethod(endpoints.compressions.compare)
    comparison = ApiMethod(endpoints.compressions.comparison)
    comparison_rows = ListMethod(endpoints.compressions.comparison_rows)

    project = ApiMethod(endpoints.projects.project)
    change_project = ApiMethod(endpoints.projects.change_project)
    caps = ListMethod(endpoints.projects.caps)
    set_caps = ApiMethod(endpoints.projects.set_caps)

    what_ifs = ListMethod(endpoints.what_ifs.what_ifs)
    save_what_if = ApiMethod(endpoints.what_ifs.save_what_if)
    delete_what_if = ApiMethod(endpoints.what_ifs.delete_what_if)

    share = ApiMethod(endpoints.shares.share)
    shares = ListMethod(endpoints.shares.shares)
    revoke_share = ApiMethod(endpoints.shares.revoke_share)

    webhooks = ListMethod(endpoints.webhooks.webhooks)
    create_webhook = ApiMethod(endpoints.webhooks.create_webhook)
    webhook = ApiMethod(endpoints.webhooks.webhook)
    change_webhook = ApiMethod(endpoints.webhooks.change_webhook)
    delete_webhook = ApiMethod(endpoints.webhooks.delete_webhook)
    rotate_webhook_secret = ApiMethod(endpoints.webhooks.rotate_webhook_secret)
    send_test_event = ApiMethod(endpoints.webhooks.send_test_event)
    webhook_deliveries = ListMethod(endpoints.webhooks.webhook_deliveries)
    webhook_delivery = ApiMethod(endpoints.webhooks.webhook_delivery)
    redeliver = ApiMethod(endpoints.webhooks.redeliver)

    import_files = ApiMethod(endpoints.transfers.import_files)
    export = ListMethod(endpoints.transfers.export)
    export_many = ListMethod(endpoints.bulk_actions.export_many)
    start_bulk_action = ApiMethod(endpoints.bulk_actions.start_bulk_action)
    bulk_action = ApiMethod(endpoints.bulk_actions.bulk_action)
    cancel_bulk_action = ApiMethod(endpoints.bulk_actions.cancel_bulk_action)
    estimate_bulk_compression = ApiMethod(endpoints.bulk_actions.estimate_bulk_compression)

    evaluate = ApiMethod(endpoints.evaluations.evaluate)
    evaluation = ApiMethod(endpoints.evaluations.evaluation)
    evaluations = ListMethod(endpoints.evaluations.evaluations)
    cancel_evaluation = ApiMethod(endpoints.evaluations.cancel_evaluation)
