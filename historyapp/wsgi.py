"""The WSGI application, for granian (``playhead up``) or any other WSGI server."""

import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import django
from django.conf import settings
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler, get_script_name
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection, reset_queries
from django.db.backends.signals import connection_created
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver, set_script_prefix
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")

API, API_PAGES = "/api/", "/api/v1/docs"
MAX_PATH = 200
"""The longest path, in characters, whose view is cached."""


class ApiHandler(WSGIHandler):
    """Django's handler, with only the middleware that agents' requests need.

    The middleware for pages (cookies, sign-in, forms, content policy) would take a fifth of an append's time.
    """

    _get_response: Callable[..., Any]

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        handler: Callable[..., Any] = convert_exception_to_response(self._get_response)
        for path in reversed(settings.API_MIDDLEWARE):
            handler = convert_exception_to_response(import_string(path)(handler))
        self._middleware_chain = handler
        self._headers = [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", settings.SECURE_REFERRER_POLICY),
            ("Cross-Origin-Opener-Policy", settings.SECURE_CROSS_ORIGIN_OPENER_POLICY),
            ("X-Frame-Options", settings.X_FRAME_OPTIONS),
        ]
        """Those that Django's middleware adds to pages. A test compares them."""

    def __call__(self, variables: WSGIEnvironment, start_response: StartResponse) -> HttpResponseBase:
        """As Django's, for responses without cookies and files."""
        if variables.get("SCRIPT_NAME"):
            set_script_prefix(get_script_name(variables))
        request_started.send(sender=self.__class__, environ=variables)
        response = self.get_response(self.request_class(variables))
        # Django's way to add headers to a response takes longer, and an append waits for it.
        headers = [*response.headers.items(), *self._headers]
        start_response(f"{response.status_code} {response.reason_phrase}", headers)
        return response

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Finds the view. The result is cached, because an agent uses the same few addresses."""
        path = request.path_info
        match = _known_match(path) if len(path) <= MAX_PATH else get_resolver().resolve(path)
        request.resolver_match = match
        return match


@lru_cache(maxsize=1024)
def _known_match(path: str) -> ResolverMatch:
    return get_resolver().resolve(path)


def _application() -> Callable[..., Iterable[bytes]]:
    django.setup(set_prefix=False)
    from historyapp.services.long_transactions import limit_transactions
    from historyapp.services.statement_limits import limit_run_time

    connection_created.connect(limit_run_time)
    limit_transactions()
    pages, api = WSGIHandler(), ApiHandler()
    # The next request sets its own URLconf, and neither kind of cache has anything to close.
    request_finished.disconnect(reset_urlconf)
    request_finished.disconnect(close_caches)
    if not settings.DEBUG and connection.vendor == "sqlite":
        # close_old_connections also runs at the end of each request, and a file does not disappear in
        # between, as PostgreSQL may. reset_queries is only needed with DEBUG.
        request_started.disconnect(close_old_connections)
        request_started.disconnect(reset_queries)

    def application(request: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = request.get("PATH_INFO", "")
        handler = api if path.startswith(API) and not path.startswith(API_PAGES) else pages
        response: Iterable[bytes] = handler(request, start_response)
        return response

    return application


application = _application()
