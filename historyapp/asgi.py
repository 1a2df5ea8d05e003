"""The ASGI application, for granian (``playhead up``) or any other ASGI server.

It runs the WSGI application in threads; see :mod:`historyapp.front.application`.
"""

from django.conf import settings
from django.urls import get_resolver

from historyapp import wsgi  # first, because it sets up Django
from historyapp.front.application import Front
from historyapp.front.large_requests import RequestProcesses
from historyapp.front.limits import Limits
from historyapp.front.model_calls import ModelCallProcess
from historyapp.front.pool_names import CALLS, LARGE_REQUESTS
from historyapp.front.request_runner import Processes

THREADS = 4
"""The default of ``playhead up --threads``."""


def make_front(threads: int) -> Front:
    """The server's application, with the limits from the settings. Loads all modules that it needs.

    Raises:
        ImportError: when a module of pages or endpoints cannot be loaded. Otherwise each request would fail.
    """
    get_resolver().url_patterns  # noqa: B018
    limits = Limits(
        max_body=settings.PLAYHEAD_MAX_BODY,
        body_seconds=settings.PLAYHEAD_BODY_SECONDS,
        stall_seconds=settings.PLAYHEAD_STALL_SECONDS,
        min_rate=settings.PLAYHEAD_MIN_RATE,
        queue_seconds=settings.PLAYHEAD_QUEUE_SECONDS,
        client_requests=settings.PLAYHEAD_CLIENT_REQUESTS,
        client_calls=settings.PLAYHEAD_CLIENT_CALLS,
        client_bytes=settings.PLAYHEAD_CLIENT_BYTES,
        client_streams=settings.PLAYHEAD_CLIENT_STREAMS,
        client_connections=settings.PLAYHEAD_CLIENT_CONNECTIONS,
        min_free_disk=settings.PLAYHEAD_DISK_ALARM,
        client_unread=settings.PLAYHEAD_CLIENT_UNREAD,
        all_unread=settings.PLAYHEAD_ALL_UNREAD,
    )
    idle_seconds = settings.PLAYHEAD_IDLE_SECONDS
    processes: dict[str, Processes] = {
        LARGE_REQUESTS: RequestProcesses(idle_seconds),
        CALLS: ModelCallProcess(idle_seconds),
    }
    return Front(wsgi.application, limits, threads, processes)


application = make_front(THREADS)
